"""Loggers of other projects run unchanged on the stand-ins, and leave what they leave with the originals."""

import importlib.util
import os
import subprocess
from pathlib import Path

import pytest
from support.programs import Program
from support.values import events_of, values_of

import stepscope as ss
from stepscope.record.waits import CPU_WAIT

PROGRAMS = Path(__file__).parent / "logger_programs.py"
ORIGINALS = {
    "lightning": "torch.utils.tensorboard",
    "ray": "tensorboardX",
    "accelerate": "torch.utils.tensorboard",
    "transformers": "torch.utils.tensorboard",
}
IMPORTED = {
    "lightning": ("lightning.pytorch",),
    "ray": ("ray.tune.logger",),
    "accelerate": ("accelerate",),
    "transformers": ("transformers", "transformers.trainer"),
}
"""What is there before a program begins: neither the original writer nor its stand-in."""
VARIES = ("runtime", "per_second", "args/")
"""In tags of values that hold a time or a path, and so differ from run to run."""


def start(logger, directory, *launcher):
    directory.mkdir()
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "RAY_ADDRESS": "local",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    return Program(
        [*launcher, str(PROGRAMS), logger, str(directory)], modules=IMPORTED[logger],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory,
    )  # fmt: skip


def logged(directory):
    found = {}
    for (run, tag), values in values_of(directory).items():
        if tag == CPU_WAIT:  # of a run that takes over a second
            continue
        if any(word in tag for word in VARIES):
            values = [step for step, _ in values]
        found[run, tag] = values
    return found


def writers(directory):
    """What the files say wrote them."""
    return {events[0].source_metadata.writer for events in events_of(directory).values()}


@pytest.mark.slow
@pytest.mark.parametrize("logger", ORIGINALS)
def test_a_logger_leaves_the_same_values(logger, tmp_path):
    for name in (logger, ORIGINALS[logger].partition(".")[0]):
        if importlib.util.find_spec(name) is None:
            assert "CI" not in os.environ, f"{name} is not installed"
            pytest.skip(f"{name} is not installed")
    started = {
        "theirs": start(logger, tmp_path / "theirs"),
        "ours": start(logger, tmp_path / "ours", "-m", "stepscope.compat"),
    }
    for process in started.values():
        said, _ = process.communicate(timeout=600)
        assert process.returncode == 0, said
    theirs, ours = logged(tmp_path / "theirs"), logged(tmp_path / "ours")
    assert len(theirs) > 4
    assert sorted(ours) == sorted(theirs)
    for key, values in theirs.items():
        assert ours[key] == values, key
    assert "stepscope" not in writers(tmp_path / "theirs")  # with the original nothing of ours
    assert writers(tmp_path / "ours") == {"stepscope"}
    assert not list((tmp_path / "ours").rglob("*.stepscope.*"))  # nothing to tell
    with ss.open(tmp_path / "ours") as log:
        assert not any(run.problems for run in log.runs())
