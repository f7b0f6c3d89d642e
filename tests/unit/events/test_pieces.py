"""The names of pieces, and where records end."""

import io

import pytest

from stepscope.events.framing import frame
from stepscope.events.pieces import Piece, covering, first_record, parse_piece, piece_name, records_end

FIRST, SECOND = frame(b"first"), frame(b"the second")
FILE = FIRST + SECOND


def test_a_name_says_which_bytes_a_piece_holds():
    name = piece_name("events.out.tfevents.1.host", 0, 1234)
    assert name == "events.out.tfevents.1.host.bytes-000000000000000-000000000001234"
    assert parse_piece(name) == Piece("events.out.tfevents.1.host", 0, 1234)


@pytest.mark.parametrize("name", ["a", "a.bytes-0-1", "a.bytes-000000000000000-000000000001234.tmp"])
def test_other_names_are_no_pieces(name):
    assert parse_piece(name) is None


def test_the_piece_that_reaches_furthest_goes_on():
    pieces = [Piece("a", 0, 10), Piece("a", 5, 20), Piece("a", 10, 12)]
    assert [covering(pieces, at) for at in (0, 4, 5, 10, 19, 20)] == [
        pieces[0], pieces[0], pieces[1], pieces[1], pieces[1], None,
    ]  # fmt: skip
    assert covering([], 0) is None


@pytest.mark.parametrize("start", [0, len(FIRST)])
@pytest.mark.parametrize("size", range(len(FIRST), len(FILE) + 1))
def test_records_end_where_the_last_whole_one_does(start, size):
    ends = len(FILE) if size == len(FILE) else len(FIRST)
    assert records_end(io.BytesIO(FILE[:size]), start, size) == ends


def test_the_end_may_be_the_first_beyond_some_bytes():
    file = io.BytesIO(FILE + FIRST)
    size = len(FILE + FIRST)
    assert records_end(file, 0, size, 1) == len(FIRST)
    assert records_end(file, 0, size, len(FIRST)) == len(FIRST)
    assert records_end(file, 0, size, len(FIRST) + 1) == len(FILE)
    assert records_end(file, len(FIRST), size, 1) == len(FILE)


@pytest.mark.parametrize("size", range(len(FIRST) + 2))
def test_the_first_record_is_given_if_it_is_whole(size):
    assert first_record(io.BytesIO(FILE[:size])) == (FIRST if size >= len(FIRST) else b"")


def test_a_first_record_is_not_large():
    """It names the version; what is larger is none."""
    for length, there in (((1 << 16) - 1, True), (1 << 16, False)):
        data = frame(bytes(length))
        assert (first_record(io.BytesIO(data)) == data) == there
