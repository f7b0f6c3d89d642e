"""Log directories at a URL, on fsspec's own file system in memory."""

import datetime
import functools
import http.server
import os
import shutil

import fsspec
import pytest
from support.servers import serving

from stepscope import store
from stepscope.errors import LogDirectoryError
from stepscope.mirror import OVERLAP_BYTES, is_wanted
from stepscope.store.projector import embeddings_of


@pytest.fixture
def remote(memory_store):
    return memory_store


def upload(make, system):
    for path in make.root.rglob("*"):
        if path.is_file():
            system.pipe(f"/bucket/runs/{path.relative_to(make.root)}", path.read_bytes())


def test_a_remote_directory_is_read_and_followed(make, remote, monkeypatch):
    file = make.line("a", "loss", range(100))
    (make.root / "a" / "checkpoint.pt").write_bytes(b"x" * 1000)
    upload(make, remote)
    asked = []
    real = type(remote).cat_file

    def cat_file(self, path, start=None, end=None, **options):
        asked.append((path.rpartition("/")[2], start, end))
        return real(self, path, start=start, end=end, **options)

    monkeypatch.setattr(type(remote), "cat_file", cat_file)
    size = file.stat().st_size
    log = store.open("memory://bucket/runs")
    assert log.run("a").num_points() == 100
    assert asked == [(file.name, 0, size)]
    assert not log.refresh()
    make.points(file, "loss", [(100, 200, 1)])
    upload(make, remote)
    asked.clear()
    assert log.refresh().changed == {"a": {"loss"}}
    assert asked == [(file.name, size - OVERLAP_BYTES, file.stat().st_size)]
    assert store.open("memory://bucket/runs", cache=False).run("a").num_points() == 101
    assert len(asked) == 1


def test_remote_runs_disappear_and_shrink(make, remote):
    make.line("a", "loss", range(100))
    make.line("b", "loss", range(10))
    upload(make, remote)
    log = store.open("memory://bucket/runs")
    remote.rm("/bucket/runs/b", recursive=True)
    shutil.rmtree(make.root / "b")
    (make.root / "a" / "events.out.tfevents.1700000000.host.1.0").unlink()
    make.line("a", "loss", range(7))
    upload(make, remote)
    assert log.refresh().removed == ["b"]
    assert log.run("a").num_points() == 7


def test_mistakes(remote):
    with pytest.raises(LogDirectoryError, match=r"(?s)no such log directory.*memory://nothing"):
        store.open("memory://nothing/here")
    with pytest.raises(LogDirectoryError, match="not the address of a store"):
        store.open("nosuchprotocol://x")


def test_an_embedding_that_is_written_anew_is_copied_anew(make, remote):
    make.line("a", "loss", range(3))
    upload(make, remote)
    config = "/bucket/runs/a/projector_config.pbtxt"
    log = store.open("memory://bucket/runs")
    for name in ("first", "the second"):
        remote.pipe(config, f'embeddings {{ tensor_name: "{name}" }}'.encode())
        log.refresh()
        assert [each.name for each in embeddings_of(log, "a")] == [name]


def test_an_event_file_that_had_its_length_before_its_content_is_copied_again(make, remote):
    """Some programs make room for all of a file before they copy it."""
    file = make.line("a", "loss", range(100))
    data = file.read_bytes()
    remote.pipe(f"/bucket/runs/a/{file.name}", data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    log = store.open("memory://bucket/runs")
    assert 0 < log.run("a").num_points() < 100
    remote.pipe(f"/bucket/runs/a/{file.name}", data)
    log.refresh()
    assert log.run("a").num_points() == 100


def test_a_rewritten_file_that_could_not_be_fetched_is_fetched_at_the_next_look(make, remote, monkeypatch):
    make.line("a", "loss", range(3))
    upload(make, remote)
    config = "/bucket/runs/a/projector_config.pbtxt"
    remote.pipe(config, b'embeddings { tensor_name: "one" }')
    log = store.open("memory://bucket/runs")
    assert [each.name for each in embeddings_of(log, "a")] == ["one"]
    remote.pipe(config, b'embeddings { tensor_name: "two" }')
    real = type(remote).cat_file

    def refused(self, path, **options):
        raise PermissionError(path)

    monkeypatch.setattr(type(remote), "cat_file", refused)
    log.refresh()
    monkeypatch.setattr(type(remote), "cat_file", real)
    log.refresh()
    assert [each.name for each in embeddings_of(log, "a")] == ["two"]


def test_files_that_the_store_refuses_are_missing_and_not_empty(make, remote, monkeypatch):
    make.line("a", "loss", range(10))
    make.line("b", "loss", range(10))
    make.line("c", "loss", range(10))
    upload(make, remote)
    real = type(remote).cat_file

    def expired(self, path, **options):
        if "/a/" in path:
            return real(self, path, **options)
        raise PermissionError("The token has expired")

    monkeypatch.setattr(type(remote), "cat_file", expired)
    log = store.open("memory://bucket/runs")
    assert [run.name for run in log.runs()] == ["a"]
    [problem] = log.problems
    assert (problem.kind, problem.count) == ("unread", 2)
    assert problem.text == "2 files are not read from the store now: The token has expired"
    monkeypatch.setattr(type(remote), "cat_file", real)
    log.refresh()
    assert [run.num_points() for run in log.runs()] == [10, 10, 10]
    assert log.problems == []


def test_a_copy_is_as_old_as_the_store_says(make, remote):
    """What was written long ago does not run because it was copied just now."""
    file = make.line("a", "loss", range(10))
    upload(make, remote)
    stored = datetime.datetime.fromtimestamp(make.START + 60, tz=datetime.UTC)
    remote.store[f"/bucket/runs/a/{file.name}"].created = stored
    log = store.open("memory://bucket/runs")
    run = log.run("a")
    assert run.state == "ended"
    assert run.written == pytest.approx(stored.timestamp(), abs=0.01)
    make.points(file, "loss", [(100, 1.7e9 + 200, 1)])
    upload(make, remote)
    remote.store[f"/bucket/runs/a/{file.name}"].created = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    log.refresh()
    assert (run.num_points(), run.state) == (11, "running")  # the clock of the store may be wrong


class Pages(http.server.SimpleHTTPRequestHandler):
    """Lists a directory as a page with links, and says of no file there how long it is."""

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def web(make):
    """The address of a web server of the log directory, which knows no ranges of bytes."""
    with serving(functools.partial(Pages, directory=str(make.root))) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def test_a_web_server_is_read_and_followed(make, web):
    """Its listings say no lengths, and it answers with whole files where a part was asked for."""
    file = make.line("sp ace", "loss", range(100))
    os.utime(file, (1.7e9, 1.7e9))
    (make.root / "notes.txt").write_text("read")
    log = store.open(web)
    [run] = log.runs()
    assert (run.name, run.num_points(), run.state, run.problems) == ("sp ace", 100, "ended", [])
    make.points(file, "loss", [(100, 200, 1)])
    log.refresh()
    assert run.num_points() == 101


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("bucket/a/events.out.tfevents.1.h", True),
        ("bucket/a/ranks/rank-00001-of-00002.attempt-1.restart-0.h.1.0.steps", True),
        ("bucket/a/rank-00001-of-00002.attempt-1.restart-0.h.1.0.steps", False),
        ("bucket/a/ranks/notes.txt", False),
        ("bucket/a/model.pt", False),
        ("bucket/a/projector_config.pbtxt", True),
        ("bucket/a/projector/e/00000001/tensors.tsv", True),
    ],
)
def test_files_of_ranks_and_embeddings_are_copied_too(path, wanted):
    assert is_wanted(path) == wanted


def test_a_key_that_leads_out_is_not_copied(make, remote):
    make.line("a", "loss", range(10))
    upload(make, remote)
    name = "events.out.tfevents.1.host.1.0"
    remote.store[f"/bucket/runs/../../x/{name}"] = remote.store[next(iter(remote.store))]
    log = store.open("memory://bucket/runs")
    assert [run.name for run in log.runs()] == ["a"]
    (problem,) = [problem for problem in log.problems if problem.kind == "refused"]
    assert problem.text.startswith("1 file is not copied: a name leads out of the directory")
    assert not list(log.path.parent.parent.glob("x/*"))


def test_a_host_that_is_not_there_is_told_in_words(monkeypatch):
    def refused(*_, **__):
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refused)
    with pytest.raises(LogDirectoryError, match=r"cannot reach the store: .*Connection refused") as caught:
        store.open("ftp://ada:hunter22@host/runs", cache=False)
    assert caught.value.hint
    assert "hunter22" not in str(caught.value)
