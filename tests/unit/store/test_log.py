"""A log directory as it is opened and followed."""

import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

from stepscope import store
from stepscope.errors import LogDirectoryError, UnknownRunError, UsageError
from stepscope.events import EventFile
from stepscope.store import query, source


def test_an_empty_directory_is_fine_and_fills(make):
    log = make.open()
    assert log.runs() == []
    make.line("a", "loss", range(3))
    changes = log.refresh()
    assert (changes.added, changes.removed, changes.changed, changes.complete) == (
        ["a"],
        [],
        {"a": {"loss"}},
        True,
    )
    assert [run.name for run in log.runs()] == ["a"]


def test_home_is_expanded(make, monkeypatch):
    monkeypatch.setenv("HOME", str(make.root.parent))
    make.line("a", "loss", range(3))
    assert [run.name for run in store.open("~/logs", cache=False).runs()] == ["a"]


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(LogDirectoryError, match=r"(?s)no such log directory.*hint: .*file: .*none"):
        store.open(tmp_path / "none")


def test_a_file_is_no_log_directory(make):
    file = make.line("a", "loss", range(3))
    with pytest.raises(
        LogDirectoryError,
        match=rf"(?s)not a directory\nhint: pass the directory that holds it: {file.parent}",
    ):
        store.open(file)


def test_a_directory_without_permission(make, tmp_path):
    make.line("a", "loss", range(3))
    code = (
        "import os, sys\n"
        "from stepscope import errors, store\n"
        "root = sys.argv[1]\n"
        "os.chmod(root, 0)\n"
        "if os.geteuid() == 0: os.setresuid(65534, 65534, 65534)\n"
        "try: store.open(root, cache=False)\n"
        "except errors.LogDirectoryError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(make.root)], capture_output=True, text=True, check=False
    )
    make.root.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert (
        "no permission to list the log directory\nhint: ask its owner for read access, or: chmod u+rx"
        in done.stdout
    )


def test_an_unknown_run_names_its_neighbours(make):
    make.line("baseline", "loss", range(3))
    with pytest.raises(UnknownRunError, match=r"(?s)no run 'base-line'\nhint: did you mean 'baseline'"):
        make.open().run("base-line")


def test_growth_is_read_from_where_it_stopped(make, monkeypatch):
    file = make.line("a", "loss", range(1000))
    make.line("b", "loss", range(10))
    log = make.open()
    asked = []
    real = EventFile.read

    def read(self, max_bytes=None):
        asked.append((self.path.parent.name, self.position))
        return real(self, max_bytes)

    monkeypatch.setattr(EventFile, "read", read)
    size = file.stat().st_size
    make.points(file, "loss", [(1000, 2000, 1)])
    make.points(file, "new", [(1000, 2000, 1)])
    assert log.refresh().changed == {"a": {"loss", "new"}}
    assert {name for name, _ in asked} == {"a"}
    assert min(position for _, position in asked) == size
    assert log.run("a").num_points() == 1002
    asked.clear()
    assert not log.refresh()
    assert asked == []


def test_nothing_new_costs_one_look_per_file_and_directory(make, monkeypatch):
    for name in "abc":
        make.line(name, "loss", range(3))
    log = make.open()
    monkeypatch.setattr(source.FollowedFile, "follow", None)
    changes = log.refresh()
    assert not changes
    assert (changes.changed, log.generation) == ({}, 1)


def test_runs_disappear(make):
    make.line("a", "loss", range(3))
    make.line("b", "loss", range(3))
    log = make.open()
    shutil.rmtree(make.root / "a")
    assert (log.refresh().removed, [run.name for run in log.runs()]) == (["a"], ["b"])
    make.line("a", "other", range(2))
    assert log.refresh().added == ["a"]
    assert log.run("a").tags() == ["other"]


def test_a_file_of_a_run_disappears(make):
    first = make.line("a", "loss", range(3))
    make.line("a", "loss", range(5), wall=100)
    log = make.open()
    first.unlink()
    assert log.refresh().changed == {"a": {"loss"}}
    assert log.run("a").num_points() == 5


@pytest.mark.parametrize("longer", [False, True])
def test_a_replaced_file_is_noticed(make, longer):
    file = make.line("a", "loss", range(10))
    log = make.open()
    make.line("a", "accuracy", range(20 if longer else 5), wall=30, name="other").replace(file)
    assert log.refresh().changed == {"a": {"loss", "accuracy"}}
    run = log.run("a")
    assert run.tags() == ["accuracy"]
    assert run.num_points() == (20 if longer else 5)
    assert [problem.kind for problem in run.problems] == ["replaced"]


def test_a_truncated_file_is_noticed(make):
    file = make.line("a", "loss", range(10))
    log = make.open()
    half = make.line("other", "loss", range(4)).read_bytes()
    shutil.rmtree(make.root / "other")
    file.write_bytes(half)  # the same inode
    assert log.refresh().changed == {"a": {"loss"}}
    assert log.run("a").num_points() == 4
    assert [problem.kind for problem in log.run("a").problems] == ["truncated"]


def test_a_hole_that_is_filled_later_puts_its_points_in_their_place(make):
    file = make.line("a", "loss", range(300))
    content = file.read_bytes()
    file.write_bytes(content[:4000] + bytes(4096) + content[8096:])
    log = make.open()
    run = log.run("a")
    assert 0 < run.num_points() < 300
    with file.open("r+b") as filled:
        filled.write(content)
    log.refresh()
    assert run.columns("loss")[0].step.tolist() == list(range(300))
    assert run.num_points() == 300


def test_a_torn_tail_waits_for_the_rest(make):
    file = make.line("a", "loss", range(10))
    content = file.read_bytes()
    file.write_bytes(content[:-20])
    log = make.open()
    assert log.run("a").num_points() == 9
    assert log.run("a").problems == []
    file.write_bytes(content)
    assert log.refresh().changed == {"a": {"loss"}}
    assert log.run("a").num_points() == 10


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (b"", "unreadable", "empty"),
        (b"\x07" * 4096, "unreadable", "not an event file"),
        (b"hello\n", "unreadable", "no"),
    ],
)
def test_a_file_that_holds_no_events_is_a_problem_of_its_run(make, content, kind, text):
    make.line("good", "loss", range(3))
    (make.root / "bad").mkdir()
    file = make.root / "bad" / "events.out.tfevents.1.h"
    file.write_bytes(content)
    log = make.open()
    assert log.run("good").num_points() == 3
    assert not log.refresh()
    [problem] = log.run("bad").problems
    assert (problem.kind, problem.file) == (kind, str(file))
    assert text in problem.text
    file.unlink()
    make.line("bad", "loss", range(3), name=file.name)
    log.refresh()
    assert log.run("bad").num_points() == 3
    assert "unreadable" not in [problem.kind for problem in log.run("bad").problems]


def test_a_corrupt_record_is_skipped_and_counted(make):
    file = make.line("a", "loss", range(100))
    content = bytearray(file.read_bytes())
    content[2000] ^= 1
    file.write_bytes(content)
    run = make.open().run("a")
    assert run.num_points() == 99
    assert [(each.kind, each.count) for each in run.problems] in ([("corrupt", 1)], [("broken", 1)])


@pytest.fixture
def deny(monkeypatch):
    """Refuse that a file is opened, until the patches are undone."""
    from stepscope.events import source as reading

    def deny(file):
        real = os.open

        def refuse(path, *rest, **options):
            if str(path) == str(file):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *rest, **options)

        monkeypatch.setattr(reading.os, "open", refuse)

    return deny


@pytest.mark.parametrize("damaged", [False, True])
def test_a_file_that_can_no_longer_be_read_keeps_its_points_and_says_so(make, deny, damaged):
    file = make.line("a", "loss", range(100))
    if damaged:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    log = make.open()
    before = log.run("a").num_points(), [each.kind for each in log.run("a").problems]
    make.points(file, "loss", [(100, 101, 1.0)])
    deny(file)
    log.refresh()
    *others, problem = log.run("a").problems
    assert (log.run("a").num_points(), [each.kind for each in others]) == before
    assert problem.kind == "unreadable"
    assert "Permission denied" in problem.text


def test_a_file_that_cannot_be_read_is_a_problem_of_its_run_and_heals(make, deny, monkeypatch):
    file = make.line("a", "loss", range(3))
    make.line("b", "loss", range(3))
    deny(file)
    log = make.open()
    assert log.run("b").num_points() == 3
    [problem] = log.run("a").problems
    assert problem.kind == "unreadable"
    assert "Permission denied" in problem.text
    monkeypatch.undo()
    assert log.refresh().changed == {"a": {"loss"}}
    assert log.run("a").problems == []


def test_a_directory_that_cannot_be_listed_is_a_problem_of_the_log(make, monkeypatch):
    make.line("a", "loss", range(3))
    make.line("b/deep", "loss", range(3))
    real = os.scandir

    def scandir(path):
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    log = make.open()
    assert [run.name for run in log.runs()] == ["a"]
    [problem] = log.problems
    assert (problem.kind, problem.file, problem.text) == (
        "unlisted",
        f"{make.root}/b",
        "cannot be listed: Permission denied",
    )


def test_a_log_directory_that_vanishes_is_an_error(make):
    make.line("a", "loss", range(3))
    log = make.open()
    shutil.rmtree(make.root)
    with pytest.raises(LogDirectoryError, match="no such log directory"):
        log.refresh()
    assert log.run("a").num_points() == 3


def test_marker_files_make_a_run_without_data(make):
    (make.root / "a").mkdir()
    (make.root / "a" / "events.out.tfevents.1.h.profile-empty").touch()
    log = make.open()
    assert (log.run("a").tags(), log.run("a").problems) == ([], [])


def test_a_run_knows_the_generation_of_its_last_change(make):
    file = make.line("a", "loss", range(3))
    make.line("b", "loss", range(3))
    log = make.open()
    assert log.generation == 1
    make.points(file, "x", [(1, 10, 1)])
    assert log.refresh().changed == {"a": {"x"}}
    make.points(file, "y", [(1, 11, 1)])
    assert log.refresh().changed == {"a": {"y"}}
    assert (log.generation, log.run("a").generation, log.run("b").generation) == (3, 3, 1)


def test_facts_without_points_are_a_change_too(make):
    file = make.line("a", "loss", range(3))
    log = make.open()
    make.info(file, status="finished")
    assert log.refresh().changed == {"a": set()}
    assert log.run("a").state == "finished"


def test_loading_can_be_cut_into_pieces(make, monkeypatch):
    for name in "abc":
        make.line(name, "loss", range(3))
    gates = {name: threading.Event() for name in "abc"}
    real = source.FollowedFile.read

    def read(self):
        assert gates[self.path.split("/")[-2]].wait(60)
        return real(self)

    monkeypatch.setattr(source.FollowedFile, "read", read)
    monkeypatch.setattr("stepscope.store.log.THREADS", 3)
    log = make.open(load=False)
    assert (log.runs(), log.generation) == ([], 0)
    assert not log.refresh(max_seconds=0).complete
    assert (log.progress.files_done, log.progress.files_total) == (0, 3)
    gates["b"].set()
    log._reading[str(make.root / "b" / "events.out.tfevents.1700000000.host.1.0")].result(60)
    changes = log.refresh(max_seconds=0)
    assert (changes.added, changes.complete) == (["b"], False)
    assert [run.name for run in log.runs()] == ["b"]
    assert log.progress.bytes_done * 3 == log.progress.bytes_total
    for gate in gates.values():
        gate.set()
    changes = log.refresh()
    assert (changes.added, changes.complete) == (["a", "c"], True)
    assert (log.progress.files_done, log.progress.files_total) == (3, 3)


def test_queries_run_while_files_grow(make):
    file = make.line("a", "loss", range(100))
    log = make.open()
    run = log.run("a")
    wrong, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            [series] = run.columns("loss")
            columns = series.points.columns
            step = columns.step
            if not (len(step) == len(columns.wall) == len(columns.value) and (np.diff(step) == 1).all()):
                wrong.append(step)
            view = query.buckets([series], buckets=50, smoothing=0.5)
            if view.total_points < 100:
                wrong.append(view)

    thread = threading.Thread(target=look)
    thread.start()
    for step in range(100, 400):
        make.points(file, "loss", [(step, step + 1, step / 10)])
        log.refresh()
    stop.set()
    thread.join()
    assert wrong == []
    assert run.num_points() == 400


def test_frame_of_many(make):
    make.line("a", "train/loss", range(3))
    make.line("b", "eval/loss", range(2))
    make.line("b", "lr", range(2), wall=0.5, name="events.out.tfevents.1.other")
    log = make.open()
    frame = log.frame(tags="loss$")
    assert frame.columns == ("run", "tag", "step", "wall_time", "value", "writer", "attempt")
    assert [*zip(frame.run, frame.tag, frame.step.tolist(), strict=True)] == [
        *(("a", "train/loss", step) for step in range(3)),
        *(("b", "eval/loss", step) for step in range(2)),
    ]
    assert log.frame(runs="^b$").tag.tolist() == ["eval/loss"] * 2 + ["lr"] * 2
    with pytest.raises(KeyError, match="expected one of run, tag, step"):
        frame["wall"]
    none = log.frame(tags="nothing")
    assert len(none) == 0
    assert {name: column.dtype for name, column in dict(none).items()} == {
        name: column.dtype for name, column in dict(frame).items()
    }
    with pytest.raises(UsageError, match=r"(?s)not a regular expression: tags='\[': .*hint"):
        log.frame(tags="[")


def test_data_frames_hold_every_column(make):
    make.line("a", "train/loss", range(3))
    make.line("b", "eval/loss", range(2))
    log = make.open()
    for frame in (log.frame(), log.run("a").series("train/loss"), log.frame(tags="nothing")):
        polars, pandas = frame.polars(), frame.pandas()
        assert polars.columns == pandas.columns.to_list() == list(frame.columns)
        assert polars.schema == log.frame().polars().select(frame.columns).schema
        for name, column in dict(frame).items():
            assert polars[name].to_list() == pandas[name].to_list() == column.tolist()
