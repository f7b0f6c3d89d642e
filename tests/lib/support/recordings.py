"""Recorded profiles and logs: small ones in tests/data, whole ones beside the checkout or fetched."""

import atexit
import lzma
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
DATA = TESTS / "data"
WHOLE = (TESTS.parents[1] / "shared" / "data", DATA / "whole")
"""Where the whole recordings may be; see scripts/recordings.py."""
NOT_HERE = "whole recording not here"
"""How the reason begins for which a test that needs one is skipped."""


def recorded(name: str) -> Path:
    """A file or folder of tests/data; of traces/kineto these are extracts of the whole recordings."""
    path = estimator().parent / name if name.startswith("tf_estimator") else DATA / name
    assert path.exists(), f"{path} belongs to the repository"
    return path


@cache
def estimator() -> Path:
    """The logs of TensorFlow's Estimator as it wrote them: a folder with ``single`` and ``distributed``."""
    place = Path(tempfile.mkdtemp(prefix="stepscope-estimator-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    shutil.copytree(DATA / "tf_estimator", place / "tf_estimator")
    for packed in (place / "tf_estimator").rglob("*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        os.utime(packed.with_suffix(""), (86_400, 86_400))  # nothing writes them any more
        packed.unlink()
    return place / "tf_estimator"


def whole(name: str) -> Path:
    """A recording at its full length; without it a test is skipped, and fails where CI is set."""
    for place in WHOLE:
        if (place / name).exists():
            return place / name
    reason = f"{NOT_HERE}: {name} (make recordings)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
