"""Longest tasks of the page's main thread while many charts load and are scrolled over.

``python benchmarks/page_tasks.py [--charts N] [--rounds N] [--compare]``. The browser itself reports tasks
from 50 ms on; what is below is not seen and given as 0. One run with that many tags of 1,000 steps, or, with
``--compare``, two beside each other on Compare; 1440 x 900, no GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile

from logs import logs
from page_first_charts import FLAGS, await_port, chromium, context, free_port, process, script
from playwright.sync_api import Browser, sync_playwright

PATIENCE_MS = 60_000
WATCH = """window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map(({ duration }) => duration)))
  .observe({ type: 'longtask', buffered: true });"""
SCROLL = """async () => {
  const main = document.getElementById('main');
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  let before = await frame();
  while (main.scrollTop + main.clientHeight < main.scrollHeight - 1) {
    main.scrollTop += 120;
    const now = await frame();
    times.push(now - before);
    before = now;
  }
  return times;
}"""
TAKE = "() => new Promise((done) => setTimeout(() => done(window.tasks.splice(0)), 100))"


def main() -> None:
    """Measure and print medians over rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--charts", type=int, default=637)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compare", action="store_true", help="two runs on Compare, not one on Scalars")
    arguments = parser.parse_args()
    page = "compare?part=curves" if arguments.compare else "scalars"
    logdir, port = logs(2 if arguments.compare else 1, arguments.charts, 1000), free_port()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as cache:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        command = [script("stepscope"), "serve", str(logdir), "--port", str(port), "--no-token"]
        with process(command, XDG_CACHE_HOME=cache):
            await_port(port)
            rounds = [measure(browser, port, page) for _ in range(arguments.rounds)]
        browser.close()
    for name in rounds[0]:
        found = [each[name] for each in rounds]
        print(f"{name}: {statistics.median(found):.0f} ms, from {min(found):.0f} to {max(found):.0f}")
    print(json.dumps({"load": os.getloadavg()[0], "rounds": rounds}))


def measure(browser: Browser, port: int, view: str) -> dict[str, float]:
    """Return the longest task of one load and one scroll to the end, and the frames of the latter."""
    with context(browser) as page:
        page.add_init_script(WATCH)
        page.goto(f"http://127.0.0.1:{port}/#/{view}", wait_until="commit")
        page.wait_for_function("() => window.__stepscope_test?.complete()", timeout=PATIENCE_MS)
        load = page.evaluate(TAKE)
        frames = sorted(page.evaluate(SCROLL))
        scroll = page.evaluate(TAKE)
    return {
        "longest task on load": max(load, default=0.0),
        "longest task while scrolling": max(scroll, default=0.0),
        "median frame while scrolling": statistics.median(frames),
        "95th percentile of frames while scrolling": frames[int(len(frames) * 0.95)],
        "longest frame while scrolling": frames[-1],
    }


if __name__ == "__main__":
    main()
