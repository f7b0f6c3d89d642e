"""Names that are no UTF-8: of directories, of files, of tags. One odd thing never blanks the rest."""

import os

import msgspec
import pytest

from stepscope import store
from stepscope.serve import captures
from stepscope.serve.encode import encoded
from stepscope.serve.follow import LogFollower
from stepscope.serve.types import Changes
from stepscope.store import cache
from stepscope.store.annotations.trash import Trash

BAD = os.fsdecode(b"bad\xff")


@pytest.fixture
def logs(tmp_path, writer_in):
    """Return a log directory with an ordinary run and one whose directory and tag are no UTF-8."""
    root = tmp_path / "logs"
    for directory, tag in ((root / "good", "loss"), (root / BAD, "loss"), (root / BAD / "é", "t\udcfe")):
        writer = writer_in(directory)
        for step in range(3):
            writer.scalar(tag, float(step), step, 100.0 + step)
        writer.flush()
    return root


def test_the_page_shows_all_runs(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    follower = LogFollower(logs, cache=True, clock=lambda: 1000.0, report=lambda line: None)
    while follower.turn() == 0.0:
        assert follower.failure is None
    changes = msgspec.json.decode(follower.feed.since(None, now=0.0), type=Changes)
    assert sorted(run.name for run in changes.runs) == [r"bad\xff", r"bad\xff/é", "good"]
    follower.stop()


def test_a_run_is_found_by_the_name_that_is_shown(logs):
    with store.open(logs, cache=False) as log:
        assert [run.name for run in log.runs()] == [r"bad\xff", r"bad\xff/é", "good"]
        assert log.run(r"bad\xff").series("loss")["value"].tolist() == [0.0, 1.0, 2.0]
        assert captures.directory_of(log, r"bad\xff") == logs / BAD
        assert captures.directory_of(log, r"bad\xff/é") == logs / BAD / "é"


def test_the_cache_holds_what_has_a_name_and_reads_the_rest_again(logs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTH_BYTES", 0)
    for _ in range(2):
        with store.open(logs, cache=True) as log:
            assert [len(run.series(tag)) for run in log.runs() for tag in run.files.tags] == [3, 3, 3]
    assert list((tmp_path / "cache").rglob("index"))


def test_a_folder_that_is_really_called_so(tmp_path, writer_in):
    writer = writer_in(tmp_path / r"bad\xff")
    writer.scalar("loss", 1.0, 0, 100.0)
    writer.flush()
    with store.open(tmp_path, cache=False) as log:
        assert captures.directory_of(log, r"bad\xff") == tmp_path / r"bad\xff"


def test_it_is_thrown_away_and_restored(logs):
    trash = Trash(logs)
    with store.open(logs, cache=False) as log:
        names = [run.name for run in log.runs()]
        files = list((logs / BAD / "é").iterdir())
    thrown = trash.throw(r"bad\xff/é", files, others=[name for name in names if name != r"bad\xff/é"])
    assert not (logs / BAD / "é").exists()
    trash.restore(thrown.id)
    assert (logs / BAD / "é").exists()


class Inner(msgspec.Struct):
    text: str


def test_a_message_is_sent_whatever_stands_in_it():
    message = {"a\ud800": [Inner("b\udcff"), msgspec.Raw(b"1")], "c": ("d", 2.5, None, True)}
    assert msgspec.json.decode(encoded(message)) == {
        "a\ufffd": [{"text": "b\ufffd"}, 1],
        "c": ["d", 2.5, None, True],
    }
    assert encoded({"a": 1}) == b'{"a":1}'
