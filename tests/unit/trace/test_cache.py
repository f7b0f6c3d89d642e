"""The cache of a trace: the same trace, only while the profile is the same, and never more than a cache."""

import gzip
import json
import os
import struct
import subprocess
import sys
import zlib
from contextlib import suppress
from dataclasses import fields

import numpy as np
import pytest

import stepscope as ss
from stepscope import files
from stepscope.files import BlobError
from stepscope.trace import cache, load
from stepscope.trace.model import COLUMNS, Trace
from stepscope.trace.tables import TABLES

EVENTS = [
    {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm é",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "dur": 20,
        "args": {"Input Dims": [[1]], "Call stack": "a.py(1): f"},
    },
    {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "launch",
        "pid": 1,
        "tid": 1,
        "ts": 2,
        "dur": 3,
        "args": {"correlation": 5},
    },
    {
        "ph": "X",
        "cat": "kernel",
        "name": "gemm",
        "pid": 0,
        "tid": 7,
        "ts": 9,
        "dur": 3,
        "args": {"correlation": 5, "device": 0, "stream": 7, "grid": [2, 1, 1]},
    },
]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    path = tmp_path / "run" / "trace.json.gz"
    path.parent.mkdir()
    return write(path)


def write(path, extra=0):
    top = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "distributedInfo": {"rank": 2, "pg_config": [{"pg_name": "0", "ranks": [1, 2]}]},
        "env": "x" * 100_000,
    }
    path.write_bytes(gzip.compress(json.dumps({**top, "traceEvents": EVENTS + EVENTS[:1] * extra}).encode()))
    return path


def same(a, b):
    for name in COLUMNS:
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
        assert getattr(a, name).dtype == getattr(b, name).dtype
    for name in TABLES:
        for field, values in getattr(a, name).columns().items():
            np.testing.assert_array_equal(values, getattr(getattr(b, name), field))
    for name in ("strings", "scopes", "stacks"):
        assert getattr(a, name).texts() == getattr(b, name).texts()
    plain = {field.name for field in fields(Trace)} - set(COLUMNS) - set(TABLES)
    for name in plain - {"strings", "scopes", "stacks", "sources"}:
        assert getattr(a, name) == getattr(b, name), name


def test_the_cache_gives_the_same_trace(path, monkeypatch):
    first = ss.load_trace(path)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert cache.place_of(path).stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(load, "require_format", None)  # a second reading of the file would fail
    again = ss.load_trace(path)
    same(first, again)
    assert again.sources[0].path == str(path)
    assert "env" not in again.sources[0].facts  # large facts are not kept


def test_columns_cannot_be_written_to(path):
    ss.load_trace(path)
    with pytest.raises(ValueError, match="read-only"):
        ss.load_trace(path).start_ns[0] = 1


@pytest.mark.parametrize("change", ["content", "time", "same size and time"])
def test_a_changed_profile_is_read_again(path, change):
    ss.load_trace(path)
    before = path.stat()
    if change == "content":
        write(path, extra=1)
        assert len(ss.load_trace(path)) == 4
        return
    if change == "same size and time":
        data = bytearray(path.read_bytes())
        data[4] ^= 0xFF  # the time in gzip's head
        path.write_bytes(bytes(data))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(path, ns=(1, 1))
    assert cache.load_cached(path) is None
    assert len(ss.load_trace(path)) == 3


@pytest.mark.parametrize("home", ["a file", "read-only", "none"])
def test_without_a_directory_for_caches_a_profile_is_read(path, monkeypatch, tmp_path, home):
    if home == "a file":
        (tmp_path / "home").write_text("")
    elif home == "none":
        monkeypatch.setattr(cache, "cache_home", lambda: None)
    else:
        refuse = PermissionError(13, "read-only")
        monkeypatch.setattr(cache, "write", lambda *_: (_ for _ in ()).throw(refuse))
    assert len(ss.load_trace(path)) == len(ss.load_trace(path)) == 3
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_the_least_recently_used_caches_go_first(path, monkeypatch):
    names = ["a.json.gz", "b.json.gz", "c.json.gz"]
    paths = [write(path.with_name(name)) for name in names]
    monkeypatch.setattr(files, "UNUSED_SECONDS", 1e10)
    for at, each in enumerate(paths):
        ss.load_trace(each)
        os.utime(cache.place_of(each), (at + 1e9, at + 1e9))
    ss.load_trace(paths[0])  # used again
    size = max(cache.place_of(each).stat().st_blocks for each in paths) * files.DISK_BLOCK_BYTES
    monkeypatch.setattr(files, "TOTAL_BYTES", size * 3)
    ss.load_trace(path)
    assert [cache.place_of(each).exists() for each in [*paths, path]] == [True, False, True, True]
    monkeypatch.setattr(files, "UNUSED_SECONDS", 100)
    ss.load_trace(write(path, extra=1))
    assert [cache.place_of(each).exists() for each in [*paths, path]] == [True, False, False, True]


def test_processes_that_read_one_profile_at_once_share_its_cache(path, monkeypatch):
    reads = "import sys, stepscope; print(len(stepscope.load_trace(sys.argv[1])))"
    started = [
        subprocess.Popen([sys.executable, "-c", reads, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=300)[0] for process in started] == ["3\n"] * 3
    assert list(cache.place_of(path).parent.iterdir()) == [cache.place_of(path)]
    monkeypatch.setattr(load, "require_format", None)
    assert len(ss.load_trace(path)) == 3


def test_no_cache_is_written_when_not_wanted(path):
    ss.load_trace(path, cache=False)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_damaged_cache_is_not_used(path):
    ss.load_trace(path)
    place = cache.place_of(path)
    data = place.read_bytes()
    expected = cache.identity(path)
    for cut in (0, 5, 19, 23, 200, len(data) // 2):
        place.write_bytes(data[:cut])
        with suppress(ValueError, BlobError):
            assert cache.read(place, expected) is None
        assert len(ss.load_trace(path)) == 3
    place.write_bytes(data[:8] + struct.pack("<I", cache.VERSION + 1) + data[12:])
    assert cache.read(place, cache.identity(path)) is None


@pytest.mark.slow
def test_one_flipped_bit_is_never_a_wrong_number(path):
    first = ss.load_trace(path)
    place = cache.place_of(path)
    data = place.read_bytes()
    expected = cache.identity(path)
    for at in range(0, len(data), 7):
        place.write_bytes(data[:at] + bytes((data[at] ^ 4,)) + data[at + 1 :])
        try:
            found = cache.read(place, expected)
        except (ValueError, BlobError):
            continue
        if found is not None:  # the bit lies between two columns
            same(found, first)


def test_a_file_that_is_cut_short_while_it_is_open_stays_readable(path):
    expected = len(ss.load_trace(path)), int(ss.load_trace(path).duration_ns.sum())
    cached = ss.load_trace(path)
    os.truncate(cache.place_of(path), 0)  # a mapped file would end the process here
    assert (len(cached), int(cached.duration_ns.sum())) == expected


@pytest.mark.parametrize(
    "column", ["column.parent", "column.name", "column.launch", "operators.shapes", "kernels.row"]
)
def test_a_cache_that_points_outside_is_not_used(path, column):
    """Loops without bounds checks run over these columns."""
    ss.load_trace(path)
    place = cache.place_of(path)
    data = bytearray(place.read_bytes())
    size = struct.unpack_from("<8sIQ", data)[2]
    header = json.loads(data[24 : 24 + size])
    dtype, at, count, _ = header["arrays"][column]
    begin = -(-(24 + size) // 64) * 64
    numbers = np.frombuffer(data, np.dtype(dtype), count, begin + at)
    numbers[0] = 1000
    # Whoever writes such a file writes its checksums, too.
    header["arrays"][column][3] = zlib.crc32(numbers.tobytes())
    text = json.dumps(header).encode()
    head = struct.pack("<8sIQI", cache.MAGIC, cache.VERSION, len(text), zlib.crc32(text))
    padding = bytes(-len(head + text) % 64)
    place.write_bytes(head + text + padding + bytes(data[begin:]))
    with pytest.raises(ValueError, match=r"outside|precede"):
        cache.read(place, cache.identity(path))
    assert len(ss.load_trace(path)) == 3


def test_a_differently_spelled_folder_is_where_it_lies_now(path, monkeypatch, tmp_path):
    ss.load_trace(path.parent)
    monkeypatch.setattr(cache, "store", lambda *_: pytest.fail("read anew"))
    monkeypatch.chdir(tmp_path)
    assert [source.path for source in ss.load_trace("run").sources] == [f"run/{path.name}"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_named_like_a_profile_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "trace.json")
    waits = "import sys, stepscope; stepscope.load_trace(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", waits, str(tmp_path / "trace.json")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "not a regular file" in done.stderr
