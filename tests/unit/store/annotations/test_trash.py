import json
import os

import pytest

import stepscope as ss
from stepscope import store
from stepscope.errors import LogDirectoryError, UnknownRunError, UsageError
from stepscope.store.annotations import Trash
from stepscope.store.annotations.throw import throw_run


def record(path, value=1.0):
    with ss.Run(path) as run:
        run.scalar("loss", value, 0)


@pytest.fixture
def logs(tmp_path):
    for name in ("a", "a/eval", "b", "c", "c/inner"):
        record(tmp_path / name)
    (tmp_path / "a" / "checkpoint.bin").write_bytes(b"x" * 1000)
    (tmp_path / "c" / "ranks").mkdir()
    (tmp_path / "c" / "ranks" / "x").write_bytes(b"y")
    (tmp_path / "c" / "model.bin").write_bytes(b"z")
    return tmp_path


def names(path):
    with store.open(path, cache=False) as log:
        return [run.name for run in log.runs()]


def throw(path, name):
    with store.open(path, cache=False) as log:
        return throw_run(log, name)


def everything(path):
    return sorted(
        os.path.relpath(f"{parent}/{file}", path)
        for parent, _, files in os.walk(path)
        for file in files
        if ".stepscope" not in parent
    )


def test_a_run_goes_with_its_evaluation_and_comes_back_as_it_was(logs):
    before = everything(logs)
    thrown = throw(logs, "a")
    assert names(logs) == ["b", "c", "c/inner"]
    assert not (logs / "a").exists()
    assert thrown.nbytes > 1000
    assert thrown.files == 5
    assert [(each.id, each.run) for each in Trash(logs).all()] == [(thrown.id, "a")]
    assert Trash(logs).restore(thrown.id) == "a"
    assert everything(logs) == before
    assert names(logs) == ["a", "a/eval", "b", "c", "c/inner"]
    assert Trash(logs).all() == []


def test_an_evaluation_without_its_run_is_thrown_by_its_own_name(logs):
    with pytest.raises(UsageError, match="'a/eval' is a part of the run 'a'"):
        throw(logs, "a/eval")
    for part in ("train", "eval"):
        record(logs / "alone" / part)
    throw(logs, "alone/eval")
    assert [name for name in names(logs) if name.startswith("alone")] == ["alone/train"]


def test_no_reader_takes_the_trash_for_a_run(logs):
    throw(logs, "a")
    assert not [path for path in logs.rglob("*tfevents*") if ".stepscope" in str(path)]


def test_of_a_directory_with_another_run_below_only_its_own_goes(logs):
    before = everything(logs)
    thrown = throw(logs, "c")
    assert names(logs) == ["a", "a/eval", "b", "c/inner"]
    assert (logs / "c" / "model.bin").exists()
    assert not (logs / "c" / "ranks").exists()
    Trash(logs).restore(thrown.id)
    assert everything(logs) == before


def test_the_log_directory_as_a_run(tmp_path):
    record(tmp_path)
    record(tmp_path / "below")
    thrown = throw(tmp_path, ".")
    assert names(tmp_path) == ["below"]
    Trash(tmp_path).restore(thrown.id)
    assert names(tmp_path) == [".", "below"]


def test_what_is_being_written_stays(tmp_path):
    with ss.Run(tmp_path / "a") as run:
        run.scalar("loss", 1.0, 0)
        run.flush()
        with pytest.raises(UsageError, match="still being written"):
            throw(tmp_path, "a")
    throw(tmp_path, "a")


def test_a_part_or_an_unknown_run_does_not_go(logs):
    with pytest.raises(UsageError, match="part of the run 'a'"):
        throw(logs, "a/eval")
    with pytest.raises(UnknownRunError):
        throw(logs, "../b")


def test_what_is_there_again_is_not_overwritten(logs):
    thrown = throw(logs, "b")
    record(logs / "b", 2.0)
    with pytest.raises(UsageError, match="exists again"):
        Trash(logs).restore(thrown.id)
    assert [each.id for each in Trash(logs).all()] == [thrown.id]


def test_emptying_frees_for_good(logs):
    first, second = throw(logs, "a"), throw(logs, "b")
    assert Trash(logs).empty(first.id) == first.nbytes
    with pytest.raises(UsageError, match="not in the trash"):
        Trash(logs).restore(first.id)
    assert Trash(logs).empty() == second.nbytes
    assert Trash(logs).all() == []


@pytest.mark.parametrize("id_", ["", "..", "../..", ".", "nothing"])
def test_no_id_leaves_the_trash(logs, id_):
    throw(logs, "b")
    with pytest.raises(UsageError, match="not in the trash"):
        Trash(logs).empty(id_)
    assert (logs / "a").exists()


def test_a_failed_move_leaves_all_where_it_was(logs, monkeypatch):
    before, real, moved = everything(logs), os.rename, []

    def failing(source, target):
        if ".stepscope" in str(target):
            moved.append(source)
            if len(moved) == 2:
                raise OSError(18, "Invalid cross-device link", str(source))
        real(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(LogDirectoryError, match="everything is where it was"):
        throw(logs, "c")
    monkeypatch.undo()
    assert len(moved) == 2
    assert everything(logs) == before


def test_a_planted_list_of_files_writes_nothing_outside(logs, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    thrown = throw(logs, "b")
    place = logs / ".stepscope" / "trash" / thrown.id
    (place / "files" / "evil").write_text("x")
    for planted in ("../../evil", str(outside / "evil"), "b/../../../evil"):
        facts = json.loads((place / "thrown.json").read_text())
        (place / "thrown.json").write_text(json.dumps({**facts, "moved": [planted]}))
        with pytest.raises(LogDirectoryError, match="lies outside of the directory"):
            Trash(logs).restore(thrown.id)
    assert list(outside.iterdir()) == []
    assert not (logs.parent / "evil").exists()


def test_a_run_behind_a_link_is_not_moved(logs, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    record(outside / "r1")
    (logs / "link").symlink_to(outside)
    with pytest.raises(LogDirectoryError, match="lies outside of the directory"):
        Trash(logs).throw("link/r1", [], others=[])
    assert (outside / "r1").is_dir()


def test_a_link_in_the_trash_is_not_followed(logs, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "files").mkdir()
    (outside / "files" / "keep").write_text("x")
    facts = {"run": "x", "when": 1.0, "nbytes": 1, "files": 1, "moved": ["x"]}
    (outside / "thrown.json").write_text(json.dumps(facts))
    (logs / ".stepscope" / "trash").mkdir(parents=True)
    (logs / ".stepscope" / "trash" / "planted").symlink_to(outside)
    assert Trash(logs).all() == []
    assert Trash(logs).empty() == 0
    assert (outside / "files" / "keep").exists()


def test_a_state_file_of_brackets_hides_nothing(logs):
    thrown = throw(logs, "b")
    place = logs / ".stepscope" / "trash" / "odd"
    place.mkdir()
    (place / "thrown.json").write_text("[" * 200_000)
    assert [each.id for each in Trash(logs).all()] == [thrown.id]


@pytest.mark.parametrize("part", ["", "trash"])
def test_a_link_in_place_of_the_trash_makes_no_trash_of_others_files(logs, tmp_path_factory, part):
    precious = tmp_path_factory.mktemp("precious")
    for name in ("a", "b"):
        (precious / "trash" / name / "files").mkdir(parents=True)
        (precious / "trash" / name / "files" / "thesis.tex").write_text("x")
        facts = {"run": name, "when": 1, "nbytes": 1, "files": 1, "moved": ["z"]}
        (precious / "trash" / name / "thrown.json").write_text(json.dumps(facts))
    own = logs / ".stepscope"
    if part:
        own.mkdir(exist_ok=True)
    (own / part if part else own).symlink_to(precious / part)
    trash = Trash(logs)
    assert trash.all() == []
    assert trash.empty() == 0
    with pytest.raises(UsageError):
        trash.restore("a")
    with pytest.raises(LogDirectoryError, match="lies outside"):
        trash.throw("a", [], others=[])
    assert len(list(precious.rglob("thesis.tex"))) == 2
    assert not (logs / "z").exists()
