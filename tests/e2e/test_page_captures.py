"""What a run captured of itself on its Overview, and the way from there to the Profile page."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

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
hook = ss.LambdaProfilerHook(wanted)
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
    end = time.monotonic() + 60
    while len(list(root.glob("digits/profiles/*.summary.json"))) < 2:
        assert time.monotonic() < end, "both are analysed"
        time.sleep(0.1)
    return root


def panel_of(log: Path, serve: Any, watch: Any) -> tuple[Any, Any]:
    watched = watch(serve(log, "--no-cache"))
    page = watched.open("#/overview")
    panel = page.get_by_role("region", name="Profiled steps")
    panel.get_by_text("Steps 40\u201341", exact=True).wait_for()
    return watched, panel


def test_the_overview_shows_steps_parts_operations_and_why_one_failed(log, serve, watch) -> None:
    _, panel = panel_of(log, serve, watch)
    panel.get_by_text("2 steps, mean").wait_for()
    assert panel.get_by_role("columnheader").all_inner_texts()[:6] == [
        "Part", "Mean", "Share", "Min", "Median", "Max",
    ]  # fmt: skip
    step = panel.get_by_role("row", name="Step").last
    mean, _, least, middle, most = (cell.inner_text() for cell in step.get_by_role("cell").all())
    numbers = [float(text.split()[0].replace(",", "")) for text in (least, middle, most)]
    assert numbers == sorted(numbers)
    assert mean.endswith(" ms")
    panel.get_by_text("Top operations").wait_for()
    panel.get_by_text("aten::").first.wait_for()
    panel.get_by_text("the step predicate raised ValueError: no such step").wait_for()
    panel.get_by_text("of training, all profiles so far").wait_for()


def test_each_profile_opens_on_the_profile_page(log, serve, watch) -> None:
    watched, panel = panel_of(log, serve, watch)
    page = watched.page
    links = panel.get_by_role("list", name="Captured profiles").get_by_role("link")
    assert links.all_inner_texts() == ["Steps 40\u201341", "Steps 3\u20134"]
    links.last.click()
    watched.wait("() => location.hash.startsWith('#/profile')")
    chosen = page.get_by_label("Profile", exact=True)
    chosen.wait_for()
    assert chosen.input_value() == "digits/profiles/chief_rank0_step00000003.pt.trace.json.gz"
    page.go_back()
    panel.get_by_text("Steps 40\u201341", exact=True).wait_for()
    address = links.first.get_attribute("href")
    assert "chief_rank0_step00000040" in address
    watched.open(address)
    chosen.wait_for()
    assert chosen.input_value() == "digits/profiles/chief_rank0_step00000040.pt.trace.json.gz"
