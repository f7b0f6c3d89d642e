"""The demo as a user starts it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

QUIET = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # two tiny products gain nothing from threads
DEMO = [sys.executable, "-m", "stepscope", "demo"]


def test_demo_trains_serves_and_stops_on_interrupt(tmp_path: Path) -> None:
    command = [*DEMO, str(tmp_path), "--framework", "numpy", "--epochs", "2", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=QUIET) as demo:
        try:
            assert demo.stderr
            lines = []
            for line in demo.stderr:
                lines.append(line)
                if line.startswith("done"):
                    break
            found = re.search(r"(http://\S+/)\?token=(\S+)", lines[0])
            assert found, lines
            runs = finished_runs(*found.groups(), deadline=time.monotonic() + 60)
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=60) == 130
            assert "Traceback" not in demo.stderr.read()
        finally:
            demo.kill()
    assert {name: run["step"] for name, run in runs.items()} == {
        "numpy-lr0.001": 43,
        "numpy-lr0.01": 43,
        "numpy-lr0.0001": 43,
        "numpy-slow-disk": 43,
    }


def finished_runs(url: str, token: str, *, deadline: float) -> dict[str, Any]:
    """Ask until all runs have finished."""
    while time.monotonic() < deadline:
        request = Request(url + "api/v1/changes", headers={"Authorization": f"Bearer {token}"})
        with urlopen(request, timeout=20) as answer:
            runs = {run["name"]: run for run in json.load(answer)["runs"]}
        if len(runs) == 4 and all(run["state"] == "finished" for run in runs.values()):
            return runs
    pytest.fail(f"not all runs finished: {runs}")


def test_a_second_demo_leaves_the_first_alone(tmp_path: Path) -> None:
    command = [*DEMO, str(tmp_path), "--framework", "numpy", "--epochs", "1", "--no-serve"]
    for _ in range(2):
        done = subprocess.run(
            [*command, "--json"], check=True, capture_output=True, text=True, timeout=300, env=QUIET
        )
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [run["run"] for run in said] == [
        "numpy-lr0.001-2", "numpy-lr0.01-2", "numpy-lr0.0001-2", "numpy-slow-disk-2",
    ]  # fmt: skip
    assert all(0 < run["accuracy_ratio"] <= 1 for run in said)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "numpy-lr0.0001", "numpy-lr0.0001-2", "numpy-lr0.001", "numpy-lr0.001-2", "numpy-lr0.01",
        "numpy-lr0.01-2", "numpy-slow-disk", "numpy-slow-disk-2",
    ]  # fmt: skip


def test_nonsense_is_refused_in_words(tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, str(tmp_path), "--epochs", "0"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "--epochs must be 1 or more, got 0\nhint: leave --epochs out for the default\n"


PLAIN = """
import importlib.abc
import re
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

def plain(name, found):
    if name not in found:
        try:
            needed = requires(name) or []
        except PackageNotFoundError:  # not for this version of Python
            return
        found.add(name)
        for each in needed:
            if "extra ==" not in each:
                plain(re.match(r"[\\w.-]+", each)[0].lower().replace("_", "-"), found)

installed = set()
plain("stepscope", installed)
beside = {
    module
    for module, names in packages_distributions().items()
    if not installed.intersection(name.lower().replace("_", "-") for name in names)
}

class Plain(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in beside:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

assert {"numpy", "starlette"}.isdisjoint(beside) and {"pytest", "mypy"} <= beside
sys.meta_path.insert(0, Plain())
from stepscope.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""The command where nothing is installed but what Stepscope itself requires."""


def test_the_demo_in_numpy_needs_no_package_beside_stepscopes_own(tmp_path: Path) -> None:
    words = ["demo", str(tmp_path), "--framework", "numpy", "--epochs", "1", "--no-serve", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [json.loads(line)["run"] for line in done.stdout.splitlines()] == [
        f"numpy-{name}" for name in ("lr0.001", "lr0.01", "lr0.0001", "slow-disk")
    ]
