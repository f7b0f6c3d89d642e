"""tests/keras once per backend, in a process of its own: Keras fixes its backend when it is imported.

On TensorFlow, and with the Keras of TensorFlow 2.15, they run in the environments of tests/tensorflow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1] / "keras"


@pytest.mark.slow
@pytest.mark.parametrize("part", ["callback", "gradients", "activations", "model", "example"])
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_keras(backend: str, part: str) -> None:
    for needed in ("keras", backend):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS / f"test_{part}.py")],
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
