"""Folders for a while: gone when done, and swept where their process was killed."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from stepscope.scratch import FRESH_S, Scratch, scratch, sweep

PREFIX = "stepscope-test-"
MAKES = """
import sys
from stepscope.scratch import Scratch
print(Scratch("test").path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def later():
    return time.time() + 2 * FRESH_S


def test_a_folder_is_gone_when_done(place):
    with scratch("test") as folder:
        (folder / "a").write_text("x")
        assert folder.parent == place
        assert folder.name.startswith(PREFIX)
    assert list(place.iterdir()) == []


def test_a_folder_that_is_held_stays(place):
    with scratch("test") as folder:
        assert sweep(place, PREFIX, now=later()) == 0
        assert folder.is_dir()


def test_the_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_is_not(place):
    process = subprocess.Popen(
        [sys.executable, "-c", MAKES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    folder = process.stdout.readline().strip()
    assert os.path.dirname(folder) == str(place)  # noqa: PTH120
    assert sweep(place, PREFIX, now=later()) == 0
    process.kill()
    process.communicate()
    assert os.path.isdir(folder)  # noqa: PTH112
    assert sweep(place, PREFIX) == 0, "too new: it could be one that is being made"
    assert sweep(place, PREFIX, now=later()) == 1
    assert list(place.iterdir()) == []


def test_what_is_not_ours_stays(place):
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / ".held").touch()
    (place / f"{PREFIX}link").symlink_to(place / "elsewhere")
    (place / f"{PREFIX}unmarked").mkdir()
    (place / f"{PREFIX}file").touch()
    (place / "another-kind").mkdir()
    before = set(place.iterdir())
    assert sweep(place, PREFIX, now=later()) == 0
    assert set(place.iterdir()) == before
    assert sweep(place / "gone", PREFIX) == 0


def test_a_folder_can_be_removed_twice(place):
    folder = Scratch("test")
    folder.remove()
    folder.remove()
    assert not folder.path.exists()
