"""Logs that were compacted are read as what they were, value for value; nothing is lost on the way."""

import json
import os
import time
import types
from pathlib import Path
from typing import ClassVar

import fsspec
import numpy as np
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from isal import isal_zlib

import stepscope as ss
from stepscope import store, workers
from stepscope.cli import main
from stepscope.errors import EventFileError, LogDirectoryError, UsageError
from stepscope.events import EventWriter
from stepscope.store import compact as compacts
from stepscope.store import compacted
from stepscope.store.compacted import MAGIC, CompactedRecords, Extent, encode_index, load_index
from stepscope.store.compaction import compact


def record(folder, *, attempts=2, points=500):
    """Record what may be odd: NaN, repeated and falling steps, wide values, media, restarts."""
    for attempt in range(attempts):
        with ss.Run(folder, config={"lr": 0.1, "attempt": attempt}, rank=0, world_size=2) as run:
            for step in range(points):
                run.scalar("loss", float("nan") if step % 50 == 7 else 1 / (step + 1), step)
                run.scalar("again", step * 3.0, step // 2)
                run.scalar("back", -0.0 if step % 2 else float("-inf"), points - step)
            run.scalar("wide", 1e300, 5)
            run.scalar("large step", 1.0, 1 << 40)
            run.text("note", f"hello {attempt}", 3)
            run.histogram("h", np.arange(10.0), 4)
            run.image("pic", np.ones((4, 4)), 1)
    profiles = Path(folder, "profiles")
    profiles.mkdir()
    (profiles / "step-1.json").write_text("{}")


def seen(path):
    """All that a log shows, as plain values that can be compared."""
    with store.open(path, cache=False) as log:
        return {run.name: facts(run) for run in log.runs()}


def facts(run):
    scalars = {
        tag: [
            (
                (s.writer, s.attempt),
                (s.step.dtype.str, s.value.dtype.str),
                s.wall.tolist(),
                s.step.tolist(),
                np.ascontiguousarray(s.value).tobytes(),
            )
            for s in run.columns(tag)
        ]
        for tag in run.tags()
    }
    records = {
        found.tag: [
            (s.writer, s.attempt, s.kind, s.step.tolist(), s.wall.tolist(), repr(list(s)))
            for s in run.record(found.tag)
        ]
        for found in run.records()
    }
    return {
        "scalars": scalars,
        "records": records,
        "about": [(each.tag, each.plugin, each.description, each.count) for each in run.records()],
        "info": run.info,
        "state": run.state,
        "problems": [(each.kind, each.count, each.text) for each in run.problems],
        "writers": [(each.id, each.rank, each.attempt) for each in run.writers],
        "times": (run.first_wall, run.last_wall, run.written, run.last_step),
        "ranks": len(run.ranks.files) if hasattr(run.ranks, "files") else None,
    }


def test_a_compacted_log_shows_what_the_log_showed(tmp_path):
    record(tmp_path / "runs" / "x")
    record(tmp_path / "runs" / "y" / "eval", attempts=1)
    before = seen(tmp_path / "runs")
    files = sorted((tmp_path / "runs").rglob("*"))
    found = compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    assert found.failed == []
    assert sum(each.points for each in found.done) == sum(
        len(points[3]) for run in before.values() for series in run["scalars"].values() for points in series
    )
    assert seen(tmp_path / "out") == before
    assert sorted((tmp_path / "runs").rglob("*")) == files  # the original is as it was
    assert seen(tmp_path / "runs") == before
    assert (tmp_path / "out" / "x" / "profiles" / "step-1.json").read_text() == "{}"
    assert len(list((tmp_path / "out" / "x" / "ranks").iterdir())) == 2
    kept = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert found.copied == len([path for path in kept if not path.name.startswith("events.out.compacted")])
    assert not [path for path in (tmp_path / "out").rglob("*") if "tfevents" in path.name]


def test_series_over_several_files_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(compacts, "FILE_ROWS", 333)
    record(tmp_path / "runs" / "x")
    before = seen(tmp_path / "runs")
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    assert len(list((tmp_path / "out" / "x").glob("*.parquet"))) > 10
    assert seen(tmp_path / "out") == before


def test_any_reader_of_parquet_opens_the_points(tmp_path):
    record(tmp_path / "runs" / "x", attempts=1)
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    [path] = (tmp_path / "out" / "x").glob("events.out.compacted.*.parquet")
    frame = pl.read_parquet(path)
    assert frame.columns == ["attempt", "tag", "step", "wall", "value"]
    loss = frame.filter(pl.col("tag") == "loss")
    assert loss["step"].to_list() == list(range(500))
    assert loss["value"][1] == 0.5
    assert loss["value"].is_nan().sum() == 10


def test_several_attempts_of_one_file_of_another_tool(tmp_path):
    from stepscope.events import Event, SessionLog, SessionStatus

    folder = tmp_path / "runs" / "x"
    with_sessions = EventWriter(folder, clock=lambda: 1_000.0)
    for start in (0, 3):
        with_sessions.event(Event(1000.0 + start, start, session_log=SessionLog(SessionStatus.START)))
        for step in range(start, start + 5):
            with_sessions.scalar("loss", float(step), step, 1000.0 + step)
    with_sessions.close()
    [path] = folder.iterdir()
    os.utime(path, (2_000, 2_000))
    before = seen(tmp_path / "runs")
    assert [points[0][1] for points in before["x"]["scalars"]["loss"]] == [1, 2]
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    assert seen(tmp_path / "out") == before
    [path] = (tmp_path / "out" / "x").glob("*.parquet")
    assert pl.read_parquet(path)["attempt"].to_list() == [1] * 5 + [2] * 5


def test_a_damaged_file_says_the_same_damage(tmp_path):
    record(tmp_path / "runs" / "x", attempts=1)
    [path] = (tmp_path / "runs" / "x").glob("*tfevents*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    before = seen(tmp_path / "runs")
    assert before["x"]["problems"]
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    assert seen(tmp_path / "out") == before


def test_a_store_takes_and_gives_it(tmp_path, memory_store):
    record(tmp_path / "runs" / "x")
    before = seen(tmp_path / "runs")
    assert compact(str(tmp_path / "runs"), "memory://bucket/out", processes=1).failed == []
    assert seen("memory://bucket/out") == before
    again = compact("memory://bucket/out", str(tmp_path / "again"), processes=1)
    assert again.done == []  # it is compacted already


class Counted(MemoryFileSystem):
    """A store that counts the bytes of each file that were read from it, and may alter one."""

    protocol = "countedstore"
    store, pseudo_dirs = {}, [""]
    read: ClassVar = []
    altered = ""

    def cat_file(self, path, start=None, end=None, **more):
        data = super().cat_file(path, start, end, **more)
        self.read.append((path.rpartition("/")[2], len(data)))
        return bytes([data[0] ^ 1]) + data[1:] if self.altered and path.endswith(self.altered) else data


@pytest.fixture
def counted(tmp_path, monkeypatch):
    fsspec.register_implementation("countedstore", Counted, clobber=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Counted.store.clear()
    Counted.pseudo_dirs[:] = [""]
    yield Counted
    Counted.altered = ""


@pytest.fixture
def in_store(tmp_path, monkeypatch, counted):
    """A log of 40 series in several files of points, compacted into a store, and the same as it was."""
    monkeypatch.setattr(compacts, "FILE_ROWS", 2000)
    rng = np.random.default_rng(3)
    with ss.Run(tmp_path / "runs" / "x") as run:
        for tag in range(40):
            for step, value in enumerate(rng.normal(size=1500)):
                run.scalar(f"tag-{tag}", value, step)
        for step in range(20):
            run.image("pic", rng.random((64, 64)), step)
    assert not compact(str(tmp_path / "runs"), "countedstore://bucket/out", processes=1).failed
    counted.read.clear()
    return tmp_path / "runs"


def bytes_of(counted, ending):
    return sum(size for name, size in counted.read if name.endswith(ending))


def test_of_a_compacted_log_in_a_store_only_the_files_of_a_series_are_fetched(in_store, counted):
    before = seen(in_store)
    with store.open("countedstore://bucket/out", cache=False) as log:
        run = log.run("x")
        assert run.problems == []
        assert bytes_of(counted, ".parquet") == bytes_of(counted, ".records") == 0
        kept = (file.getvalue() for name, file in counted.store.items() if name.endswith(".parquet"))
        whole = sum(map(len, kept))
        [series] = run.columns("tag-7")
        assert len(series.step) == 1500
        once = bytes_of(counted, ".parquet")
        assert 0 < once < whole / 4
        run.columns("tag-7")
        assert bytes_of(counted, ".parquet") == once  # and not again
    after = seen("countedstore://bucket/out")
    assert after["x"]["scalars"] == before["x"]["scalars"]
    assert after["x"]["records"] == before["x"]["records"]


def test_points_that_a_store_alters_are_an_error_and_no_wrong_number(in_store, counted):
    counted.altered = ".parquet"
    with store.open("countedstore://bucket/out", cache=False) as log:
        with pytest.raises(LogDirectoryError, match="its checksum is wrong"):
            list(log.run("x").columns("tag-7")[0].step)
        counted.altered = ""
        [series] = log.run("x").columns("tag-7")
        assert len(series.step) == 1500


def test_a_copy_of_points_that_is_damaged_is_fetched_again(in_store, counted, tmp_path):
    with store.open("countedstore://bucket/out", cache=False) as log:
        before = log.run("x").columns("tag-7")[0].value.tobytes()
    [*copies] = (tmp_path / "cache").rglob("cached/*")
    assert copies
    for path in copies:
        data = bytearray(path.read_bytes())
        data[5000:5010] = b"0123456789"
        path.write_bytes(data)
    with store.open("countedstore://bucket/out", cache=False) as log:
        assert log.run("x").columns("tag-7")[0].value.tobytes() == before


def test_copies_of_points_are_deleted_a_month_after_they_were_last_used(in_store, tmp_path):
    with store.open("countedstore://bucket/out", cache=False) as log:
        run = log.run("x")
        before = run.columns("tag-7")[0].value.tobytes()
        old = set((tmp_path / "cache").rglob("cached/*"))
        for path in old:
            os.utime(path, (time.time() - 31 * 86400,) * 2)
        _ = run.columns("tag-39")[0].step
        assert not any(path.exists() for path in old)
    with store.open("countedstore://bucket/out", cache=False) as log:
        assert log.run("x").columns("tag-7")[0].value.tobytes() == before


def test_profiles_go_with_runs_from_one_store_to_another(tmp_path, memory_store):
    record(tmp_path / "runs" / "x", attempts=1)
    for path in (tmp_path / "runs").rglob("*"):
        if path.is_file():
            memory_store.pipe(f"/bucket/a/{path.relative_to(tmp_path / 'runs')}", path.read_bytes())
    assert compact("memory://bucket/a", "memory://bucket/b", processes=1).failed == []
    assert memory_store.cat_file("/bucket/b/x/profiles/step-1.json") == b"{}"
    have, want = seen("memory://bucket/b")["x"], seen(tmp_path / "runs")["x"]
    assert have["scalars"] == want["scalars"]
    assert have["records"] == want["records"]


def test_a_run_is_compacted_where_it_is_and_deleted_only_when_asked(tmp_path):
    record(tmp_path / "runs" / "x")
    before = seen(tmp_path / "runs")
    place = str(tmp_path / "runs")
    compact(place, place, processes=1)
    assert seen(place) == before  # the originals count, and nothing twice
    assert len(list((tmp_path / "runs" / "x").glob("*tfevents*"))) == 2
    found = compact(place, place, processes=1, remove=True)
    assert (found.removed, found.not_deleted) == (4, {})
    assert not list((tmp_path / "runs" / "x").glob("*tfevents*"))
    assert seen(place) == before


def test_what_was_written_to_meanwhile_is_not_deleted(tmp_path, monkeypatch):
    record(tmp_path / "runs" / "x", attempts=1)
    [path] = (tmp_path / "runs" / "x").glob("*tfevents*")

    def grows(call, tasks, **_):
        for task in tasks:
            yield call(task)
        with path.open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr("stepscope.store.compaction.spread", grows)
    found = compact(str(tmp_path / "runs"), str(tmp_path / "out"), remove=True)
    assert list(found.not_deleted.values()) == ["it was written to meanwhile"]
    assert path.exists()


class Flips(MemoryFileSystem):
    """A store that does not hold what it was given."""

    protocol = "flipstore"
    store: dict[str, object] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def put_file(self, lpath, rpath, **options):
        data = bytearray(Path(lpath).read_bytes())
        data[len(data) // 2] ^= 1
        self.pipe_file(rpath, bytes(data))


def test_a_store_that_alters_a_byte_is_noticed_and_nothing_is_deleted(tmp_path, memory_store, capsys):
    fsspec.register_implementation("flipstore", Flips, clobber=True)
    Flips.store.clear()
    with ss.Run(tmp_path / "runs" / "x") as run:
        run.scalar("loss", 1.0, 0)
    before = seen(tmp_path / "runs")
    assert main(["compact", str(tmp_path / "runs"), "flipstore://b/out", "--remove", "--workers", "1"]) == 1
    said = capsys.readouterr()
    assert "nothing was compacted" in said.out
    assert "is not read back as it was written" in said.err
    assert seen(tmp_path / "runs") == before
    assert not [name for name in Flips.store if name.endswith(".index")]


@pytest.mark.parametrize("damage", ["gone", "short", "flipped"])
def test_a_damaged_parquet_file_is_an_error_and_no_wrong_number(tmp_path, damage):
    record(tmp_path / "runs" / "x", attempts=1)
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    [path] = (tmp_path / "out" / "x").glob("events.out.compacted.*.parquet")
    data = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "short":
        path.write_bytes(data[:-9])
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with store.open(tmp_path / "out", cache=False) as log:
        run = log.run("x")
        assert any(path.name in each.text for each in run.problems) == (damage != "flipped")
        with pytest.raises(LogDirectoryError):
            run.columns("loss")[0].value  # noqa: B018


def test_an_index_whose_text_is_none_is_damaged_though_its_checksum_is_right(tmp_path):
    path = tmp_path / "events.out.compacted.1.index"
    text = b"\xa2\xff\xfe"  # as msgpack: a text of two bytes that are no UTF-8
    data = b"\x9d" + text * 13
    path.write_bytes(MAGIC + isal_zlib.crc32(data).to_bytes(4, "little") + data)
    with pytest.raises(EventFileError, match="the index of a compacted log is damaged"):
        load_index(path)


def test_a_damaged_index_is_said(tmp_path):
    record(tmp_path / "runs" / "x", attempts=1)
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    [path] = (tmp_path / "out" / "x").glob("events.out.compacted.*.index")
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(EventFileError, match="damaged"):
        load_index(path)
    with store.open(tmp_path / "out", cache=False) as log:
        assert any("the index of a compacted log is damaged" in each.text for each in log.run("x").problems)
    path.write_bytes(b"other")
    with pytest.raises(EventFileError, match="of this version"):
        load_index(path)


def changed(tag="loss", **fields):
    """Return what changes fields of the series of a tag in an index."""

    def change(index):
        series = index.parts[0].tags[tag]
        for name, value in fields.items():
            setattr(series, name, value)

    return change


def misplaced(index):
    tag, found = next(iter(index.parts[0].records.items()))
    index.parts[0].records[tag] = CompactedRecords(found.about, (b"123", *found.places[1:]))


def shortened(index):
    tag, found = next(iter(index.parts[0].records.items()))
    index.parts[0].records[tag] = CompactedRecords(found.about, (found.places[0][:-8], *found.places[1:]))


def renamed(name):
    def change(index):
        index.points[0].name = name

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (renamed("../../secret"), "is not the name of a file beside it"),
        (renamed("a/b"), "is not the name of a file beside it"),
        (renamed(".."), "is not the name of a file beside it"),
        (renamed(""), "is not the name of a file beside it"),
        (lambda index: setattr(index, "name", "/etc/passwd"), "is not the name of a file beside it"),
        (lambda index: setattr(index.others, "name", "x\0"), "is not the name of a file beside it"),
        (misplaced, "have places of unlike number"),
        (shortened, "have places of unlike number"),
        (changed(rows=[Extent(9, 0, 500)]), "are in no file"),
        (changed(rows=[Extent(0, -1, 500)]), "are in no file"),
        (changed(rows=[Extent(0, 0, 10**12)]), "has another number of rows than of points"),
        (changed(rows=[]), "has another number of rows than of points"),
        (changed(types=("O", "<f4")), "a type that there is not"),
        (renamed("pipe"), "pipe is missing"),
    ],
)
def test_an_index_that_somebody_made_is_said_and_the_other_runs_are_read(tmp_path, change, words):
    record(tmp_path / "runs" / "x", attempts=1)
    record(tmp_path / "runs" / "y", attempts=1)
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    os.mkfifo(tmp_path / "out" / "x" / "pipe")
    for path in (tmp_path / "out" / "x").glob("events.out.compacted.*.index"):
        index = load_index(path)
        if "loss" in index.parts[0].tags:
            change(index)
            path.write_bytes(encode_index(index))
    with store.open(tmp_path / "out", cache=False) as log:
        assert any(words in each.text for each in log.run("x").problems), log.run("x").problems
        assert len(log.run("y").columns("loss")[0]) == 500


def test_more_points_than_there_is_memory_for_are_refused(tmp_path, monkeypatch):
    record(tmp_path / "runs" / "x", attempts=1)
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    monkeypatch.setattr(compacted, "memory_bytes", lambda: 500 * 24 - 1)
    with store.open(tmp_path / "out", cache=False) as log:
        with pytest.raises(LogDirectoryError, match="500 points, more than this machine has memory for"):
            log.run("x").columns("loss")[0].value  # noqa: B018
        assert len(log.run("x").columns("wide")[0].value) == 1


def test_an_index_nested_without_end_or_of_a_terabyte_is_damaged(tmp_path):
    path = tmp_path / "events.out.compacted.1.index"
    data = b"\x9d" + b"\x91" * 500_000
    path.write_bytes(MAGIC + isal_zlib.crc32(data).to_bytes(4, "little") + data)
    with pytest.raises(EventFileError, match="is damaged"):
        load_index(path)
    os.truncate(path, 1 << 40)
    with pytest.raises(OSError, match="more than"):
        load_index(path)


def test_a_panic_of_polars_is_an_error_like_others(tmp_path, monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(*_):
        raise PanicException("index out of bounds")

    record(tmp_path / "runs" / "x", attempts=1)
    compact(str(tmp_path / "runs"), str(tmp_path / "out"), processes=1)
    monkeypatch.setattr(compacted, "read_rows", panic)
    with (
        store.open(tmp_path / "out", cache=False) as log,
        pytest.raises(LogDirectoryError, match="index out of bounds"),
    ):
        log.run("x").columns("loss")[0].value  # noqa: B018


def test_a_run_that_is_written_is_left_alone(tmp_path, capsys):
    run = ss.Run(tmp_path / "runs" / "x")
    run.scalar("loss", 1.0, 0)
    run.flush()
    assert main(["compact", str(tmp_path / "runs"), str(tmp_path / "out"), "--workers", "1"]) == 1
    assert "not compacted: run x: it is running" in capsys.readouterr().err
    run.close()
    other = EventWriter(tmp_path / "runs" / "other")
    other.scalar("loss", 1.0, 0, 1.0)
    other.flush()
    assert main(["compact", str(tmp_path / "runs"), str(tmp_path / "out"), "--workers", "1"]) == 0
    said = capsys.readouterr()
    assert "every value was read back" in said.out
    assert "run other: it was written to 0 s ago" in said.err
    other.close()


@pytest.mark.slow
def test_processes_and_a_cluster_do_the_same(tmp_path, monkeypatch, capsys):
    for name in "abc":
        record(tmp_path / "runs" / name, attempts=1, points=20)
    before = seen(tmp_path / "runs")
    assert main(["compact", str(tmp_path / "runs"), str(tmp_path / "pool"), "--workers", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["done"]) == 6
    assert seen(tmp_path / "pool") == before
    asked = []
    monkeypatch.setattr(workers, "LAST_CLUSTER", "none")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    ray = types.ModuleType("ray")
    ray.is_initialized = lambda: False
    ray.init = lambda **options: asked.append("init")
    ray.remote = lambda **options: (
        lambda call: types.SimpleNamespace(remote=lambda task: (asked.append(task), call(task))[1])
    )
    ray.wait = lambda waiting: (waiting[:1], waiting[1:])
    ray.get = lambda each: each
    ray.exceptions = types.SimpleNamespace(RayError=OSError, RayTaskError=OSError)
    ray.cluster_resources = lambda: {"CPU": 2.0}
    ray.shutdown = lambda: asked.append("shutdown")
    monkeypatch.setitem(__import__("sys").modules, "ray", ray)
    assert compact(str(tmp_path / "runs"), str(tmp_path / "ray"), ray=True).failed == []
    assert (len(asked), asked[0], asked[-1]) == (8, "init", "shutdown")
    assert seen(tmp_path / "ray") == before

    def slow(**options):
        asked.append("init")
        if len(asked) < times:
            raise Exception("The current node timed out during startup.")

    ray.init = slow
    for times in (1, 2, 3):  # a busy machine: Ray's own patience ends after 30 s
        asked.clear()
        assert list(workers.spread(str, [1], ray=True)) == ["1"]
        assert asked.count("init") == times
    asked.clear()
    times = 9
    with pytest.raises(UsageError, match="Ray does not start: The current node timed out"):
        list(workers.spread(str, [1], ray=True))
    assert asked == ["init"] * 3
    asked.clear()
    with pytest.raises(UsageError, match="Ray does not start: The current node timed out"):
        list(workers.spread(str, [1], ray="cloud://there"))
    assert asked == ["init"]  # only one that starts here can be slow to start
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match="Ray cannot be imported"):
        list(workers.spread(str, [1], ray=True))


def test_mistakes(tmp_path, memory_store):
    with pytest.raises(UsageError, match="not deleted"):
        compact("memory://bucket/runs", str(tmp_path), remove=True)
    with pytest.raises(LogDirectoryError, match="no such log directory"):
        compact(str(tmp_path / "nothing"), str(tmp_path / "out"))
