"""Twelve things that people open the page for, from its first screen, in at most three clicks each."""

import gzip
import json
import math
import re

import numpy as np
import pytest
from support.everything import SINCE, SLOW, staged

import stepscope as ss
from stepscope.events.kinds.graph import Node

PATIENCE_MS = 30_000
MOST_CLICKS = 3
STEPS, SEEDS = 200, 3
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
WIDTHS = (64, 128)
BROKE, LAYERS, CUT = 60, 16, 6
"""From step 60 on the gradients of the first six layers of sixteen are a millionth."""
LOADER = "read_from_a_slow_disk"
NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.fixture(scope="module")
def sweep_of_seeds(tmp_path_factory, written, serve_long):
    """Eight configurations of three seeds each: the loss follows the rate, and nothing else."""
    root = tmp_path_factory.mktemp("tasks") / "sweep"
    noise = np.random.default_rng(0)
    for number, (rate, width) in enumerate((rate, width) for rate in RATES for width in WIDTHS):
        level = 0.2 + 0.3 * RATES.index(rate)
        for seed in range(SEEDS):
            shift = 0.01 * noise.normal()
            values = {
                "train/loss": [
                    level + shift + 2 * math.exp(-step / 20) + 0.01 * noise.normal() for step in range(STEPS)
                ],
                "train/accuracy": [1 - math.exp(-step / 30) * level for step in range(STEPS)],
            }
            config = {"lr": rate, "width": width, "seed": seed}
            written(root / f"trial-{number}-s{seed}", values, config=config)
    return serve_long(root)


@pytest.fixture(scope="module")
def training(tmp_path_factory, serve_long):
    """A run whose first layers get no gradient any more, one that waits for data, a job with a slow rank."""
    root = tmp_path_factory.mktemp("tasks") / "training"
    numbers = np.random.default_rng(0)
    nodes, last = [Node("x", "Input")], "x"
    for layer in range(LAYERS):
        weight, linear = f"layer{layer}/weight", f"layer{layer}/linear"
        nodes += [
            Node(weight, "Parameter", shapes=[(8, 8)]),
            Node(linear, "linear", [last, weight], [(8, 8)]),
        ]
        last = linear
    with ss.Run(root / "model", config={"lr": 1e-3}) as run:
        run.graph(nodes)
        for step in range(120):
            run.scalar("train/loss", 1 / (1 + step), step)
            for layer in range(LAYERS):
                size = 1e-6 if layer < CUT and step >= BROKE else 1.0
                norm = size * (1 + 0.1 * numbers.random())
                run.scalar(f"gradients/layer{layer}.weight/norm", norm, step)
            if step % 20 == 19:
                run.image("samples", numbers.random((16, 16, 3)), step)
                run.histogram("weights/layer0.weight", numbers.normal(size=100), step)
    with ss.Run(root / "waits") as run:
        run.scalar("train/loss", 1.0, 0)
    (root / "waits" / "profiles").mkdir()
    profile = gzip.compress(json.dumps(waiting_trace()).encode())
    (root / "waits" / "profiles" / "1.pt.trace.json.gz").write_bytes(profile)
    staged(root / "job")
    return serve_long(root)


def waiting_trace():
    """Four steps that wait 6 of 10 ms for what a loader reads, as torch.profiler has them."""
    events = []
    call = {"ph": "X", "pid": 1, "tid": 1}
    for step in range(4):
        start = 10_000.0 * step
        frame = {**call, "cat": "python_function", "args": {"Python id": 2 * step + 1}}
        events += [
            {**call, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": start, "dur": 9_990},
            {**frame, "name": "train.py(31): fit", "ts": start + 1, "dur": 9_980},
            {**call, "cat": "user_annotation", "name": NEXT, "ts": start + 2, "dur": 6_000},
            {**frame, "name": f"data.py(12): {LOADER}", "ts": start + 10, "dur": 5_900,
             "args": {"Python id": 2 * step + 2, "Python parent id": 2 * step + 1}},
            {**call, "cat": "cpu_op", "name": "aten::mm", "ts": start + 6_100, "dur": 3_000},
        ]  # fmt: skip
    return {"schemaVersion": 1, "traceEvents": events}


@pytest.fixture
def first_screen(watch):
    """Opens the first screen of a server; in the end at most three clicks were made."""
    opened = []

    def at(server, **options):
        watched = watch(server, **options)
        watched.count_clicks()
        watched.open()
        watched.page.get_by_role("main").get_by_role("region").first.wait_for(timeout=PATIENCE_MS)
        opened.append(watched)
        return watched, watched.page

    yield at
    for watched in opened:
        assert watched.clicks() <= MOST_CLICKS


def tab(page, name):
    page.get_by_role("navigation").get_by_role("link", name=re.compile(name)).click()


def chart(page, title):
    return page.get_by_role("article", name=title, exact=True).first


def test_why_it_is_slow(training, first_screen):
    _, page = first_screen(training)
    tab(page, "Profile")
    advice = page.get_by_role("region", name="Advice").get_by_role("listitem")
    waits = advice.filter(has_text="waits for data").first
    waits.get_by_text("60").first.wait_for(timeout=PATIENCE_MS)
    waits.get_by_text(LOADER).first.wait_for()
    waits.get_by_role("button", name=re.compile("Show .* in the timeline")).click()
    panel = page.get_by_role("complementary", name="Selected event")
    panel.get_by_text(LOADER).first.wait_for(timeout=PATIENCE_MS)


def test_which_rank_is_slow(training, first_screen):
    _, page = first_screen(training)
    tab(page, "Ranks")
    page.get_by_text(f"Rank {SLOW}").first.wait_for(timeout=PATIENCE_MS)
    page.get_by_text(f"since step {SINCE}").first.wait_for()


def test_which_setting_matters(sweep_of_seeds, first_screen):
    _, page = first_screen(sweep_of_seeds)
    rows = page.get_by_role("group", name="Importance of config keys").get_by_role("row")
    rows.filter(has_text="width").get_by_text("no clearer than chance").wait_for(timeout=PATIENCE_MS)
    assert "median" in rows.filter(has_text="lr").inner_text()


def test_whether_a_difference_is_real(sweep_of_seeds, first_screen):
    _, page = first_screen(sweep_of_seeds)
    tab(page, "Compare")
    page.get_by_role("button", name="trial-7-s0 on side B").click(timeout=PATIENCE_MS)
    verdict = page.get_by_role("region", name="Largest difference")
    verdict.get_by_text("the spread").first.wait_for(timeout=PATIENCE_MS)


def test_a_value_is_read(sweep_of_seeds, first_screen):
    watched, page = first_screen(sweep_of_seeds)
    watched.ready()
    chart(page, "train/loss").locator("canvas").first.hover()
    page.locator("[data-tooltip]").get_by_text("trial-").first.wait_for(timeout=PATIENCE_MS)


def test_zoom(sweep_of_seeds, first_screen):
    watched, page = first_screen(sweep_of_seeds)
    watched.ready()
    box = chart(page, "train/loss").locator("canvas").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.4 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    page.mouse.up()
    watched.wait("() => /z=\\d+-\\d+/.test(location.hash)")
    low, high = map(int, re.search(r"z=(\d+)-(\d+)", page.evaluate("location.hash")).groups())
    assert 0.2 * STEPS < low < high < 0.8 * STEPS


def test_export(sweep_of_seeds, first_screen):
    watched, page = first_screen(sweep_of_seeds)
    tab(page, "Scalars")
    watched.ready()
    card = chart(page, "train/loss")
    card.hover()
    save = card.get_by_role("button", name=re.compile("^Save"))
    save.hover()
    save.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV, every recorded point").click()
    assert len(download.value.path().read_text().splitlines()) == 1 + len(RATES) * len(WIDTHS) * SEEDS * STEPS


def test_histograms(training, first_screen):
    _, page = first_screen(training)
    tab(page, "Distributions")
    page.get_by_text("layer0.weight").first.wait_for(timeout=PATIENCE_MS)
    page.get_by_text("6 histograms").first.wait_for()


def test_the_layer_that_no_gradient_reaches(training, first_screen):
    _, page = first_screen(training)
    tab(page, "Graph")
    words = page.get_by_text("Gradients break between").first
    words.wait_for(timeout=PATIENCE_MS)
    assert f"between layer{CUT - 1} and layer{CUT}: at step {BROKE} " in words.inner_text()


def test_the_last_image(training, first_screen):
    _, page = first_screen(training)
    tab(page, "Media")
    page.get_by_role("img", name=re.compile("samples.*119")).first.wait_for(timeout=PATIENCE_MS)


def test_the_band_over_seeds(sweep_of_seeds, first_screen):
    watched, _ = first_screen(sweep_of_seeds)
    drawn = "c => c.chart === 'train/loss' && c.lines.length === configurations"
    watched.wait(
        f"configurations => window.__stepscope_test?.charts().some({drawn})", len(RATES) * len(WIDTHS)
    )


def test_a_view_is_shared(sweep_of_seeds, first_screen):
    _, page = first_screen(sweep_of_seeds, permissions=["clipboard-read", "clipboard-write"])
    tab(page, "Scalars")
    page.get_by_role("button", name="Views").click()
    page.get_by_role("button", name="Copy the link").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    assert "#/scalars" in page.url
