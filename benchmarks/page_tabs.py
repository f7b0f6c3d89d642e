"""Eight tabs on a run that trains: does the memory of the server and of the tabs stay flat?

``python benchmarks/page_tabs.py [--minutes 10] [--tabs 8] [--no-peer]``. A process records 20 scalars
20 times a second, a histogram a second and an image every five. The tabs show the page's views; those of the
peer, TensorBoard, its own, reloading every 30 s as it does. Each tool has its own browser and log, and they
run one after the other.

Each half minute: what the server holds (resident, and of that anonymous), what all renderers hold (private,
after a collection), their JavaScript heaps and DOM nodes. What grows is a line through the samples once the
views are open and the caches filled. The log's size stands beside it: a server that keeps every point must
grow by some 24 bytes for each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from page_first_charts import FLAGS, await_port, chromium, free_port, process, script
from page_scale import private_mb, status_mb
from playwright.sync_api import Browser, Error, Page, sync_playwright

VIEWS = (
    "scalars",
    "overview",
    "distributions",
    "media",
    "scalars?sm=0.9",
    "overview",
    "distributions",
    "scalars",
)
SAMPLE_S = 30.0
WARM_S = 90.0
"""Growth is measured from then on: views are open, caches are filled."""
TAGS, PACE_S = 20, 0.05
TRAIN = """
import math, random, sys, time
import numpy as np
import stepscope as ss
end = time.monotonic() + float(sys.argv[2])
with ss.Run(sys.argv[1]) as run:
    for step in range(1 << 60):
        for tag in range({tags}):
            run.scalar(f"part{{tag % 4}}/metric{{tag}}", math.exp(-step / 4000) + random.random() / 9, step)
        if step % 20 == 0:
            run.histogram("weights", np.random.normal(size=2_000), step)
        if step % 100 == 0:
            run.image("sample", np.random.randint(0, 255, (64, 64, 3), "uint8"), step)
        time.sleep({pace})
        if time.monotonic() > end:
            break
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--tabs", type=int, default=8)
    parser.add_argument("--no-peer", action="store_true")
    arguments = parser.parse_args()
    found = {"stepscope": measure("stepscope", arguments.minutes * 60, arguments.tabs)}
    if not arguments.no_peer:
        found["tensorboard"] = measure("tensorboard", arguments.minutes * 60, arguments.tabs)
    for tool, samples in found.items():
        tell(tool, samples)
    print(json.dumps({"load": os.getloadavg()[0], "samples": found}))


def measure(tool: str, seconds: float, tabs: int) -> list[dict[str, float]]:
    """Return samples of one tool, each with its second."""
    port = free_port()
    with tempfile.TemporaryDirectory() as cache, sync_playwright() as playwright:
        logdir = Path(cache) / "logs"
        program = TRAIN.format(tags=TAGS, pace=PACE_S)
        command = [sys.executable, "-c", program, str(logdir / "live"), str(seconds + 60)]
        training = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            with process(serving(tool, logdir, port), XDG_CACHE_HOME=cache) as server:
                await_port(port)
                pages = [opened(browser, port, tool, at) for at in range(tabs)]
                return watch(browser, pages, server.pid, logdir, seconds)
        finally:
            browser.close()
            training.kill()
            training.wait()


def serving(tool: str, logdir: Path, port: int) -> list[str]:
    """Return the command of a server."""
    if tool == "stepscope":
        return [script("stepscope"), "serve", str(logdir), "--port", str(port), "--no-token"]
    return [
        *(sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir), "--port", str(port)),
        *("--reload_interval", "5"),
    ]


def opened(browser: Browser, port: int, tool: str, at: int) -> Page:
    """Open a tab; each belongs to a context of its own, so that no renderer is shared."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    view = VIEWS[at % len(VIEWS)] if tool == "stepscope" else ("timeseries", "scalars")[at % 2]
    address = f"http://127.0.0.1:{port}/#{'/' if tool == 'stepscope' else ''}{view}"
    for rest in range(4, -1, -1):  # on a busy machine a socket that the browser opened ahead may be gone
        try:
            page.goto(address, timeout=120_000)
            break
        except Error:
            if not rest:
                raise
            page.wait_for_timeout(1_000)
    if tool == "tensorboard":
        page.evaluate("localStorage.setItem('_tb_global_settings', JSON.stringify({autoReload: true}))")
        page.reload()
    return page


def watch(
    browser: Browser, pages: list[Page], server: int, logdir: Path, seconds: float
) -> list[dict[str, float]]:
    """Take samples until the time is over."""
    begun, samples = time.monotonic(), []
    while (now := time.monotonic() - begun) < seconds:
        pages[0].wait_for_timeout(1_000 * min(SAMPLE_S, seconds - now))
        sample = {"second": time.monotonic() - begun, **sizes(browser, pages)}
        sample |= {"server_mb": status_mb(server, "VmRSS"), "server_anon_mb": status_mb(server, "RssAnon")}
        sample["log_mb"] = sum(each.stat().st_size for each in logdir.rglob("*") if each.is_file()) / 2**20
        samples.append(sample)
        print(json.dumps({name: round(value, 1) for name, value in sample.items()}), flush=True)
    return samples


def sizes(browser: Browser, pages: list[Page]) -> dict[str, float]:
    """Return what all tabs hold together, after a collection."""
    heap = nodes = 0.0
    for page in pages:
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        session.send("Performance.enable")
        told: Any = {
            each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
        }
        heap, nodes = heap + told["JSHeapUsedSize"] / 2**20, nodes + told["Nodes"]
        session.detach()
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    tabs = sum(private_mb(each["id"]) for each in processes if each["type"] == "renderer")
    return {"tabs_mb": tabs, "heap_mb": heap, "nodes": nodes}


def tell(tool: str, samples: list[dict[str, float]]) -> None:
    """Print what each figure was in the end, and by how much it grows."""
    steady = [each for each in samples if each["second"] >= WARM_S] or samples
    minutes = np.array([each["second"] / 60 for each in steady])
    print(f"\n{tool}, from second {steady[0]['second']:.0f} to {steady[-1]['second']:.0f}")
    for name in samples[0]:
        values = np.array([each[name] for each in steady])
        slope = np.polyfit(minutes, values, 1)[0] if len(steady) > 1 else 0.0
        if name != "second":
            ratio = values[-1] / values[0] if values[0] else 1.0
            print(
                f"  {name:<15} {values[0]:8.1f} -> {values[-1]:8.1f}  ({ratio:.2f} x), {slope:+.2f} a minute"
            )


if __name__ == "__main__":
    main()
