"""The page on 500 runs of 1,000 tags: how fast lists filter, how it scrolls and zooms, what it holds.

``python benchmarks/page_scale.py [--runs N] [--tags N] [--steps N]``. The logs are written on first use.
Times are taken inside the page: of a filter from the key to the second animation frame after it, which
is when the result has been painted; of scrolling and zooming from frame to frame. Memory is that of the
renderer's process, as the system counts it (private, without what it shares with others), beside the
JavaScript heap, and the server's as the system counts it at its largest.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from logs import CACHE, write_run
from page_first_charts import FLAGS, await_port, chromium, free_port, process, script
from playwright.sync_api import Browser, Page, sync_playwright

PATIENCE_MS = 120_000
DIFFERENT = 25
FILTERS = ("metric_9", "metric_99", "metric_(1|2)5$", "9{2}", "nothing", "")
QUERIES = ("run1", "run12", "-run1", "points>5 run4", "nothing", "")
FILTER_MS = """async ([id, text]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const field = document.getElementById(id);
  await frame();
  const start = performance.now();
  field.value = text;
  field.dispatchEvent(new Event('input', {bubbles: true}));
  await frame();
  await frame();
  return performance.now() - start;
}"""
FRAMES = """async ([what, count]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const main = document.getElementById('main');
  const act = {
    scroll: (at) => { main.scrollTop += 60; },
    rail: (at) => { document.querySelector('.rail .list').scrollTop += 60; },
    zoom: (at) => {
      const way = at < count / 2 ? 'in' : 'out';
      if (at % 10 === 0) document.querySelector(`[aria-label="Zoom ${way}"]`).click();
    },
  }[what];
  const times = [];
  let before = await frame();
  for (let at = 0; at < count; at += 1) {
    act(at);
    const now = await frame();
    times.push(now - before);
    before = now;
  }
  return times;
}"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--tags", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    logdir = many_runs(arguments.runs, arguments.tags, arguments.steps)
    port = free_port()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as cache:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        command = [script("stepscope"), "serve", str(logdir), "--port", str(port), "--no-token"]
        with process(command, XDG_CACHE_HOME=cache) as server:
            await_port(port)
            found = measure(browser, port)
            found["server_peak_mb"] = status_mb(server.pid, "VmHWM")
            found["server_now_mb"] = status_mb(server.pid, "VmRSS")
        browser.close()
    for name, value in found.items():
        print(f"{name}: {value:.1f}" if isinstance(value, float) else f"{name}: {value}")
    print(json.dumps(found))


def many_runs(runs: int, tags: int, steps: int) -> Path:
    """Return a directory with those logs, written on first use: 25 different runs, the others are copies."""
    directory = CACHE / f"many-{runs}x{tags}x{steps}"
    if not directory.exists():
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for run in range(runs):
            if run < DIFFERENT:
                write_run(partial / f"run{run:03d}", tags, steps, random.Random(run))
            else:
                shutil.copytree(partial / f"run{run % DIFFERENT:03d}", partial / f"run{run:03d}")
        partial.rename(directory)
    return directory


def measure(browser: Browser, port: int) -> dict[str, Any]:
    """Open the page of a server that has just started and return every figure of it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    start = time.perf_counter()
    page.goto(f"http://127.0.0.1:{port}/#/scalars", wait_until="commit")
    page.wait_for_function("() => window.__stepscope_test?.firstChart()", timeout=PATIENCE_MS)
    first_s = time.perf_counter() - start
    page.wait_for_function("() => window.__stepscope_test?.complete()", timeout=PATIENCE_MS)
    found: dict[str, Any] = {"first_chart_s": first_s, "complete_s": time.perf_counter() - start}
    found["filter_charts_ms"] = [page.evaluate(FILTER_MS, ["tag-filter", text]) for text in FILTERS]
    found["filter_runs_ms"] = [page.evaluate(FILTER_MS, ["run-query", text]) for text in QUERIES]
    page.wait_for_function("() => window.__stepscope_test?.complete()", timeout=PATIENCE_MS)
    for what, count in (("scroll", 120), ("rail", 120), ("zoom", 80)):
        found |= frames(page, what, count)
    page.wait_for_function("() => window.__stepscope_test?.complete()", timeout=PATIENCE_MS)
    found |= memory(page, browser)
    context.close()
    return found


def frames(page: Page, what: str, count: int) -> dict[str, float]:
    """Return the middle, the 95th percentile and the longest of the frames while something goes on."""
    times = sorted(page.evaluate(FRAMES, [what, count]))
    return {
        f"{what}_frame_ms": statistics.median(times),
        f"{what}_frame_p95_ms": times[int(len(times) * 0.95)],
        f"{what}_frame_longest_ms": times[-1],
    }


def memory(page: Page, browser: Browser) -> dict[str, float]:
    """Return what the tab holds after a collection: its heap, and its process's own pages."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    tab = max(private_mb(each["id"]) for each in processes if each["type"] == "renderer")
    return {"tab_heap_mb": metrics["JSHeapUsedSize"] / 2**20, "tab_mb": tab, "dom_nodes": metrics["Nodes"]}


def private_mb(pid: int) -> float:
    """Return the memory of a process that it shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def status_mb(pid: int, field: str) -> float:
    """Return a figure of a process's status in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


if __name__ == "__main__":
    main()
