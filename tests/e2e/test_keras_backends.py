"""tests/keras once per backend, in a separate process: Keras fixes its backend when it is imported.

On TensorFlow, and with the Keras of TensorFlow 2.15, they run in the environments of tests/tensorflow.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1] / "keras"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_keras(backend: str, tmp_path: Path) -> None:
    for needed in ("keras", backend):
        if find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    compiled = {  # many of them compile the same small programs
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS)],
        env={**os.environ, "KERAS_BACKEND": backend, **compiled},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
