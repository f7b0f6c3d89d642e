"""Event files in pieces, as a mounted bucket shows them, put together in the cache."""

import numpy as np
import pytest

import stepscope as ss
from stepscope.events.framing import frame
from stepscope.events.messages import Event, Summary, Value, encode_event
from stepscope.events.pieces import piece_name
from stepscope.store.discover import EventFileTree
from stepscope.store.pieces import Assembler

NAME = "events.out.tfevents.1700000000.host.1.0"
HEAD = frame(encode_event(Event(1.7e9, file_version="brain.Event:2")))
RECORDS = [
    frame(encode_event(Event(1.7e9 + step, step, summary=Summary([Value("loss", simple_value=float(step))]))))
    for step in range(9)
]
WHOLE = HEAD + b"".join(RECORDS)
ENDS = np.cumsum([len(HEAD), *map(len, RECORDS)]).tolist()


@pytest.fixture
def bucket(tmp_path):
    """A directory of one run, and what writes its pieces: from one record's begin to another's end."""
    (tmp_path / "logs" / "a").mkdir(parents=True)

    def put(begin, end, *, run="a"):
        start, stop = (ENDS[begin] if begin else 0), ENDS[end]
        (tmp_path / "logs" / run).mkdir(exist_ok=True)
        path = tmp_path / "logs" / run / piece_name(NAME, start, stop)
        path.write_bytes((HEAD if start else b"") + WHOLE[start:stop])
        return path

    put.root = tmp_path / "logs"
    return put


def steps_of(root, run="a"):
    with ss.open(root) as log:
        [series] = log.run(run).columns("loss")
        return series.points.columns.step.tolist()


def test_pieces_are_read_as_the_file_that_they_are(bucket):
    bucket(0, 3)
    bucket(3, 6)
    assert steps_of(bucket.root) == list(range(6))
    bucket(6, 9)
    assert steps_of(bucket.root) == list(range(9))


def test_a_piece_that_was_merged_counts_once(bucket):
    bucket(0, 3)
    bucket(3, 6)
    bucket(0, 6)
    bucket(2, 9)
    assert steps_of(bucket.root) == list(range(9))


def test_nothing_is_read_behind_a_piece_that_is_missing(bucket):
    bucket(0, 3)
    bucket(6, 9)
    assert steps_of(bucket.root) == list(range(3))
    bucket(3, 6)
    assert steps_of(bucket.root) == list(range(9))


def test_a_file_that_is_whole_stands_for_its_pieces(bucket):
    bucket(0, 3)
    bucket(3, 6)
    whole = bucket.root / "a" / NAME
    whole.write_bytes(WHOLE[: ENDS[6]])
    found = Assembler(str(bucket.root)).whole(EventFileTree(str(bucket.root)).scan())
    assert list(found["a"]) == [str(whole)]
    assert steps_of(bucket.root) == list(range(6))


def test_pieces_go_on_where_a_file_ends(bucket):
    (bucket.root / "a" / NAME).write_bytes(WHOLE[: ENDS[3]])
    bucket(3, 9)
    [path] = Assembler(str(bucket.root)).whole(EventFileTree(str(bucket.root)).scan())["a"]
    assert not path.startswith(str(bucket.root))
    assert steps_of(bucket.root) == list(range(9))


def test_other_files_and_runs_stay_as_they_are(bucket):
    bucket(0, 3)
    bucket(3, 9)
    other = bucket.root / "a" / f"{NAME}.another"
    other.write_bytes(WHOLE)
    bucket(0, 2, run="b")
    (bucket.root / "c").mkdir()
    alone = bucket.root / "c" / NAME
    alone.write_bytes(WHOLE)
    found = Assembler(str(bucket.root)).whole(EventFileTree(str(bucket.root)).scan())
    assert str(other) in found["a"]
    assert len(found["a"]) == 2
    assert list(found["c"]) == [str(alone)]
    assert steps_of(bucket.root, "b") == [0, 1]
