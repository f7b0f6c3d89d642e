"""The demo as a user starts it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("sklearn", reason="the demo trains on scikit-learn's digits")
DEMO = [sys.executable, "-m", "stepscope", "demo"]


def test_demo_trains_serves_and_stops_on_interrupt(tmp_path: Path) -> None:
    command = [*DEMO, str(tmp_path), "--framework", "numpy", "--epochs", "2", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as demo:
        assert demo.stderr
        lines = []
        for line in demo.stderr:
            lines.append(line)
            if line.startswith("done"):
                break
        found = re.search(r"http://\S+/", lines[0])
        assert found, lines
        with urlopen(found[0] + "api/v1/changes", timeout=20) as answer:
            runs = {run["name"]: run for run in json.load(answer)["runs"]}
        demo.send_signal(signal.SIGINT)
        assert demo.wait(timeout=30) == 130
        assert "Traceback" not in demo.stderr.read()
    assert set(runs) == {"numpy-lr0.001", "numpy-lr0.01", "numpy-lr0.0001"}
    assert all(run["state"] == "finished" and run["step"] == 43 for run in runs.values())


def test_a_second_demo_leaves_the_first_alone(tmp_path: Path) -> None:
    command = [*DEMO, str(tmp_path), "--framework", "numpy", "--epochs", "1", "--no-serve"]
    for _ in range(2):
        done = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True, timeout=120)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [run["run"] for run in said] == ["numpy-lr0.001-2", "numpy-lr0.01-2", "numpy-lr0.0001-2"]
    assert all(0 < run["accuracy_ratio"] <= 1 for run in said)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "numpy-lr0.0001",
        "numpy-lr0.0001-2",
        "numpy-lr0.001",
        "numpy-lr0.001-2",
        "numpy-lr0.01",
        "numpy-lr0.01-2",
    ]


def test_nonsense_is_refused_in_words(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, str(tmp_path), "--epochs", "0"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "--epochs must be 1 or more, got 0\n"
