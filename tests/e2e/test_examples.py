"""The examples run as they are, and record what they say."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from stepscope import store

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run_example(name: str, directory: Path) -> store.StoredRun:
    subprocess.run([sys.executable, EXAMPLES / f"{name}.py", str(directory / name)], check=True, timeout=300)
    return store.open(directory, cache=False).run(name)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_loops_learn(framework: str, tmp_path: Path) -> None:
    if not find_spec(framework):
        pytest.skip(f"{framework} is not installed")
    run = run_example(f"{framework}_loop", tmp_path)
    assert run.state == "finished"
    assert len(run.series("train/loss")) == len(run.series("speed/step_time_ms")) == 160
    evaluated = run.series("eval/loss")["value"].to_list()
    assert len(evaluated) == 5
    assert evaluated[-1] < evaluated[0]


def test_resuming_keeps_both_attempts(tmp_path: Path) -> None:
    run = run_example("resume", tmp_path)
    loss = run.series("train/loss")
    assert loss.filter(loss["attempt"] == 1)["step"].to_list() == list(range(150))
    assert loss.filter(loss["attempt"] == 2)["step"].to_list() == list(range(100, 200))
