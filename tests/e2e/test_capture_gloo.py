"""Ranks that train together over gloo are captured at the same step; one that dies takes no profile along."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import TORCH, Program
from support.waiting import until

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import stepscope as ss

directory, rank, dies = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "dies"
dist.init_process_group("gloo", init_method=f"file://{directory}.store", rank=rank, world_size=2)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
hook = ss.ProfilerHook(num_steps=4, analyse=False, poll_secs=0.05)
run = ss.Run(directory, hooks=[hook])
try:
    for step in run.steps(iter(int, 1)):
        model(torch.randn(8, 4)).sum().backward()
        if dies and rank == 1 and hook._capture is not None and len(hook._capture.steps) == 2:
            os._exit(9)
        stop = torch.tensor([float(os.path.exists(directory + "/stop"))])
        dist.all_reduce(stop)
        if stop.item():
            break
except RuntimeError:
    run.close("failed", "the other rank is gone")
    sys.exit(3)
run.close()
assert not run.problems, run.problems
"""


def start(run: Path, *arguments: str) -> list[Program]:
    environment = {name: text for name, text in os.environ.items() if name != "STEPSCOPE_STRICT"}
    return [
        Program(["-c", PROGRAM, str(run), str(rank), *arguments], modules=TORCH, env=environment)
        for rank in range(2)
    ]


def wait_for_both(run: Path) -> None:
    until(lambda: (run / "capture").is_dir() and len(list(run.glob("ranks/*"))) == 2, "the job began", 100)


def ask(run: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stepscope", "capture", str(run), "--ranks", "all", "--json", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def profiles(run: Path) -> dict[int, dict[str, object]]:
    found = [json.loads(path.read_text()) for path in (run / "profiles").glob("*.profile.json")]
    return {facts["rank"]: facts for facts in found}


def test_ranks_that_train_together_are_captured_at_the_same_step(tmp_path: Path) -> None:
    run = tmp_path / "run"
    ranks = start(run, "lives")
    try:
        wait_for_both(run)
        done = ask(run)
        assert done.returncode == 0, done.stderr
        (run / "stop").touch()
        assert [process.wait(60) for process in ranks] == [0, 0]
    finally:
        for process in ranks:
            process.kill()
    found = profiles(run)
    assert found[0]["steps"] == found[1]["steps"]
    assert len(found[0]["steps"]) == 4
    assert len({Path(facts["path"]).name for facts in found.values()}) == 2


def test_a_rank_that_dies_in_the_middle_leaves_the_others_profile(tmp_path: Path) -> None:
    run = tmp_path / "run"
    ranks = start(run, "dies")
    try:
        wait_for_both(run)
        ask(run, "--wait", "20")
        assert [process.wait(60) for process in ranks] == [3, 9]
    finally:
        for process in ranks:
            process.kill()
    found = profiles(run)
    assert list(found) == [0]
    assert len(found[0]["steps"]) >= 2
    assert "the run ended (failed) during the capture" in found[0]["notes"]
    assert (run / found[0]["path"]).stat().st_size > 0
