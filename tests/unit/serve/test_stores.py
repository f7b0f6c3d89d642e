"""A log directory in a store, served."""

import gzip
import json
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.addresses import Addresses

from stepscope.serve import Server
from stepscope.serve.follow import LogFollower, copy_of
from stepscope.serve.reply import Refusal
from stepscope.trace.set import parts_of


@pytest.fixture
def place(memory_store):
    return memory_store


def upload(system, folder):
    for path in folder.rglob("*"):
        if path.is_file():
            system.pipe(f"/bucket/runs/{path.relative_to(folder).as_posix()}", path.read_bytes())


def read_all(follower):
    while follower.turn() == 0:
        pass


def test_a_store_is_followed(place, tmp_path, writer_in):
    writer = writer_in(tmp_path / "runs" / "a")
    writer.scalar("loss", 1.0, 0, 100.0)
    writer.flush()
    upload(place, tmp_path / "runs")
    url = "memory://bucket/runs"
    follower = LogFollower(copy_of(url), url=url, cache=False)
    try:
        read_all(follower)
        assert follower.failure is None
        assert [run.name for run in follower.log.runs()] == ["a"]
        assert (follower.feed.log.name, follower.feed.log.path_display) == ("runs", url)
        writer.scalar("loss", 0.5, 1, 101.0)
        writer.flush()
        upload(place, tmp_path / "runs")
        follower.turn()
        read_all(follower)
        assert follower.log.run("a").num_points() == 2
    finally:
        follower.stop()


def test_a_store_that_is_not_there_yet_is_tried_again(place, tmp_path, writer_in):
    url = "memory://bucket/runs"
    lines = []
    follower = LogFollower(copy_of(url), url=url, cache=False, report=lines.append)
    try:
        assert follower.turn() > 0
        assert "no such log directory" in lines[0]
        writer = writer_in(tmp_path / "runs" / "a")
        writer.scalar("loss", 1.0, 0, 100.0)
        writer.flush()
        upload(place, tmp_path / "runs")
        read_all(follower)
        assert lines[1:] == ["reading works again"]
    finally:
        follower.stop()


def test_the_page_names_the_store_without_its_password(place):
    server = Server("sftp://ada:hunter22@host/runs", port=0)
    try:
        assert server.follower.feed.log.path_display == "sftp://ada:[scrubbed]@host/runs"
        assert "hunter22" not in str(server.follower.log_dir)
    finally:
        server.socket.close()


# --- profiles -------------------------------------------------------------------------------------------


def trace_of(events):
    rows = [
        {"ph": "X", "name": f"work-{events}", "cat": "cpu_op", "ts": 10 * at, "dur": 5, "pid": 1, "tid": 1}
        for at in range(events)
    ]
    return json.dumps({"traceEvents": rows}).encode()


class Seen(MemoryFileSystem):
    """A store that notes what is read of each file."""

    protocol = "seenstore"
    store, pseudo_dirs = {}, [""]
    read: ClassVar = []
    broken = ""

    def cat_file(self, path, start=None, end=None, **more):
        if self.broken and path.endswith(self.broken):
            raise PermissionError("403 for hunter22")
        data = super().cat_file(path, start, end, **more)
        self.read.append((path.rpartition("/")[2], len(data)))
        return data


@pytest.fixture
def profiles(place, tmp_path, writer_in):
    """A log in a store that holds a run with profiles of several kinds, and the answers about them."""
    fsspec.register_implementation("seenstore", Seen, clobber=True)
    Seen.store.clear()
    Seen.pseudo_dirs[:] = [""]
    Seen.read.clear()
    writer = writer_in(tmp_path / "runs" / "a")
    writer.scalar("loss", 1.0, 0, 100.0)
    writer.flush()
    folder = tmp_path / "runs" / "a" / "profiles"
    folder.mkdir()
    (folder / "one.json").write_bytes(trace_of(5000))
    (folder / "two.json.gz").write_bytes(gzip.compress(trace_of(30)))
    (folder / "notes.json").write_text('{"a": [1, 2]}')
    (folder / "model.pt").write_bytes(b"x" * 1000)
    for rank in range(2):
        (folder / f"worker_rank{rank}_step00000500.json").write_bytes(trace_of(40))
    system = fsspec.filesystem("seenstore")
    for path in (tmp_path / "runs").rglob("*"):
        if path.is_file():
            system.pipe(
                f"seenstore://bucket/runs/{path.relative_to(tmp_path / 'runs').as_posix()}", path.read_bytes()
            )
    url = "seenstore://bucket/runs"
    follower = LogFollower(copy_of(url), url=url, cache=False)
    read_all(follower)
    yield Addresses(follower.log_dir, log=lambda: follower.log), follower, system
    Seen.broken = ""
    follower.stop()


def listed(answers):
    return {each["path"]: each for each in answers.json("profiles")["profiles"]}


def events_in(answers, path):
    return answers.json("profile", path=path)["events"]


def test_profiles_in_a_store_are_listed_by_their_beginnings_and_fetched_when_opened(profiles):
    answers, follower, _ = profiles
    assert not any("json" in name for name, _ in Seen.read)
    found = listed(answers)
    whole = "a/profiles/rank*_step00000500.json"
    assert set(found) == {
        "a/profiles/one.json", "a/profiles/two.json.gz", whole,
        *(f"a/profiles/worker_rank{rank}_step00000500.json" for rank in range(2)),
    }  # fmt: skip
    assert {each["run"] for each in found.values()} == {"a"}
    assert found["a/profiles/one.json"]["size_bytes"] == len(trace_of(5000))
    assert not list(follower.log_dir.rglob("*.json*"))
    count = len(Seen.read)
    assert listed(answers) == found
    assert len(Seen.read) == count
    assert events_in(answers, "a/profiles/one.json") == 5000
    assert [path.name for path in follower.log_dir.rglob("*.json")] == ["one.json"]
    assert events_in(answers, "a/profiles/two.json.gz") == 30
    assert events_in(answers, whole) == 80
    follower.turn()
    after = listed(answers)
    assert set(after) == set(found)
    assert after["a/profiles/one.json"]["modified"] == found["a/profiles/one.json"]["modified"]
    count = len(Seen.read)
    assert events_in(answers, "a/profiles/one.json") == 5000
    assert len(Seen.read) == count


def test_a_profile_that_is_written_anew_is_fetched_anew(profiles):
    answers, follower, system = profiles
    assert events_in(answers, "a/profiles/two.json.gz") == 30
    system.pipe("seenstore://bucket/runs/a/profiles/two.json.gz", gzip.compress(trace_of(31)))
    follower.turn()
    read_all(follower)
    assert events_in(answers, "a/profiles/two.json.gz") == 31
    system.rm("seenstore://bucket/runs/a/profiles/two.json.gz")
    follower.turn()
    with pytest.raises(Refusal, match="no such profile"):
        events_in(answers, "a/profiles/two.json.gz")


def test_a_profile_that_the_store_does_not_give_is_refused_and_the_others_open(profiles):
    answers, _, _ = profiles
    Seen.broken = "one.json"
    assert "a/profiles/two.json.gz" in listed(answers)
    with pytest.raises(Refusal, match=r"cannot fetch a/profiles/one\.json"):
        events_in(answers, "a/profiles/one.json")
    assert events_in(answers, "a/profiles/two.json.gz") == 30
    Seen.broken = ""
    assert events_in(answers, "a/profiles/one.json") == 5000


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("p/a.json", {"p/a.json", "p/a.json.stacks"}),
        ("p/b", {"p/b/r0.json", "p/b/r1.json"}),
        ("t/graph.pbtxt", {"t/graph.pbtxt", "t/run_meta_1", "t/tfprof_log"}),
        ("none", set()),
    ],
)
def test_what_a_profile_is_made_of(path, parts):
    names = [
        "p/a.json", "p/a.json.stacks", "p/aa.json", "p/b/r0.json", "p/b/r1.json", "p/bb.json",
        "t/graph.pbtxt", "t/run_meta_1", "t/tfprof_log",
    ]  # fmt: skip
    assert set(parts_of(path, names)) == parts
