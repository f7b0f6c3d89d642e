"""A job of two processes is asked for a profile of the same step of both, over the run's directory alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import RECORDING, Program
from support.waiting import until

PROGRAM = """
import sys, time
import stepscope as ss

rank = int(sys.argv[2])
hook = ss.ProfilerHook(backend="python", num_steps=2, analyse=False, poll_secs=0.05)
with ss.Run(sys.argv[1], rank=rank, world_size=2, hooks=[hook]) as run:
    for step in run.steps(iter(int, 1)):
        time.sleep(0.02)
        if run.log_dir and __import__("os").path.exists(sys.argv[1] + "/stop"):
            break
assert not run.problems, run.problems
"""


@pytest.fixture
def job(tmp_path: Path):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    run = tmp_path / "run"
    modules = (*RECORDING, "stepscope.capture.hook")
    ranks = [Program([program, run, str(rank)], modules=modules) for rank in range(2)]
    yield run, ranks
    run.mkdir(exist_ok=True)
    (run / "stop").touch()
    for process in ranks:
        try:
            process.wait(60)
        finally:
            process.kill()


def test_all_ranks_capture_the_same_steps(job) -> None:
    run, ranks = job
    until(lambda: (run / "capture").is_dir() and len(list(run.glob("ranks/*"))) == 2, "the job began")
    command = [sys.executable, "-m", "stepscope", "capture", str(run), "--ranks", "all", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["rank"] for each in found["profiles"]] == [0, 1]
    one, two = (each["steps"] for each in found["profiles"])
    assert one == two
    assert len(one) == 2
    assert all((run / each["path"]).stat().st_size for each in found["profiles"])
    assert {answer["at_step"] for answer in found["answers"].values()} == {one[0]}
    assert all(process.poll() is None for process in ranks), "training goes on"


def test_a_rank_that_dies_during_the_capture_takes_nobody_along(job) -> None:
    run, ranks = job
    until(lambda: (run / "capture").is_dir() and len(list(run.glob("ranks/*"))) == 2, "the job began")
    ranks[1].kill()
    ranks[1].wait(60)
    command = [
        sys.executable,
        "-m",
        "stepscope",
        "capture",
        str(run),
        "--ranks",
        "0,1",
        "--wait",
        "30",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert [each["rank"] for each in json.loads(done.stdout)["profiles"]] == [0]
    assert ranks[0].poll() is None
