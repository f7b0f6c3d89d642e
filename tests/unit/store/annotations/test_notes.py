import json
import multiprocessing

import pytest

from stepscope.errors import LogDirectoryError, UsageError
from stepscope.store.annotations import Notes, RunNote, StepNote
from stepscope.store.annotations.notes import LONGEST_TAG, LONGEST_TITLE, MOST_STEP_NOTES, MOST_TAGS


def test_what_is_said_is_read_by_others(tmp_path):
    Notes(tmp_path).change("a/b", title="The  good\none", note="**see** paper", tags=["x", " x ", "y"])
    notes = Notes(tmp_path)
    assert notes.refresh() == {"a/b"}
    note = notes["a/b"]
    assert (note.title, note.note, note.tags, note.archived) == (
        "The good one",
        "**see** paper",
        ("x", "y"),
        False,
    )
    assert notes["other"] == RunNote()


def test_what_is_not_named_stays(tmp_path):
    notes = Notes(tmp_path)
    notes.change("a", title="one", tags=["x"])
    notes.change("a", archived=True)
    notes.refresh()
    assert (notes["a"].title, notes["a"].tags, notes["a"].archived) == ("one", ("x",), True)
    notes.change("a", tags=None)
    notes.refresh()
    assert notes["a"].tags is None


def test_nothing_said_leaves_no_file(tmp_path):
    notes = Notes(tmp_path)
    notes.change("a", title="one")
    notes.change("a", title="  ")
    assert list((tmp_path / ".stepscope" / "runs").glob("*.json")) == []
    assert notes.refresh() == set()


def test_only_what_changed_is_told(tmp_path):
    here, there = Notes(tmp_path), Notes(tmp_path)
    there.change("a", note="1")
    there.change("b", note="1")
    assert here.refresh() == {"a", "b"}
    assert here.refresh() == set()
    there.change("b", note="2")
    assert here.refresh() == {"b"}
    there.change("a", note="")
    assert here.refresh() == {"a"}


@pytest.mark.parametrize(
    "run", [".", "..", "../up", "a/../../b", "\u00e9" * 300, "a" * 400, "con?*", "%2e", "x.json"]
)
def test_no_name_leaves_the_folder(tmp_path, run):
    notes = Notes(tmp_path)
    notes.change(run, note="here")
    files = list((tmp_path / ".stepscope" / "runs").glob("*.json"))
    assert len(files) == 1
    assert len(files[0].name) <= 255
    assert notes.refresh() == {run}
    assert notes[run].note == "here"


def test_two_long_names_with_one_beginning_are_two(tmp_path):
    notes = Notes(tmp_path)
    for end in "xy":
        notes.change("a" * 300 + end, note=end)
    notes.refresh()
    assert [notes["a" * 300 + end].note for end in "xy"] == ["x", "y"]


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "x" * (LONGEST_TITLE + 1)},
        {"title": 3},
        {"note": None},
        {"tags": "word"},
        {"tags": [1]},
        {"tags": ["x" * (LONGEST_TAG + 1)]},
        {"tags": [str(number) for number in range(MOST_TAGS + 1)]},
        {"archived": "yes"},
        {"colour": 0},
        {"colour": 13},
        {"colour": True},
    ],
)
def test_what_cannot_be_said_is_refused(tmp_path, changes):
    with pytest.raises(UsageError):
        Notes(tmp_path).change("a", **changes)
    assert Notes(tmp_path).refresh() == set()


@pytest.mark.parametrize(
    "changes",
    [
        {"title": "x" * LONGEST_TITLE},
        {"tags": ("x" * LONGEST_TAG,)},
        {"tags": tuple(f"{number:03}" for number in range(MOST_TAGS))},
    ],
)
def test_the_longest_is_kept(tmp_path, changes):
    Notes(tmp_path).change("a", **changes)
    notes = Notes(tmp_path)
    notes.refresh()
    assert {name: getattr(notes["a"], name) for name in changes} == changes


@pytest.mark.parametrize("colour", [1, 12, None])
def test_a_run_is_drawn_in_a_colour_of_the_page(tmp_path, colour):
    notes = Notes(tmp_path)
    notes.change("a", colour=colour, note="drawn")
    notes.refresh()
    assert notes["a"].colour == colour


@pytest.mark.parametrize("text", ["", "[]", "{", '{"run": 3}', "\udcff"])
def test_a_file_that_is_none_is_passed_over(tmp_path, text):
    notes = Notes(tmp_path)
    notes.change("a", note="1")
    (tmp_path / ".stepscope" / "runs" / "odd.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    notes.refresh()
    assert notes["a"].note == "1"


def test_a_field_that_is_wrong_loses_the_others_nothing(tmp_path):
    notes = Notes(tmp_path)
    notes.change("a", note="1")
    path = tmp_path / ".stepscope" / "runs" / "a.json"
    path.write_text(json.dumps({"run": "a", "note": "kept", "tags": 7, "archived": "x", "changed": "y"}))
    notes.refresh()
    assert (notes["a"].note, notes["a"].tags, notes["a"].archived) == ("kept", None, False)


def test_a_place_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / ".stepscope").write_text("a file")
    with pytest.raises(LogDirectoryError, match="write permission"):
        Notes(tmp_path).change("a", note="1")


def add(path, number):
    for at in range(20):
        Notes(path).change(f"run{at}", **({"note": "said"} if number else {"title": "named"}))


@pytest.mark.slow
def test_several_processes_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=add, args=(tmp_path, number)) for number in range(2)]
    for other in others:
        other.start()
    for other in others:
        other.join(60)
        assert other.exitcode == 0
    notes = Notes(tmp_path)
    notes.refresh()
    assert [(notes[f"run{at}"].title, notes[f"run{at}"].note) for at in range(20)] == [("named", "said")] * 20


def test_a_step_has_one_note_which_is_replaced_and_removed(tmp_path):
    notes = Notes(tmp_path)
    notes.change("a", title="one")
    notes.note_step("a", 800, "halved \n the rate")
    notes.note_step("a", 20, "restarted")
    notes.note_step("a", 800, "halved it")
    notes.refresh()
    assert notes["a"].steps == (StepNote(20, "restarted"), StepNote(800, "halved it"))
    assert notes["a"].title == "one"
    notes.note_step("a", 20, " ")
    notes.note_step("a", 800, "")
    notes.note_step("a", 7, "")
    notes.refresh()
    assert notes["a"].steps == ()
    notes.change("a", title=None)
    assert list((tmp_path / ".stepscope" / "runs").glob("*.json")) == []


@pytest.mark.parametrize("step", [-1, 2**60, True, 1.5, "3"])
def test_a_note_is_on_a_whole_step(tmp_path, step):
    with pytest.raises(UsageError, match="whole number from 0"):
        Notes(tmp_path).note_step("a", step, "text")


def test_notes_on_steps_are_short_and_not_too_many(tmp_path):
    notes = Notes(tmp_path)
    with pytest.raises(UsageError, match="1001 characters"):
        notes.note_step("a", 1, "x" * 1001)
    notes.change("a", steps=[{"step": at, "text": "x"} for at in range(MOST_STEP_NOTES)])
    notes.note_step("a", 0, "in place of another")
    with pytest.raises(UsageError, match="notes on 201 steps"):
        notes.note_step("a", 1000, "one more")


def test_what_cannot_be_a_note_on_a_step_is_not_read(tmp_path):
    notes = Notes(tmp_path)
    notes.note_step("a", 1, "kept")
    [path] = (tmp_path / ".stepscope" / "runs").glob("*.json")
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "title": "still", "steps": [{"step": "x"}]}))
    notes.refresh()
    assert (notes["a"].title, notes["a"].steps) == ("still", ())
