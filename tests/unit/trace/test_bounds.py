"""What reads profiles of others gives up before the machine runs out of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from stepscope.errors import TraceError
from stepscope.trace.bounds import memory_bound


@pytest.mark.parametrize("command", ["glance", "profile op"])
def test_a_command_gives_up_at_its_bound_and_says_how_to_lift_it(tmp_path, command):
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
    (tmp_path / "large.json").write_text(json.dumps({"traceEvents": events, "schemaVersion": 1}))
    words = [sys.executable, "-m", "stepscope", *command.split(), "large.json", "--no-cache"]

    def run(most_bytes):
        environment = {**os.environ, "STEPSCOPE_READ_BYTES": most_bytes, "OMP_NUM_THREADS": "1"}
        environment["OPENBLAS_NUM_THREADS"] = "1"
        return subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    bounded = run(str(180 << 20))
    assert (bounded.returncode, bounded.stdout) == (1, "")
    assert "STEPSCOPE_READ_BYTES" in bounded.stderr
    assert "Traceback" not in bounded.stderr
    assert run("0").returncode == 0


def test_a_bound_is_a_number_of_bytes(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_READ_BYTES", "8e9")
    assert memory_bound() == 8_000_000_000
    monkeypatch.setenv("STEPSCOPE_READ_BYTES", "much")
    with pytest.raises(TraceError, match="STEPSCOPE_READ_BYTES is 'much': expected a number of bytes"):
        memory_bound()
    monkeypatch.delenv("STEPSCOPE_READ_BYTES")
    assert memory_bound() >= 2 << 30
