"""Eight tabs on a run that trains: does the memory of the server and of the tabs stay flat?

``python benchmarks/page_tabs.py [--minutes 10] [--tabs 8] [--no-peer]``. A process records 20 scalars
20 times a second, a histogram a second and an image every five. The tabs show the page's views; those of the
peer, TensorBoard, its own, reloading every 30 s as it does. Each tool has its own browser and log, and they
run one after the other.

The tabs are opened, and left alone, by the browser's own protocol: tools that drive pages have the browser
keep the body of each answer for them, up to 200 MB a tab, which would be taken for growth of the page.

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
from playwright.sync_api import Browser, Page, sync_playwright

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
PATIENCE_S = 120.0
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
                pump = browser.new_page()
                opened_tabs = [opened(pump, port, tool, at) for at in range(tabs)]
                return watch(browser, pump, opened_tabs, server.pid, logdir, seconds)
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


class Tab:
    """A tab that nothing looks at but for a moment at each sample.

    Args:
        pump: A page that lets messages of the browser through.
        address: Of the page.
    """

    def __init__(self, pump: Page, address: str) -> None:
        assert pump.context.browser is not None
        self._pump, self._browser = pump, pump.context.browser.new_browser_cdp_session()
        self._answers: dict[int, dict[str, Any]] = {}
        self._browser.on("Target.receivedMessageFromTarget", self._receive)
        context = self._browser.send("Target.createBrowserContext")["browserContextId"]
        size = {"width": 1440, "height": 900, "browserContextId": context}
        self._target = self._browser.send("Target.createTarget", {"url": address, **size})["targetId"]

    def _receive(self, event: dict[str, Any]) -> None:
        answer = json.loads(event["message"])
        self._answers[answer.get("id", -1)] = answer.get("result", {})

    def ask(self, *methods: str, **words: Any) -> dict[str, Any]:
        """Return what the last of some methods answers."""
        found = {"targetId": self._target, "flatten": False}
        session = self._browser.send("Target.attachToTarget", found)["sessionId"]
        for number, method in enumerate(methods):
            self._answers.pop(number, None)
            message = json.dumps({"id": number, "method": method, "params": words})
            self._browser.send("Target.sendMessageToTarget", {"sessionId": session, "message": message})
            end = time.monotonic() + PATIENCE_S
            while number not in self._answers:
                if time.monotonic() > end:
                    raise TimeoutError(f"no answer to {method}")
                self._pump.wait_for_timeout(20)
        self._browser.send("Target.detachFromTarget", {"sessionId": session})
        return self._answers[len(methods) - 1]


def opened(pump: Page, port: int, tool: str, at: int) -> Tab:
    """Open a tab; each belongs to a context of its own, so that no renderer is shared."""
    view = VIEWS[at % len(VIEWS)] if tool == "stepscope" else ("timeseries", "scalars")[at % 2]
    tab = Tab(pump, f"http://127.0.0.1:{port}/#{'/' if tool == 'stepscope' else ''}{view}")
    if tool == "tensorboard":
        pump.wait_for_timeout(5_000)
        setting = "localStorage.setItem('_tb_global_settings', JSON.stringify({autoReload: true}))"
        tab.ask("Runtime.evaluate", expression=f"{setting}; location.reload()")
    return tab


def watch(
    browser: Browser, pump: Page, tabs: list[Tab], server: int, logdir: Path, seconds: float
) -> list[dict[str, float]]:
    """Take samples until the time is over."""
    begun, samples = time.monotonic(), []
    while (now := time.monotonic() - begun) < seconds:
        pump.wait_for_timeout(1_000 * min(SAMPLE_S, seconds - now))
        sample = {"second": time.monotonic() - begun, **sizes(browser, tabs)}
        sample |= {"server_mb": status_mb(server, "VmRSS"), "server_anon_mb": status_mb(server, "RssAnon")}
        sample["log_mb"] = sum(each.stat().st_size for each in logdir.rglob("*") if each.is_file()) / 2**20
        samples.append(sample)
        print(json.dumps({name: round(value, 1) for name, value in sample.items()}), flush=True)
    return samples


def sizes(browser: Browser, tabs: list[Tab]) -> dict[str, float]:
    """Return what all tabs hold together, after a collection."""
    heap = nodes = listeners = 0.0
    for tab in tabs:
        tab.ask("HeapProfiler.collectGarbage")
        told = tab.ask("Performance.enable", "Performance.getMetrics")["metrics"]
        found = {each["name"]: each["value"] for each in told}
        heap, nodes = heap + found["JSHeapUsedSize"] / 2**20, nodes + found["Nodes"]
        listeners += found["JSEventListeners"]
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    held = sum(private_mb(each["id"]) for each in processes if each["type"] == "renderer")
    return {"tabs_mb": held, "heap_mb": heap, "nodes": nodes, "listeners": listeners}


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
