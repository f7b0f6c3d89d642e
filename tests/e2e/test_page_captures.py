"""What a run captured of itself on its Overview, and the way from there to the Profile page."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until

pytest.importorskip("torch")

PROGRAM = """
import sys, time
import torch
import stepscope as ss

def wanted(step):
    if step == 60:
        raise ValueError("no such step")
    return step in (3, 4, 40, 41)

model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
hook = ss.LambdaProfilerHook(wanted, show_memory=True)
with ss.Run(sys.argv[1], hooks=[hook]) as run:
    for step in run.steps(range(70)):
        model(torch.ones(8, 32)).sum().backward()
        run.scalar("train/loss", 1.0 / (step + 1))
        while step < 40 and hook._writing.current is not None and not hook._writing.current.done:
            time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run with two analysed profiles, and a predicate that raised."""
    root = tmp_path_factory.mktemp("captures")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(root / "digits")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    until(lambda: len(list(root.glob("digits/profiles/*.summary.json"))) == 2, "both are analysed")
    return root


def panel_of(log: Path, serve: Any, watch: Any) -> tuple[Any, Any]:
    page = watch(serve(log, "--no-cache"), "#/overview")
    panel = page.get_by_role("region", name="Profiled steps")
    panel.get_by_text("Steps 40\u201341", exact=True).wait_for()
    return page, panel


def test_the_overview_shows_steps_parts_operations_and_why_one_failed(log, serve, watch) -> None:
    watched, panel = panel_of(log, serve, watch)
    panel.get_by_text("2 steps, mean").wait_for()
    part, *heads = panel.get_by_role("columnheader").all_inner_texts()[:5]
    assert heads == ["Mean", "Share", "Min", "Max"]
    assert part in ("Part, ms", "Part, µs", "Part, s"), "the unit of all of them"
    beyond = "one => one.getBoundingClientRect().right - one.closest('section').getBoundingClientRect().right"
    assert panel.get_by_role("columnheader", name="Max").evaluate(beyond) <= 0
    cut = "cells => cells.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
    parts = panel.get_by_role("table").first.get_by_role("rowheader")
    assert parts.evaluate_all(cut) == [], "names of parts are whole"
    name = watched.page.get_by_role("rowheader", name="Step", exact=True)
    step = panel.get_by_role("row").filter(has=name)
    mean, _, least, most = (cell.inner_text() for cell in step.get_by_role("cell").all())
    numbers = [float(text.split()[0].replace(",", "")) for text in (least, mean, most)]
    assert numbers == sorted(numbers)
    assert all(re.fullmatch(r"[\d,.]+", text) for text in (mean, least, most))
    panel.get_by_text("Top operations").wait_for()
    panel.get_by_text("aten::").first.wait_for()
    panel.get_by_text("at the ends of steps: resident").wait_for()
    panel.get_by_role("row", name="Peak of the host in step").wait_for()
    panel.get_by_text("the step predicate raised ValueError: no such step").wait_for()
    panel.get_by_text("of training, all profiles").wait_for()
    sentence = panel.get_by_text("of training, all profiles").inner_text()
    strip = watched.page.get_by_role("region", name="State of the run").inner_text()
    share = re.search(r"all profiles ([\d.]+\s%) of wall time", sentence)[1]
    assert f"profiles {share}, the rest" in strip, "one share, wherever it stands"
    whole = float(strip.partition("Recording costs")[2].partition("%")[0])
    assert whole >= 0.99 * float(share[:-2]) > 0, "the cost includes that of the profiles"


@pytest.fixture(scope="module")
def alerted(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose first profile an alert asked for; of a third one there is no summary."""
    root = tmp_path_factory.mktemp("alerted")
    shutil.copytree(log / "digits", root / "digits")
    folder = root / "digits" / "profiles"
    first, second = (folder / f"chief_rank0_step{step:08}" for step in (3, 40))
    facts = json.loads(first.with_suffix(".profile.json").read_text())
    before = [[step, 0.5 if step == 90 else 0.01, 0.002] for step in range(100)]
    told = {
        "cause": "alert", "reason": "the loss is not finite", "before": before,
        "notes": ["no work on a device"], "dropped": {"worker_spans": 3}, "wall": facts["wall"] - 100,
    }  # fmt: skip
    first.with_suffix(".profile.json").write_text(json.dumps({**facts, **told}))
    newest = {**facts, "name": "newest", "steps": [68], "wall": time.time(), "not_analysed": "out of memory"}
    newest["path"], newest["summary"] = "profiles/newest.pt.trace.json.gz", "profiles/newest.summary.json"
    shutil.copy(second.with_suffix(".pt.trace.json.gz"), folder / "newest.pt.trace.json.gz")
    (folder / "newest.profile.json").write_text(json.dumps(newest))
    return root


def test_a_profile_that_an_alert_asked_for_is_chosen_and_shows_the_steps_before(
    alerted, serve, watch, axe
) -> None:
    watched, panel = panel_of(alerted, serve, watch)
    chosen = panel.get_by_label("Profile at a glance")
    assert chosen.locator("option").all_inner_texts() == [
        "Steps 40\u201341, predicate", "Steps 3\u20134, alert, the loss is not finite",
    ]  # fmt: skip
    assert not panel.get_by_text("Steps before").is_visible()
    panel.get_by_text("Not analysed Step 68: out of memory").wait_for()
    chosen.select_option(index=1)
    panel.get_by_text("100, median 10.0 ms, longest 500 ms at step 90").wait_for()
    panel.get_by_role("img", name="Duration of 100 steps before").wait_for()
    panel.get_by_text("13.4 % of it waiting for data").wait_for()  # 100 * 0.002 of 99 * 0.01 + 0.5
    panel.get_by_text("No work on a device", exact=True).wait_for()
    panel.get_by_text("3 worker spans not kept", exact=True).wait_for()
    axe(watched.page)


def test_each_profile_opens_on_the_profile_page(log, serve, watch) -> None:
    page, panel = panel_of(log, serve, watch)
    links = panel.get_by_role("list", name="Captured profiles").get_by_role("link")
    assert links.all_inner_texts() == ["Steps 40\u201341", "Steps 3\u20134"]
    links.last.click()
    page.wait("() => location.hash.startsWith('#/profile')")
    chosen = page.get_by_label("Profile", exact=True)
    chosen.wait_for()
    assert chosen.input_value() == "digits/profiles/chief_rank0_step00000003.pt.trace.json.gz"
    page.go_back()
    panel.get_by_text("Steps 40\u201341", exact=True).wait_for()
    address = links.first.get_attribute("href")
    assert "chief_rank0_step00000040" in address
    page.open(address)
    chosen.wait_for()
    assert chosen.input_value() == "digits/profiles/chief_rank0_step00000040.pt.trace.json.gz"


def test_captured_steps_are_marked_on_charts_and_open(log, serve, watch):
    page = watch(serve(log, "--no-cache"), "#/scalars?q=run:digits")
    marked = "() => window.__stepscope_test.charts()[0]?.marks.filter(({ kind }) => kind === 'capture')"
    page.wait(f"() => ({marked})()?.length >= 2")
    step = page.evaluate(f"({marked})()[0].step")
    chart = page.evaluate("window.__stepscope_test.charts()[0]")
    place = page.evaluate(
        "([chart, x, y]) => window.__stepscope_test.pixel(chart, x, y)",
        [chart["chart"], step, chart["y"]["min"]],
    )
    page.mouse.move(place["left"], place["top"] - 6)
    page.locator("[data-tooltip] .mark").first.wait_for()
    page.mouse.click(place["left"], place["top"] - 6)
    page.wait("() => location.hash.startsWith('#/profile') && location.hash.includes('prof=')")
