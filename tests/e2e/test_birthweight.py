"""The birth-weight example records what its first lines say, alone and as a chief with four workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import store
from stepscope.store.family import groups

TRAIN = Path(__file__).resolve().parents[2] / "examples" / "birthweight" / "torch_train.py"
LAUNCH = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "5"]


def train(directory: Path, *words: str, ranks: int = 1) -> store.StoredRun:
    """Run the example with short settings."""
    command = [sys.executable, *(LAUNCH if ranks > 1 else []), str(TRAIN), str(directory / "births"), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"}
    subprocess.run(command, check=True, timeout=600, env=environment)
    return store.open(directory, cache=False).run("births")


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "steps"), [("range:20-24", "160"), ("steps:50", "110")])
def test_one_machine(profile: str, steps: str, tmp_path: Path) -> None:
    run = train(tmp_path, "--steps", steps, "--profile", profile)
    assert run.state == "finished"
    evaluated = run.series("eval/loss")["value"].to_list()
    assert evaluated[-1] < evaluated[0]
    charts = [[tag for tag, _ in group.lines] for group in groups(run.tags())]
    assert ["train/loss", "eval/loss"] in charts
    assert {
        "activations/deep.1/fraction_of_zero_values",
        "gradients/deep.0.weight/norm",
        "train/loss_mean_of_50",
        "speed/examples_per_second",
    } <= set(run.tags())
    assert list((tmp_path / "births" / "profiles").glob("chief_rank0_step*.pt.trace.json*"))


@pytest.mark.slow
def test_a_chief_and_four_workers(tmp_path: Path) -> None:
    run = train(tmp_path, "--steps", "40", "--profile", "range:20-22", ranks=5)
    assert run.state == "finished"
    members = run.ranks.members()
    assert sorted(each.rank for each in members) == list(range(5))
    assert len(run.series("gradients/norm")) == 40
