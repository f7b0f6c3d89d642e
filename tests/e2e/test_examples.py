"""The examples run as they are, and record what they say."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from stepscope import store
from stepscope.serve.health import report_of
from stepscope.store.family import groups

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


MACHINE = ("data-wait", "step-outliers", "stalled-training", "memory-creep", "cpu-bottleneck")
"""Rules about the machine, which other work on it may rightly trip."""


def false_alarms(directory: Path, name: str) -> list[str]:
    """What the health rules find wrong with a training that is well."""
    with store.open(directory, cache=False) as log:
        found = report_of(log, log.run(name)).verdict.findings
    return [f"{each.rule}: {each.summary}" for each in found if each.rule not in MACHINE]


def run_example(name: str, directory: Path) -> store.StoredRun:
    subprocess.run([sys.executable, EXAMPLES / f"{name}.py", str(directory / name)], check=True, timeout=300)
    return store.open(directory, cache=False).run(name)


LOOPS = [
    ("torch_loop", "torch", "train/loss", "eval/loss"),
    ("jax_loop", "jax", "train/loss", "eval/loss"),
    ("flax_loop", "flax", "train/loss", "eval/loss"),
    ("lightning_trainer", "lightning", "train_loss", "val_loss"),
    ("transformers_trainer", "transformers", "train/loss", "eval/loss"),
    ("accelerate_loop", "accelerate", "train/loss", "eval/loss"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("example", "needs", "trained", "evaluated"), LOOPS, ids=[each[0] for each in LOOPS])
def test_loops_learn(example: str, needs: str, trained: str, evaluated: str, tmp_path: Path) -> None:
    if not find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    run = run_example(example, tmp_path)
    assert (run.state, run.problems) == ("finished", [])
    assert run.info.total_steps == len(run.series("speed/step_time_ms")) == 160
    assert len(run.series(trained)) == {"flax_loop": 5, "transformers_trainer": 32}.get(example, 160)
    found = run.series(evaluated)["value"].to_list()
    assert len(found) == 5
    assert found[-1] < found[0]
    [chart] = [group for group in groups(run.tags()) if group.metric == "loss"]
    assert [tag for tag, _ in chart.lines] == [trained, evaluated]
    assert false_alarms(tmp_path, example) == []


def test_resuming_keeps_both_attempts(tmp_path: Path) -> None:
    run = run_example("resume", tmp_path)
    loss = run.series("train/loss")
    assert loss.filter(loss["attempt"] == 1)["step"].to_list() == list(range(150))
    assert loss.filter(loss["attempt"] == 2)["step"].to_list() == list(range(100, 200))
