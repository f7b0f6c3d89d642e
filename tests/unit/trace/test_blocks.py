"""Bytes of a profile: plain, gzipped, cut, corrupt, and bombs."""

import gzip
import threading
import zlib

import pytest
from support.errors import raises

from stepscope.errors import TraceError
from stepscope.trace import blocks as module
from stepscope.trace.blocks import Blocks

DATA = b"".join(b"%d," % i for i in range(100_000))


def read(path, **options):
    with Blocks(path, **options) as blocks:
        return b"".join(blocks), blocks


@pytest.mark.parametrize("size", [0, 1, 1000, len(DATA)])
@pytest.mark.parametrize("compressed", [False, True])
def test_bytes_come_back(tmp_path, size, compressed):
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(DATA[:size]) if compressed else DATA[:size])
    data, blocks = read(path, block_bytes=4096)
    assert data == DATA[:size]
    assert (blocks.total_bytes, blocks.damage, blocks.compressed) == (size, "", compressed)


def test_members_that_follow_each_other_are_one_stream(tmp_path):
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress(DATA[:1000]) + gzip.compress(DATA[1000:]))
    assert read(path)[0] == DATA


def test_a_cut_stream_gives_what_it_has_and_says_so(tmp_path):
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress(DATA)[:-100])
    data, blocks = read(path, block_bytes=4096)
    assert DATA.startswith(data)
    assert len(data) > len(DATA) // 2
    assert "ends before" in blocks.damage


def test_a_corrupt_stream_gives_what_it_has_and_says_so(tmp_path):
    path = tmp_path / "trace.gz"
    broken = bytearray(gzip.compress(DATA))
    broken[len(broken) // 2 :] = b"\xff" * (len(broken) - len(broken) // 2)
    path.write_bytes(bytes(broken))
    data, blocks = read(path, block_bytes=4096)
    assert DATA[:1000].startswith(data[:1000])
    assert blocks.damage


def test_a_bomb_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.gz"
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    with path.open("wb") as file:
        for _ in range(100):
            file.write(packer.compress(bytes(1 << 20)))
        file.write(packer.flush())
    with raises(TraceError, match="inflates to more than 300 times", hint_has="STEPSCOPE_MAX_EXPANSION"):
        read(path)
    monkeypatch.setenv("STEPSCOPE_MAX_EXPANSION", "2000")
    assert len(read(path)[0]) == 100 << 20
    monkeypatch.setenv("STEPSCOPE_MAX_EXPANSION", "much")
    with pytest.raises(TraceError, match="expected a number"):
        read(path)


def test_a_consumer_that_stops_leaves_no_thread(tmp_path):
    path = tmp_path / "trace"
    path.write_bytes(DATA)
    before = threading.active_count()
    with Blocks(path, block_bytes=4096) as blocks:
        iterator = iter(blocks)
        next(iterator)
        assert threading.active_count() == before + 1
        iterator.close()
    assert threading.active_count() == before


def test_errors_while_reading_ahead_are_raised_here():
    def broken():
        yield b"a"
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="on fire"):
        list(module._ahead(broken()))


def test_head_consumes_nothing(tmp_path):
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress(DATA))
    with Blocks(path) as blocks:
        assert blocks.head(100) == DATA[:100]
        assert b"".join(blocks) == DATA


def test_no_such_file(tmp_path):
    with pytest.raises(TraceError, match="cannot open the profile"):
        Blocks(tmp_path / "none")
