"""What is kept of files in a store that are read by ranges."""

import os
import time

import pytest

from stepscope import files
from stepscope.errors import EventFileError, LogDirectoryError
from stepscope.store import ranges
from stepscope.store.ranges import BLOCK_BYTES, Compact, RangedFile, block_checksums

DAY = 86400


@pytest.fixture
def elsewhere(tmp_path):
    """A file of ten blocks and a bit.

    Its bytes, the folder of copies, a function that opens a copy by ranges, and the blocks of each request.
    """
    data = os.urandom(10 * BLOCK_BYTES + 7)
    (tmp_path / "whole").write_bytes(data)
    checksums = block_checksums(tmp_path / "whole")
    folder = tmp_path / "ranges"
    requests = []

    def read(start, end):
        requests.append((start / BLOCK_BYTES, end / BLOCK_BYTES))
        return data[start:end]

    return data, folder, lambda name: RangedFile(folder / name, len(data), checksums, read), requests


def test_only_the_blocks_of_wanted_ranges_are_fetched(elsewhere):
    data, folder, opened, _ = elsewhere
    opened("a").ensure([(BLOCK_BYTES + 1, BLOCK_BYTES + 2), (len(data) - 1, len(data))])
    here = (folder / "a").read_bytes()
    assert len(here) == len(data)
    assert here[BLOCK_BYTES : 2 * BLOCK_BYTES] == data[BLOCK_BYTES : 2 * BLOCK_BYTES]
    assert here[10 * BLOCK_BYTES :] == data[10 * BLOCK_BYTES :]
    assert not any(here[2 * BLOCK_BYTES : 10 * BLOCK_BYTES])


def test_what_is_here_is_not_fetched_again_when_the_file_is_opened_again(elsewhere):
    _, _, opened, requests = elsewhere
    opened("a").ensure([(2 * BLOCK_BYTES, 3 * BLOCK_BYTES)])
    opened("a").ensure([(BLOCK_BYTES, 4 * BLOCK_BYTES)])
    assert sorted(requests) == [(1, 2), (2, 3), (3, 4)]


def test_adjacent_blocks_are_one_request_up_to_a_limit(elsewhere, monkeypatch):
    _, _, opened, requests = elsewhere
    monkeypatch.setattr(ranges, "MOST_AT_ONCE", 2)
    opened("a").ensure([(0, 5 * BLOCK_BYTES), (7 * BLOCK_BYTES, 9 * BLOCK_BYTES)])
    assert sorted(requests) == [(0, 2), (2, 4), (4, 5), (7, 9)]


def test_a_damaged_block_is_refused(tmp_path):
    file = RangedFile(tmp_path / "a", 9, b"\0\0\0\0", lambda start, end: b"x" * (end - start))
    with pytest.raises(LogDirectoryError, match="checksum"):
        file.ensure([(0, 9)])


@pytest.mark.parametrize("end", [b"\x09\0\0\0NONE", b"\xff\0\0\0PAR1"])
def test_a_file_without_the_end_of_parquet_is_refused(tmp_path, end):
    data = bytes(100) + end
    (tmp_path / "whole").write_bytes(data)
    file = RangedFile(
        tmp_path / "a", len(data), block_checksums(tmp_path / "whole"), lambda start, end: data[start:end]
    )
    with pytest.raises(EventFileError, match="not a Parquet file"):
        file.ensure_rows(0, 1, ["step"])


def test_what_nobody_used_for_a_month_is_deleted_when_another_is_opened(elsewhere):
    _, folder, opened, _ = elsewhere
    for name in ("old", "used", "young"):
        opened(name).ensure([(0, 1)])
    for name, days in (("old", 31), ("used", 31), ("young", 29)):
        os.utime(folder / name, (time.time() - days * DAY,) * 2)
    opened("used")  # opened again: in use
    assert {path.name for path in folder.iterdir()} == {"old", "used", "young"}
    opened("new")
    assert {path.name for path in folder.iterdir()} == {"used", "young", "new"}


def test_beyond_a_total_on_the_disk_the_least_recently_used_go_and_holes_count_nothing(
    elsewhere, monkeypatch
):
    data, folder, opened, _ = elsewhere
    monkeypatch.setattr(files, "TOTAL_BYTES", 3 * BLOCK_BYTES)
    for at, name in enumerate(("first", "second", "third")):
        opened(name).ensure([(0, BLOCK_BYTES)])
        os.utime(folder / name, (time.time() - 100 + at,) * 2)
    opened("mine")
    assert {path.name for path in folder.iterdir()} == {"first", "second", "third", "mine"}
    opened("second").ensure([(0, len(data))])
    os.utime(folder / "second", (time.time() - 50,) * 2)
    opened("other")
    assert {path.name for path in folder.iterdir()} == {"mine", "other"}


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_a_list_of_bytes_of_any_kind_is_read_to_its_end(kind):
    """Whoever writes a list of booleans may call them 1 or 2."""
    data = bytes([0x19, 0x20 | kind, 1, 2, 0x15, 6, 0])  # field 1: a list of two; field 2: the number 3
    assert Compact(data).struct() == {1: [1, 2], 2: 3}
