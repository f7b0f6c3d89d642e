"""Write pictures of every page at four sizes in both themes: ``python scripts/screenshots.py --to DIR``.

To be looked at by a person: what overlaps, is cut, empty or says too little is seen there and in no test.
Without a log directory it records one: a sweep, a run that diverges, and one that begins to wait for its
data, with a graph; profiles are recordings of tests/data. ``--docs`` (``make pictures``) writes the pictures
of the documentation instead, into ``docs/images``: without a log directory, of the demo, which it trains
first. ``--sheets`` also puts all pictures of a page onto one sheet. Needs a Chromium and the built page.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Error, sync_playwright

import stepscope as ss
from stepscope.events.kinds.graph import Node, NodeCost
from stepscope.serve import Server

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
SIZES = {"wide": (1920, 1080), "laptop": (1440, 900), "tablet": (1024, 768), "phone": (390, 844)}
ONE, DIVERGED, JOB = "slow-disk", "diverged", "dlrm"
DEMO = "torch-slow-disk"
BEFORE, AFTER = "step100.json.gz", "step350.json.gz"
RECORDED = Path(__file__).resolve().parent.parent / "tests" / "data" / "traces"
VIEWS = {
    "overview-many": "overview",
    "overview-one": f"overview?q=name:{ONE}",
    "overview-diverged": f"overview?q=name:{DIVERGED}",
    "scalars-many": "scalars",
    "scalars-one": f"scalars?q=name:{DIVERGED}",
    "distributions": f"distributions?q=name:{DIVERGED}",
    "media": f"media?q=name:{DIVERGED}",
    "text": "text",
    "graph": f"graph?q=name:{ONE}",
    "profile": f"profile?q=name:{ONE}",
    "timeline": f"profile?q=name:{ONE}&show=timeline",
    "operations": f"profile?q=name:{ONE}&show=operations",
    "difference": f"profile?prof={ONE}/profiles/{AFTER}&show=diff&with={ONE}/profiles/{BEFORE}",
    "ranks": "ranks",
    "profile-ranks": f"profile?prof={JOB}&show=job",
    "compare": f"compare?a=name:{ONE}&b=name:{DIVERGED}",
    "compare-figures": f"compare?a=name:{ONE}&b=name:{DIVERGED}&part=figures",
}
DOCUMENTED = ("overview", "scalars", "distributions", "timeline")
THEMES = ("light", "dark")
ANSWERED = "() => !document.querySelector('main :is(progress, .reading, .blank[role=status])')"
QUIET = "() => !window.__stepscope_test || window.__stepscope_test.complete()"


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("logdir", type=Path, nargs="?", help="what is shown (default: it is recorded)")
    parser.add_argument("--to", type=Path, default=Path("screenshots"), help="directory of the pictures")
    parser.add_argument(
        "--docs", action="store_true", help="the pictures of the documentation, in docs/images"
    )
    parser.add_argument("--run", default=DEMO, help="run query of the documentation's pictures of one run")
    parser.add_argument("--only", default="", help="views whose names hold this")
    parser.add_argument("--sheets", action="store_true", help="a contact sheet of each page besides")
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--themes", nargs="*", default=THEMES, choices=THEMES)
    arguments = parser.parse_args()
    if arguments.docs and arguments.to == parser.get_default("to"):
        arguments.to = IMAGES
    arguments.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        logdir = arguments.logdir or (
            demo(Path(folder) / "demo") if arguments.docs else record(Path(folder) / "runs")
        )
        with Server(logdir, port=0, cache=False, no_token=True) as server:
            shoot(server.url, arguments)


def shoot(url: str, arguments: argparse.Namespace) -> None:
    """Open every view at every size in both themes, and say what goes beyond the screen."""
    views = {name: view for name, view in VIEWS.items() if arguments.only in name}
    if arguments.docs:
        arguments.sizes, views = ["laptop"], documented(arguments.run)
    base, _, query = url.partition("?")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for size in arguments.sizes:
            for theme in arguments.themes:
                width, height = SIZES[size]
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
                )
                page = context.new_page()
                for name, view in views.items():
                    page.goto("about:blank")
                    page.goto(f"{base.rstrip('/')}/{'?' + query if query else ''}#/{view}")
                    size_name = "" if arguments.docs else f"-{size}"
                    picture(page, arguments.to / f"{name}{size_name}-{theme}.png", arguments.docs)
                context.close()
        if arguments.sheets:
            for name in views:
                sheet(browser, arguments.to, name)
        browser.close()


def sheet(browser: Any, folder: Path, name: str) -> None:
    """Put all pictures of a page onto one, a column for each theme, all of one height in a row."""
    rows = []
    for size in SIZES:
        taken = [f"{name}-{size}-{theme}.png" for theme in THEMES]
        pictures = "".join(
            f'<img src="{html.escape(one)}" alt="{html.escape(one)}">'
            for one in taken
            if (folder / one).exists()
        )
        rows.append(f"<div>{pictures}</div>" if pictures else "")
    source = folder / f"{name}-sheet.html"
    source.write_text(
        "<style>body{margin:8px;width:max-content;background:gray}div{display:flex;gap:8px;margin-bottom:8px}"
        f"img{{height:540px}}</style>{''.join(rows)}",
        encoding="utf-8",
    )
    page = browser.new_page()
    page.goto(source.resolve().as_uri())
    page.wait_for_function("() => [...document.images].every(one => one.complete && one.naturalWidth)")
    page.locator("body").screenshot(path=folder / f"{name}-sheet.png")
    page.close()
    source.unlink()
    print(folder / f"{name}-sheet.png")


def documented(run: str) -> dict[str, str]:
    """Return the views that the documentation shows; scalars are of all runs."""
    one = {name: f"{name}?q={run}" for name in DOCUMENTED[:3]}
    return {**one, "scalars": "scalars", "timeline": f"profile?q={run}&show=timeline"}


def point_at_a_chart(page: Any) -> None:
    """Put the pointer where the cursor and its table are seen."""
    box = page.locator("[data-chart]").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.62, box["y"] + box["height"] * 0.5)


def chromium() -> str:
    """Return the browser's path."""
    for name in ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell"):
        if path := shutil.which(name):
            return path
    sys.exit("no Chromium found\nhint: scripts/browser.sh installs one")


def picture(page: Any, path: Path, pointed: bool = False) -> None:
    """Write one picture once the page has what it asked for."""
    with contextlib.suppress(Error):  # a page that polls may never be idle: it is taken as it is
        page.wait_for_load_state("networkidle", timeout=3_000)
    with contextlib.suppress(Error):
        page.wait_for_function(ANSWERED, timeout=20_000)
    if "data-chart" in page.content():
        with contextlib.suppress(Error):
            page.wait_for_function(QUIET, timeout=5_000)
    if pointed and path.name.startswith("scalars"):
        point_at_a_chart(page)
    page.evaluate(TWO_FRAMES)
    beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    page.screenshot(path=path)
    print(path, f"{beyond} px beyond the screen" if beyond > 0 else "")


def demo(folder: Path) -> Path:
    """Train the demo's runs."""
    command = [sys.executable, "-m", "stepscope", "demo", str(folder), "--framework", "torch", "--no-serve"]
    subprocess.run(command, check=True)
    return folder


def record(folder: Path) -> Path:
    """Record what the pictures show; seeded, so that two of them can be laid over each other."""
    numbers = np.random.default_rng(7)
    for rate in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2):
        for batch in (32, 128):
            for decay in (0.0, 0.1):
                sweep(folder / f"lr{rate:g}-bs{batch}-wd{decay:g}", rate, batch, decay, numbers)
    diverge(folder / DIVERGED, numbers)
    slow(folder / ONE, numbers)
    (folder / ONE / "profiles").mkdir()
    for name, workers in ((BEFORE, 4), (AFTER, 0)):
        path = RECORDED / "kineto" / f"resnet50_v100_workers{workers}.json.gz"
        shutil.copy(path, folder / ONE / "profiles" / name)
    shutil.copy(
        RECORDED / "kineto" / "a100_ddp_rank0of2.json.gz", folder / ONE / "profiles" / "step400.json.gz"
    )
    shutil.copytree(RECORDED / "dlrm_8xv100", folder / JOB)
    return folder


def sweep(path: Path, rate: float, batch: int, decay: float, numbers: Any) -> None:
    """Record one run of the sweep."""
    config = {"lr": rate, "batch": batch, "weight_decay": decay, "model": {"layers": 4, "width": 128}}
    best = 0.25 + abs(math.log10(rate / 1e-3)) * 0.3 + decay * 0.2 + (batch == 128) * 0.05
    with ss.Run(path, config=config, total_steps=300) as run:
        for step in run.steps(range(300)):
            at = int(step)
            loss = best + 2 * math.exp(-at * rate * 20) + numbers.normal() * 0.02
            if rate == 1e-2 and decay == 0 and at > 120:
                loss = math.nan
            run.scalar("train/loss", loss)
            run.scalar("learning_rate", rate * min(1, at / 20))
            if at % 10 == 0:
                run.scalar("eval/loss", loss + 0.05)
                run.scalar("eval/accuracy_ratio", min(1.0, max(0.0, 1 - loss / 2.5)))


def diverge(path: Path, numbers: Any) -> None:
    """Record a run whose gradients grow until nothing is finite."""
    scale, last = 1.0, 240
    with ss.Run(path, config={"lr": 3.0, "model": "mlp"}, total_steps=400) as run:
        for step in run.steps(range(400)):
            at = int(step)
            scale *= 1.6 if 100 <= at < last else 1.0
            gone = at >= last
            run.scalar("train/loss", math.nan if gone else 0.5 * scale + numbers.normal() * 0.01)
            run.scalar("learning_rate", 1.554e-9 * (400 - at) / 400)
            run.scalar("health/nonfinite_count", 64 if gone else 0)
            run.scalar("data/skipped_count", 0)
            run.scalar("memory_bytes", 592e6 + at * 1e3)
            run.scalar("tokens_per_second", 40.2e9 + numbers.normal() * 1e8)
            run.scalar("step_time_s", 1.5 if at == 0 else 0.0099 + numbers.random() * 1e-3)
            if at % 5 == 0:
                for name in ("layer0.weight", "layer1.weight", "layer2.bias"):
                    values = numbers.normal(size=2000) * 0.01 * scale
                    values[:100] = math.nan if gone else values[:100]
                    run.histogram(f"gradients/{name}", values)
                    run.histogram(f"weights/{name}", numbers.normal(size=2000))
            if at % 100 == 0:
                run.image("samples", numbers.random((28, 28, 3)))
                run.text("notes", f"# Step {at}\n\nloss {scale:.3g}")


def slow(path: Path, numbers: Any) -> None:
    """Record a run that begins to wait for its data, with evaluations."""
    with ss.Run(path, config={"lr": 1e-3, "batch": 64, "model": "cnn 32-64-128"}, total_steps=1000) as run:
        nodes, costs = network()
        run.graph(nodes, costs=costs, tag="step 1", step=0)
        for step in run.steps(range(600)):
            at = int(step)
            wait = 0.0258 if at >= 300 else 0.0005
            run.scalar("train/loss", 2.3 * math.exp(-at / 80) + 0.02 + numbers.random() * 0.01)
            run.scalar("train/accuracy_ratio", 1 - math.exp(-at / 60) * 0.9)
            run.scalar("learning_rate", 1e-3 * min(1, at / 30))
            run.scalar("grad_norm", 3 * math.exp(-at / 100) + 0.3 + numbers.random() * 0.1)
            run.scalar("speed/step_time_s", 1.5 if at == 0 else 0.0099 + wait + numbers.random() * 1e-3)
            run.scalar("speed/data_wait_s", wait + numbers.random() * 1e-4)
            run.scalar("speed/examples_per_second", 64 / (0.0099 + wait))
            run.scalar("system/memory_bytes", 592e6 + at * 1e3)
            if at % 20 == 0:
                run.scalar("eval/loss", 2.3 * math.exp(-at / 80) + 0.03)
                run.scalar("eval/accuracy_ratio", 1 - math.exp(-at / 60) * 0.92)


def network(blocks: int = 6) -> tuple[list[Node], list[NodeCost]]:
    """Return the graph of a network of blocks alike, whose convolutions take most of the time."""
    nodes, costs, last = [Node("images", "Input", shapes=[(64, 3, 32, 32)])], [], "images"
    for block in range(blocks):
        for at, (op, duration_us) in enumerate((("conv2d", 900), ("batch_norm", 120), ("relu", 40))):
            name = f"cnn/block{block}/{op}_{at}"
            nodes.append(Node(name, op, [last], [(64, 32, 32, 32)]))
            costs.append(NodeCost(name, 0, duration_us + 10 * block, 8_388_608))
            last = name
    nodes.append(Node("cnn/head/linear", "linear", [last], [(64, 10)]))
    costs.append(NodeCost("cnn/head/linear", 0, 60, 2560))
    return nodes, costs


if __name__ == "__main__":
    main()
