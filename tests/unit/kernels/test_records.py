import struct

import google_crc32c
import numpy as np
import pytest
from support import modules

from stepscope.events import frame, masked_crc32c
from stepscope.kernels import records as compiled


@pytest.fixture(params=["compiled", "table", "python"])
def kernel(request):
    if request.param == "python":
        yield modules.uncompiled(compiled)
        return
    used = compiled.choose(by_table=request.param == "table")
    assert used in (["table"] if request.param == "table" else ["sse4.2", "armv8", "table"])
    yield compiled
    compiled.choose()


def scan(kernel, data, room=100):
    starts, lengths = np.zeros(room, np.int64), np.zeros(room, np.int64)
    count, at, found = kernel.scan(data, starts, lengths)
    return starts[:count].tolist(), lengths[:count].tolist(), at, found


def test_checksum_of_every_length_and_alignment(kernel):
    data = bytes(np.random.default_rng(0).integers(0, 256, 200, np.uint8))
    for start in range(9):
        for end in range(start, 120):
            crc = google_crc32c.value(data[start:end])
            expected = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            assert kernel.checksum(memoryview(data)[start:end]) == expected


def test_scan_finds_every_record(kernel):
    payloads = [b"", b"a", b"bc" * 50]
    data = b"".join(map(frame, payloads))
    starts, lengths, at, found = scan(kernel, data)
    assert [data[s : s + n] for s, n in zip(starts, lengths, strict=True)] == payloads
    assert (at, found) == (len(data), kernel.INCOMPLETE)


def test_scan_stops_without_room(kernel):
    assert scan(kernel, frame(b"a") * 3, room=2)[2:] == (2 * len(frame(b"a")), kernel.FULL)


def test_scan_stops_at_every_cut(kernel):
    first, second = frame(b"first"), frame(b"second")
    for cut in range(len(second)):
        starts, _, at, found = scan(kernel, first + second[:cut])
        assert (starts, at, found) == ([12], len(first), kernel.INCOMPLETE)


def test_scan_stops_at_a_wrong_checksum(kernel):
    first, second = frame(b"first"), frame(b"second")
    for at in range(len(second)):
        broken = bytearray(first + second + first)
        broken[len(first) + at] ^= 0x40
        expected = kernel.BAD_HEADER if at < 12 else kernel.BAD_PAYLOAD
        assert scan(kernel, bytes(broken))[2:] == (len(first), expected)


def test_a_length_beyond_all_memory_is_incomplete(kernel):
    size = struct.pack("<Q", (1 << 64) - 1)
    header = size + struct.pack("<I", masked_crc32c(size))
    assert scan(kernel, header + bytes(40))[2:] == (0, kernel.INCOMPLETE)
    assert kernel.find(header + bytes(40), 0, 1 << 40) == -1


def test_find_skips_what_is_no_record(kernel):
    record = frame(b"payload")
    for before in (b"", b"junk", bytes(11), bytes(12), bytes(100), b"\x01" + bytes(40), record[1:]):
        data = before + record + b"more"
        assert kernel.find(data, 0, len(data)) == len(before)
        assert kernel.find(data, len(before) + 1, len(data)) == -1


def test_find_counts_a_record_by_its_header(kernel):
    record = frame(b"payload")
    assert kernel.find(b"junk" + record[:-1] + b"x", 0, 4 + len(record)) == 4
    assert kernel.find(b"junk" + record[:14], 0, 4 + len(record)) == 4
    assert kernel.find(b"junk" + record[:14], 0, 4 + len(record) - 1) == -1


@pytest.mark.parametrize(
    ("data", "found"), [(b"", False), (b"\1" + bytes(15), False), (b"\1" + bytes(16) + b"\1", True)]
)
def test_zero_run(kernel, data, found):
    assert kernel.zero_run(data, 16) == found
