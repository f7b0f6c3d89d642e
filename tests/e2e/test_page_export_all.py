"""Every chart and table of the page is saved: drawings hold no script, tables the numbers as recorded."""

import gzip
import json
import math
import re

import numpy as np
import pytest
from support.everything import stepped_trace

import stepscope as ss
from stepscope.events.kinds.graph import Node, NodeCost

HOSTILE = "=<img src=x onerror=alert(1)>"
STEPS = 12


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long):
    """Two runs that recorded one of everything, names to break out with, and a profile of three steps."""
    log = tmp_path_factory.mktemp("all")
    random = np.random.default_rng(0)
    for name, rate in (("a", 0.1), ("b", 0.2)):
        with ss.Run(log / name, config={"rate": rate, "note": HOSTILE}) as run:
            for step in run.steps(range(STEPS)):
                run.scalar("train/loss", rate / (step + 1))
                run.scalar("tokens", 100.0 * step)
                run.histogram(f"gradients/{HOSTILE}", random.normal(size=50), buckets="fixed")
                run.histogram("gradients/calm", random.normal(size=50), buckets="fixed")
            labels = random.random(100) < 0.5
            run.pr_curve(
                "eval/cats",
                labels,
                np.clip(labels * 0.4 + 0.6 * random.random(100), 0, 1),
                5,
                num_thresholds=21,
            )
            run.audio("voice", np.sin(np.arange(4000) / 9).astype("f4")[:, None] * 0.5, 5, sample_rate=8000)
            labels = [[f"{at % 3}", HOSTILE] for at in range(30)]
            run.embedding("hidden", random.normal(size=(30, 4)), 5, labels=labels, columns=["class", "name"])
            run.mesh("square", [[0, 0, 0], [1, 0, 0], [1, 1, 0]], 5, faces=[[0, 1, 2]])
            nodes = [Node("x", "Input", shapes=[(2, 8)]), Node(f"h/{HOSTILE}", "linear", ["x"], [(2, 8)])]
            nodes.append(Node("out", "Output", [f"h/{HOSTILE}"], [(2, 8)]))
            run.graph(nodes, costs=[NodeCost(f"h/{HOSTILE}", 0, 900, 256)], step=0)
    for at in (1, 2):
        path = log / "a" / "profiles" / f"{at}.pt.trace.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(stepped_trace(HOSTILE, slow=at)).encode()))
    return serve_long(log)


@pytest.fixture
def opened(server, watch):
    def at(hash_, ready):
        page = watch(server).open(hash_)
        page.locator(ready).first.wait_for()
        return page

    return at


def test_small_multiples_and_one_tensor(opened, files):
    page = opened("#/distributions?q=run:a&form=percentiles", "section[aria-label=gradients] .card svg")
    group = page.get_by_role("region", name="gradients", exact=True)
    words = files.texts(files.save(page, group, "Gradients, small multiples", "SVG, as it looks"))
    assert {"calm", HOSTILE, "Gradients, small multiples"} <= set(words)
    rows = files.table(files.save(page, group, "Gradients, small multiples", "CSV, every histogram"))
    assert {row["tag"] for row in rows} == {"gradients/calm", f"gradients/{HOSTILE}"}
    assert sum(float(row["count"]) for row in rows) == 2 * 50 * STEPS
    group.locator(".card").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=f"{HOSTILE} as a table").or_(
        page.get_by_role("dialog", name="calm as a table")
    )
    dialog.get_by_role("row").nth(1).wait_for()
    heads = dialog.get_by_role("columnheader").all_inner_texts()
    assert heads == ["run", "tag", "writer", "attempt", "step", "wall_time", "left", "right", "count"]
    with page.expect_download() as download:
        dialog.get_by_role("button", name="CSV").click()
    saved = files.table(download.value)
    shown = dialog.get_by_role("row").nth(1).locator("th, td").all_inner_texts()
    assert shown[1] == saved[0]["tag"].removeprefix("'")
    assert [float(shown[at]) for at in (6, 7, 8)] == pytest.approx(
        [float(saved[0][name]) for name in ("left", "right", "count")], rel=1e-8
    )
    assert dialog.get_by_role("table").get_attribute("aria-rowcount") == str(len(saved) + 1)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert (
        len([one for one in files.drawing(download.value.path().read_text()) if one.tag.endswith("path")]) > 3
    )


def test_runs_as_table_and_as_plots(opened, files):
    page = opened("#/overview", ".board tbody tr")
    for last in (0.1 / STEPS, 0.2 / STEPS):  # curves are read after the list of runs
        page.locator(".board tbody tr").filter(has_text=f"{last:.3g}").wait_for()
    [a, b] = sorted(
        files.table(files.save(page, page, "Runs", "CSV, every run and column")), key=lambda row: row["run"]
    )
    assert (a["run"], a["state"], a["rate"]) == ("a", "finished", "0.1")
    assert float(b["train/loss"]) == pytest.approx(0.2 / STEPS, rel=1e-6)
    for board, name in (
        ("Scatter", "train/loss against rate"),
        ("Parallel coordinates", "Parallel coordinates"),
        ("Scatter matrix", "Scatter matrix"),
    ):
        page.get_by_role("button", name=board, exact=True).click()
        if board == "Scatter matrix":  # a table of the page
            assert files.colours(page, files.save(page, page, name, "PNG, twice the size")) > 3
        else:
            words = files.texts(files.save(page, page, name, "SVG, as it looks"))
            assert {"rate", "train/loss"} <= set(words), board
        rows = files.table(files.save(page, page, name, "CSV, every run shown"))
        assert sorted((row["run"], row["rate"]) for row in rows) == [("a", "0.1"), ("b", "0.2")]


def test_a_chart_over_another_tag_has_its_x(opened, files, server):
    page = opened("#/scalars?x=tag&xt=tokens&q=run:a", "article[aria-label='train/loss'] .chart canvas")
    card = page.get_by_role("article", name="train/loss")
    card.hover()
    rows = files.table(files.save(page, card, "train/loss", "CSV, every recorded point"))
    assert [(row["x_tag"], float(row["x"])) for row in rows] == [
        ("tokens", 100.0 * step) for step in range(STEPS)
    ]


def test_both_sides_of_a_comparison(opened, files):
    shown = "article[aria-label='train/loss'] .chart canvas"
    page = opened("#/compare?a=run:a&b=run:b&sm=0&part=curves", shown)
    card = page.get_by_role("article", name="train/loss")
    card.hover()
    assert {"A, a", "B, b"} <= set(files.texts(files.save(page, card, "train/loss", "SVG, as it looks")))
    card.hover()
    rows = files.table(files.save(page, card, "train/loss", "CSV, both sides"))
    assert [float(row["b_less_a"]) for row in rows] == pytest.approx(
        [0.1 / (step + 1) for step in range(STEPS)], rel=1e-5
    )
    card.hover()
    rows = files.table(files.save(page, card, "train/loss", "CSV, every recorded point"))
    assert len(rows) == 2 * STEPS


def test_figures_of_a_comparison(opened, files):
    page = opened("#/compare?a=run:a&b=run:b&part=figures", "section[aria-label=Figures] tbody td.strong")
    page.get_by_text("+100").first.wait_for()
    assert files.colours(page, files.save(page, page, "Figures of A and B", "PNG, twice the size")) > 3
    rows = {row["series"]: row for row in files.table(files.save(page, page, "Figures", "CSV, every row"))}
    row = rows["train/loss"]
    compared = range(STEPS // 2, STEPS)
    mean = sum(0.1 / (step + 1) for step in compared) / len(compared)
    assert [float(row[name]) for name in ("a_mean", "b_mean", "b_less_a", "b_less_a_ratio")] == pytest.approx(
        [mean, 2 * mean, mean, 1], rel=1e-5
    )


def test_pictures_of_media(opened, files):
    page = opened("#/media?medium=curves", "svg[data-curves='2']")
    assert {"0.25", "a", "b"} <= set(files.texts(files.save(page, page, "eval/cats", "SVG, as it looks")))
    rows = files.table(files.save(page, page, "eval/cats", "CSV, every threshold"))
    shown = page.locator("section table tbody tr").first.locator("td").all_inner_texts()
    at = next(
        row for row in rows if row["run"] == "a" and abs(float(row["threshold"]) - float(shown[1])) < 1e-3
    )
    assert round(float(at["precision"]), 3) == float(shown[2])
    assert at["true_positives"] == shown[5]
    areas = files.table(files.save(page, page, "eval/cats", "CSV, area of every step"))
    assert f"{float(areas[0]['average_precision']):.3g}" == shown[0]
    page = opened("#/media?medium=embeddings&q=run:a", ".space canvas[data-drawn]")
    rows = files.table(files.save(page, page, "hidden", "CSV, every point and label"))
    assert (len(rows), rows[4]["class"], rows[4]["name"]) == (30, "1", f"'{HOSTILE}")
    assert all(math.isfinite(float(row[axis])) for row in rows for axis in "xyz")
    drawing = files.drawing(files.save(page, page, "hidden", "SVG, as it looks").path().read_text())
    assert len([one for one in drawing if one.tag.endswith("image")]) == 2
    page = opened("#/media?medium=meshes&q=run:a", ".space canvas[data-drawn]")
    rows = files.table(files.save(page, page, "square", "CSV, every triangle"))
    assert [list(row.values()) for row in rows] == [["0", "1", "2"]]
    page = opened("#/media?q=run:a", ".sound canvas[data-drawn]")
    rows = files.table(files.save(page, page, "Waveform", "CSV, the outline drawn"))
    assert max(float(row["largest"]) for row in rows) == pytest.approx(0.5, abs=1e-3)
    assert float(rows[-1]["end_s"]) == 0.5
    assert "Waveform" in files.texts(files.save(page, page, "Waveform", "SVG, as it looks"))[0]


def test_a_graph(opened, files):
    page = opened("#/graph?q=run:a", ".area button.box")
    page.locator(".area button.box").filter(has_text="linear").wait_for()  # where all the time is spent
    assert files.colours(page, files.save(page, page, "Graph of h", "PNG, twice the size")) > 3
    page.get_by_text("Whole graph", exact=True).click()
    page.locator(".area button.box").filter(has_text=re.compile(r"^\s*h")).wait_for()
    rows = {row["path"]: row for row in files.table(files.save(page, page, "Graph of", "CSV, every scope"))}
    row = rows[f"h/{HOSTILE}"]
    assert (row["operation"], row["compute_microseconds"], row["memory_bytes"], row["output_shapes"]) == (
        "linear",
        "900",
        "256",
        "2 \u00d7 8",
    )
    edges = files.table(files.save(page, page, "Graph of", "CSV, every edge"))
    assert [(edge["from"], edge["to"]) for edge in edges] == [("x", f"h/{HOSTILE}"), (f"h/{HOSTILE}", "out")]


PROFILE = "#/profile?prof=a/profiles/1.pt.trace.json.gz"


def test_a_timeline_with_its_tracks(opened, files):
    page = opened(f"{PROFILE}&show=timeline&t=0-1000000", ".timeline canvas[data-drawn]")
    page.get_by_text("events in view").wait_for(state="attached")
    words = files.texts(files.save(page, page, "Timeline", "SVG, as it looks"))
    assert "aten::mm" in words
    assert any(word.startswith("=<img") for word in words), "spans are drawn as shapes with their names"
    rows = files.table(files.save(page, page, "Timeline", "CSV, every event in view"))
    assert {int(row["start_ns"]) for row in rows} <= set(range(1_000_001))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Fit", exact=True).click()
    page.wait_for_function("() => !location.hash.includes('t=')")
    rows = files.table(files.save(page, page, "Timeline", "CSV, every event in view"))
    kernels = [row for row in rows if row["category"] == "compute"]
    assert [(row["name"], row["duration_ns"]) for row in kernels] == [
        (f"'{HOSTILE}", f"{100_000 + 1000 * step}") for step in range(3)
    ]
    rows = files.table(files.save(page, page, "Timeline", "CSV, memory and counters"))
    assert {64.0, 128.0, 256.0} <= {float(row["highest"]) for row in rows if row["kind"] == "memory"}


def test_an_event_and_a_range_of_a_timeline(opened, files):
    page = opened(f"{PROFILE}&show=timeline&find=aten", "aside[aria-label='Selected event']")
    [bucket] = [
        row
        for row in files.table(files.save(page, page, "Durations of", "CSV, every bucket"))
        if row["calls"] != "0"
    ]
    assert bucket["calls"] == "3"
    assert float(bucket["from_ns"]) <= 200_000 <= float(bucket["to_ns"])
    assert files.colours(page, files.save(page, page, "Durations of aten::mm", "PNG, twice the size")) > 3
    page = opened(f"{PROFILE}&show=timeline&sel=0-1000000", "aside[aria-label='Selected range'] table")
    rows = {
        row["name"]: row
        for row in files.table(files.save(page, page, "Sums of the range", "CSV, time by name"))
    }
    assert (rows["aten::mm"]["total_ns"], rows["aten::mm"]["calls"]) == ("200000", "1")
    rows = files.table(files.save(page, page, "Sums of the range", "CSV, busy time"))
    assert ("stream 7", "100000") in [(row["thread"], row["busy_ns"]) for row in rows]


def test_tables_and_charts_of_a_profile(opened, files):
    page = opened(f"{PROFILE}&show=summary", "section[aria-label^='Top of']")
    [row] = files.table(files.save(page, page, "Top of the device", "CSV, this table"))
    assert (row["name"], row["total_ns"]) == (f"'{HOSTILE}", "303000")
    page = opened(f"{PROFILE}&show=operations", "[role=treegrid] [role=row]")
    rows = files.table(files.save(page, page, "Operations by", "CSV, every row"))
    assert len(rows) > 1
    page = opened(f"{PROFILE}&show=kernels", "[role=grid] [role=row]")
    [row] = files.table(files.save(page, page, "Kernels of", "CSV, every row"))
    assert (row["name"], row["calls"], row["step_median_ns"], row["call_max_ns"]) == (
        f"'{HOSTILE}",
        "3",
        "101000",
        "102000",
    )
    rows = files.table(files.save(page, page, f"{HOSTILE}, by step", "CSV, every step"))
    assert [row["nanoseconds"] for row in rows] == ["100000", "101000", "102000"]
    assert files.colours(page, files.save(page, page, f"{HOSTILE}, by step", "PNG, twice the size")) > 3
    [row] = files.table(files.save(page, page, "Roofline", "CSV, all kernels on it"))
    assert float(row["flops_per_second"]) == pytest.approx(3 * 2 * 64 * 32 * 16 / 303e-6, rel=1e-6)
    assert "Roofline" in files.texts(files.save(page, page, "Roofline", "SVG, as it looks"))


def test_memory_of_a_profile(opened, files):
    page = opened(f"{PROFILE}&show=memory", ".curve svg path.top")
    assert any(
        "Peak" in word for word in files.texts(files.save(page, page, "Memory of", "SVG, as it looks"))
    )
    rows = files.table(files.save(page, page, "Memory of", "CSV, every stretch"))
    assert max(float(row["most_bytes"]) for row in rows) == 256
    rows = files.table(files.save(page, page, "Largest allocations", "CSV, every row"))
    assert {row["bytes"] for row in rows} == {"64"}
    rows = files.table(files.save(page, page, "Held at the peak", "CSV, every part"))
    assert sum(float(row["bytes"]) for row in rows) > 0
    assert files.colours(page, files.save(page, page, "Held at the peak", "PNG, twice the size")) > 3


def test_profiles_over_time_and_their_difference(opened, files):
    page = opened(f"{PROFILE}&show=history", "[role=grid] [role=row]")
    page.get_by_role("button", name="Kernels", exact=True).last.click()
    page.get_by_role("grid").get_by_text(HOSTILE).first.wait_for()
    [row] = files.table(files.save(page, page, "Step time over training", "CSV, Kernels"))
    assert row["a/profiles/1.pt.trace.json.gz mean_ns"] == "101000"
    assert row["change_ns"] == "100000"
    rows = files.table(files.save(page, page, "Step time over training", "CSV, step time"))
    assert [row["step_ns"] for row in rows] == ["900000", "900000"]
    picture = files.save(page, page, "Step time over training", "PNG, twice the size")
    assert files.colours(page, picture) > 3
    page = opened(
        "#/profile?prof=a/profiles/2.pt.trace.json.gz&show=diff&with=a/profiles/1.pt.trace.json.gz",
        "section[aria-label='A/B difference'] [role=grid] [role=row]",
    )
    page.get_by_role("button", name="Kernels", exact=True).last.click()
    rows = files.table(files.save(page, page, "A/B difference, Kernels", "CSV, every row"))
    assert (rows[0]["a_median_ns"], rows[0]["b_median_ns"], rows[0]["difference_ns"]) == (
        "101000", "201000", "100000",
    )  # fmt: skip
