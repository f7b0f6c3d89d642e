"""What reads profiles of others gives up before the machine runs out of memory."""

import errno
import json
import os
import subprocess
import sys

import pytest

from stepscope.errors import TraceError
from stepscope.trace.bounds import lacks_memory, memory_bound


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"operator {number % 50}",
            "pid": 1,
            "tid": 1,
            "ts": number,
            "dur": 1,
        }
        for number in range(400_000)
    ]
    (folder / "large.json").write_text(json.dumps({"traceEvents": events, "schemaVersion": 1}))
    return folder


def run_in(folder, command, most_bytes):
    words = [sys.executable, "-m", "stepscope", *command.split(), "large.json", "--no-cache"]
    environment = {**os.environ, "STEPSCOPE_READ_BYTES": most_bytes, "OMP_NUM_THREADS": "1"}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["glance", "profile op", "timeline -o out.json"])
def test_a_command_gives_up_at_its_bound_and_says_how_to_lift_it(large, command):
    bounded = run_in(large, command, str(180 << 20))
    assert (bounded.returncode, bounded.stdout) == (1, "")
    assert "STEPSCOPE_READ_BYTES" in bounded.stderr
    assert "Traceback" not in bounded.stderr


@pytest.mark.slow
def test_without_a_bound_the_same_file_is_read(large):
    assert run_in(large, "glance", "0").returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the bound is Linux's")
@pytest.mark.parametrize("share", [0.4, 0.55])
def test_whatever_a_library_does_when_memory_runs_out_is_told(tmp_path, share):
    """Polars ends its process, or waits for ever where its threads were starting."""
    events = [
        {"ph": "X", "cat": "kernel", "name": f"k{at % 50}", "pid": 1, "tid": 7, "ts": 3 * at, "dur": 2}
        for at in range(120_000)
    ]
    (tmp_path / "large.json").write_text(json.dumps({"traceEvents": events}))
    words = [sys.executable, "-m", "stepscope", "timeline", "large.json", "--no-cache", "-o", "out.json"]
    environment = {**os.environ, "STEPSCOPE_READ_BYTES": str(int(share * 350e6)), "OMP_NUM_THREADS": "1"}
    environment["OPENBLAS_NUM_THREADS"] = "1"
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode in (0, 1), done.stderr
    if done.returncode:
        assert "STEPSCOPE_READ_BYTES" in done.stderr.splitlines()[-1 if "file: " not in done.stderr else -2]
        assert "defect" not in done.stderr
    else:
        assert len(json.loads((tmp_path / "out.json").read_text())["traceEvents"]) >= len(events)


class PanicException(BaseException):
    pass


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (OSError(errno.ENOENT, "No such file"), False),
        (PanicException("Cannot allocate memory to hold CompactString"), True),
        (PanicException("index out of bounds"), False),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("dictionary changed size during iteration"), False),
        (ValueError("cannot allocate"), False),
    ],
)
def test_a_lack_of_memory_is_known_by_its_words(error, lacks):
    assert lacks_memory(error) is lacks


def test_a_bound_is_a_number_of_bytes(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_READ_BYTES", "8e9")
    assert memory_bound() == 8_000_000_000
    monkeypatch.setenv("STEPSCOPE_READ_BYTES", "much")
    with pytest.raises(TraceError, match="STEPSCOPE_READ_BYTES is 'much': expected a number of bytes"):
        memory_bound()
    monkeypatch.delenv("STEPSCOPE_READ_BYTES")
    assert memory_bound() >= 2 << 30
