"""Seconds from typing the command to the first charts drawn, beside TensorBoard, in the same browser.

``python benchmarks/page_first_charts.py LOGDIR [--rounds N] [--running]``. Each round starts each tool as a
new process (the browser runs already, as a user's does) and opens its page in a new context once its port
answers.
TensorBoard loads in the background and does not refresh by itself, so its page is reloaded, as a user would,
until its charts hold every run. Drawn means: the first series request is answered and two animation frames
have passed. A second figure is the time until the charts on the screen hold all runs. With ``--running`` both
servers have read the directory before, and the clock starts when the page is opened.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from logs import LARGE, logs
from playwright.sync_api import Browser, Page, Request, Response, sync_playwright
from playwright.sync_api import TimeoutError as BrowserTimeoutError

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PATIENCE_S = 120.0
AFTER_RUNS_S = 3.0
"""TensorBoard names runs before it has read them to their end."""


def main() -> None:
    """Measure both and print one line each and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("logdir", type=Path, nargs="?", help="default: 50 runs of 20 tags of 10,000 steps")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--running", action="store_true", help="servers that have read everything")
    arguments = parser.parse_args()
    logdir, running = arguments.logdir or logs(*LARGE), arguments.running
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=[*FLAGS, f"--disk-cache-dir={profile}"]
        )
        times: dict[str, list[tuple[float, float]]] = {"stepscope": [], "tensorboard": []}
        for _ in range(arguments.rounds):
            times["stepscope"].append(stepscope_times(browser, logdir, running=running))
            times["tensorboard"].append(tensorboard_times(browser, logdir, running=running))
        browser.close()
    first = {tool: statistics.median(pair[0] for pair in pairs) for tool, pairs in times.items()}
    full = {tool: statistics.median(pair[1] for pair in pairs) for tool, pairs in times.items()}
    for what, figure in (("first chart drawn", first), ("charts on screen hold all runs", full)):
        print(
            f"{what}: stepscope {figure['stepscope']:.2f} s, tensorboard {figure['tensorboard']:.2f} s, "
            f"ratio {figure['tensorboard'] / figure['stepscope']:.1f} (median of {arguments.rounds})"
        )
    print(json.dumps({"first": first, "full": full, "rounds": times}))


def stepscope_times(browser: Browser, logdir: Path, *, running: bool = False) -> tuple[float, float]:
    """Seconds to the first chart and to all runs on the visible charts, with an empty cache."""
    port = free_port()
    with tempfile.TemporaryDirectory() as cache:
        command = [script("stepscope"), "serve", str(logdir), "--port", str(port), "--no-token"]
        start = time.perf_counter()
        with process(command, XDG_CACHE_HOME=cache), context(browser) as page:
            await_port(port)
            if running:
                await_runs(f"http://127.0.0.1:{port}/api/v1/changes", lambda told: not told["loading"])
                start = time.perf_counter()
            page.goto(f"http://127.0.0.1:{port}/#/scalars", wait_until="commit")
            page.wait_for_function("() => window.__stepscope_test?.firstChart()", timeout=PATIENCE_S * 1000)
            page.evaluate(TWO_FRAMES)
            first = time.perf_counter() - start
            page.wait_for_function("() => window.__stepscope_test?.complete()", timeout=PATIENCE_S * 1000)
            page.evaluate(TWO_FRAMES)
            return first, time.perf_counter() - start


def tensorboard_times(browser: Browser, logdir: Path, *, running: bool = False) -> tuple[float, float]:
    """The same for TensorBoard with its fast data server."""
    port = free_port()
    runs = len({path.parent for path in logdir.glob("**/*tfevents*")})
    start = time.perf_counter()
    first = 0.0
    with (
        process([script("tensorboard"), "--logdir", str(logdir), "--port", str(port)]),
        context(browser) as page,
    ):
        await_port(port)
        if running:
            await_runs(f"http://127.0.0.1:{port}/data/runs", lambda told: len(told) >= runs)
            time.sleep(AFTER_RUNS_S)
            start = time.perf_counter()
        page.goto(f"http://127.0.0.1:{port}/#timeseries", wait_until="commit")
        while time.perf_counter() - start < PATIENCE_S:
            held = tensorboard_runs(page)
            if held and not first:
                first = time.perf_counter() - start
            if held >= runs:
                return first, time.perf_counter() - start
            page.reload(wait_until="commit")
    sys.exit(f"tensorboard drew no complete chart of {logdir} within {PATIENCE_S:.0f} s")


def tensorboard_runs(page: Page) -> int:
    """Wait until the page that is loading has drawn; return the fewest whole runs on one of its charts."""
    pending: set[Request] = set()
    answers: list[Response] = []
    seen: list[Any] = [
        ("request", lambda request: pending.add(request) if "/timeSeries" in request.url else None),
        ("requestfinished", lambda request: pending.discard(request)),  # playwright marks its listeners
        ("response", lambda answer: answers.append(answer) if "/timeSeries" in answer.url else None),
    ]
    for event, listener in seen:
        page.on(event, listener)
    with contextlib.suppress(BrowserTimeoutError):
        page.wait_for_selector("line-chart canvas", timeout=5000)
        while not answers or pending:
            page.wait_for_timeout(10)
    page.evaluate(TWO_FRAMES)
    for event, listener in seen:
        page.remove_listener(event, listener)
    held = [complete_runs(part) for answer in answers for part in answer.json() if part.get("runToSeries")]
    return min(held, default=0)


def complete_runs(part: dict[str, Any]) -> int:
    """Number of runs of one chart that reach the last step any of them has."""
    last = [series[-1]["step"] for series in part["runToSeries"].values() if series]
    return sum(step >= max(last) for step in last)


# --- processes and pages ----------------------------------------------------------------------------


@contextlib.contextmanager
def process(command: list[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends."""
    import os

    running = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        yield running
    finally:
        running.terminate()
        running.wait(timeout=20)


@contextlib.contextmanager
def context(browser: Browser) -> Iterator[Page]:
    """Open a page in a context of its own: nothing is cached from before."""
    holder = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        yield holder.new_page()
    finally:
        holder.close()


def await_port(port: int) -> None:
    """Wait until something listens there."""
    deadline = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.005)
    sys.exit(f"nothing listens on port {port} after {PATIENCE_S:.0f} s")


def await_runs(url: str, done: Callable[[Any], bool]) -> None:
    """Ask a server until it says that it has what is wanted."""
    deadline = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(url, timeout=5) as answer:
            if done(json.loads(answer.read())):
                return
        time.sleep(0.1)
    sys.exit(f"{url} did not say that everything is read within {PATIENCE_S:.0f} s")


def free_port() -> int:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return int(holder.getsockname()[1])


def script(name: str) -> str:
    """Path of a command of the running Python's environment."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name


def chromium() -> str:
    found = next(
        filter(
            None,
            map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")),
        ),
        None,
    )
    return found or sys.exit("no Chromium found\nhint: scripts/browser.sh installs one")


if __name__ == "__main__":
    main()
