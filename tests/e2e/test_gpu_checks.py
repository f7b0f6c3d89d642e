"""Every check for a GPU runs here on the processor, at a small size, so that no mistake waits for the day.

Of the kind "fake" the lines run that a GPU alone would run, with stand-ins for ``torch.cuda``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import programs

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from gpu.checks import CHECKS

ROOT = Path(__file__).parents[2]
RUNNER = str(ROOT / "benchmarks" / "gpu" / "__main__.py")

EXPECTED = {
    "scalars": {"wrong_values": 0, "flushed": True, "problems": {}},
    "stages": {"by_device": 0},
    "capture": {"captures": 3},
    "gradients": {"histogram_missing": 0, "parameters_compared": 24, "kernel": "torch"},
    "memory": {"peak_error": 0.0, "peak_bytes": 77824, "gradient_error": 0.0},
    "roofline": {"perceptron_error": 0.0, "convolution_error": 0.0, "attention_error": 0.0},
    "system": {"memory_error": 0.0, "power_error": 0.0, "utilization": 1.0},
    "wrapped": {"graph_losses": 8},
    "nccl": {"stacks": 1, "line": 1},
}
"""Figures that do not depend on the speed of the machine."""


SECS = "700"


def passes(line, name):
    assert line["status"] == "measured"
    assert not [figure for figure in line["figures"] if figure.endswith("_failed")]
    assert {one["held"] for one in line["claims"]} == {None}
    found = line["figures"]
    assert {figure: found[figure] for figure in EXPECTED.get(name, {})} == EXPECTED.get(name, {})
    for row in found.get("programs", {}).values():
        assert "failed" not in row, row


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, "fake") for name in CHECKS] + [(name, "cpu") for name in ("scalars", "memory", "wrapped")],
)
def test_a_check_runs_without_a_gpu(name, kind, tmp_path):
    """As the process does that measures one check, but forked from one that has imported PyTorch."""
    done = programs.run(
        [RUNNER, "--measure", name, SECS, "--device", kind, "--out", str(tmp_path)],
        modules=programs.TORCH, capture_output=True, text=True, timeout=800, cwd=ROOT,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    passes(json.loads(done.stdout.strip().splitlines()[-1]), name)


def test_checks_run_in_processes_of_their_own_and_leave_their_lines(tmp_path):
    command = [sys.executable, RUNNER, "--device", "fake", "--only", "scalars", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    [line] = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert line["check"] == "scalars"
    passes(line, "scalars")
