"""Hooks in real processes: how one ends that a hook or a signal stops."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import until

import stepscope as ss

TRAIN = """
import signal, sys, time
from pathlib import Path
import stepscope as ss

folder = Path(sys.argv[1])

def save(done):
    (folder / f"model-{done}").touch()
    return str(folder / f"model-{done}")

hooks = [ss.CheckpointHook(save), ss.NanHook(), ss.SystemHook(0.1), ss.LoggingHook(1000)]
with ss.Run(folder / "run", hooks=hooks) as run:
    signal.signal(signal.SIGTERM, lambda *_: run.request_stop("SIGTERM"))
    for step in run.steps(range(100_000)):
        run.scalar("train/loss", float("nan") if step == int(sys.argv[2]) else 1.0)
        time.sleep(0.002)
        (folder / "begun").touch()
print("after the run", run.current_step)
"""


def train(folder: Path, nan_at: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", TRAIN, str(folder), str(nan_at)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_job_that_is_told_to_end_saves_a_checkpoint_and_ends_in_order(tmp_path):
    with train(tmp_path, -1) as process:
        until(lambda: (tmp_path / "begun").exists() or process.poll() is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    last = int(out.split()[-1])
    assert [path.name for path in tmp_path.glob("model-*")] == [f"model-{last + 1}"]
    assert f"step {last + 1}/100000" in err
    with ss.open(tmp_path) as log:
        [run] = log.runs()
        assert (run.info.status, run.info.reason) == ("finished", "SIGTERM")
        assert run.series("checkpoint/save_time_s")["step"].tolist() == [last]
        assert "system/process/memory_bytes" in run.tags()


def test_a_loss_that_is_nan_ends_the_process_with_an_error(tmp_path):
    with train(tmp_path, 20) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stepscope.errors.DivergedError: train/loss is NaN at step 20" in err
    assert "after the run" not in out
    assert list(tmp_path.glob("model-*")) == []  # a model of NaNs is not saved over the last good one
    with ss.open(tmp_path) as log:
        [run] = log.runs()
        assert run.info.status == "failed"
        assert run.info.reason.startswith("DivergedError: train/loss is NaN at step 20")
