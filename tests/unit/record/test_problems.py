import os
import sys
import warnings

import pytest

import stepscope
from stepscope.errors import RecordError
from stepscope.record import problems
from stepscope.record.problems import PACKAGE, Problems, shown, user_site

ERROR = RecordError("not recorded: x", hint="do y")


class Device:
    """A tensor on a device, as a tag or step by mistake."""

    def __repr__(self) -> str:
        raise AssertionError("the caller's thread waited for the device")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"), (3, "int 3"), ("x", "str 'x'"), (1.5, "float 1.5"), (Device(), "Device"),
        ([1, 2], "list of 2 items"), ({}, "dict of 0 items"), (object, "type"),
    ],
)  # fmt: skip
def test_a_message_shows_a_value_without_waiting_for_it(value, text):
    assert shown(value) == text


def test_a_message_shows_little_of_a_long_value():
    assert len(shown("x" * 10**6)) < 60
    assert shown(10**5_000) == "int of 16610 bits"


def test_the_package_is_where_frames_say_it_is():
    assert stepscope.__file__.startswith(PACKAGE)


def test_strict_raises_every_time_and_counts():
    problems = Problems()
    for _ in range(2):
        with pytest.raises(RecordError, match="do y"):
            problems.tell("value", ERROR)
    assert problems.counts == {"value": 2}


@pytest.mark.usefixtures("lenient")
class TestWithoutStrict:
    def test_each_reason_warns_once_and_counts_always(self):
        problems = Problems()
        with pytest.warns(RuntimeWarning, match=r"stepscope: not recorded: x\nhint: do y") as caught:
            [problems.tell("value", ERROR) for _ in range(3)]
        assert len(caught) == 1
        with pytest.warns(RuntimeWarning, match="reason 'tag'"):
            problems.tell("tag", ERROR, points=5)
        assert problems.counts == {"value": 3, "tag": 5}
        assert problems.lost == 8

    def test_the_warning_points_at_this_line(self):
        problems = Problems()
        with pytest.warns(RuntimeWarning) as caught:
            problems.tell("value", ERROR)
        line = sys._getframe().f_lineno - 1
        assert (caught[0].filename, caught[0].lineno) == (__file__, line)

    def test_without_a_line_of_the_user_it_points_at_the_run(self, monkeypatch):
        here = user_site()
        problems = Problems(here)
        monkeypatch.setattr("stepscope.record.problems.user_site", lambda: None)
        with pytest.warns(RuntimeWarning) as caught:
            problems.tell("value", ERROR)
        assert (caught[0].filename, caught[0].lineno) == (here.file, here.line)
        with pytest.warns(RuntimeWarning):
            Problems().tell("value", ERROR)

    def test_warnings_as_errors_do_not_raise_into_the_loop(self, capsys):
        problems = Problems()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            problems.tell("value", ERROR)
        assert "not recorded: x" in capsys.readouterr().err
        assert problems.counts == {"value": 1}

    def test_what_another_thread_posts_is_told_at_the_next_call(self):
        problems = Problems()
        problems.post("disk", ERROR, points=2)
        problems.post("disk", ERROR, points=2)
        assert problems.waiting
        assert problems.counts == {"disk": 4}
        with pytest.warns(RuntimeWarning) as caught:
            problems.deliver()
        assert len(caught) == 1
        problems.post("disk", ERROR)
        assert not problems.waiting

    def test_a_forgiven_reason_warns_again(self):
        problems = Problems()
        for _ in range(2):
            with pytest.warns(RuntimeWarning):
                problems.tell("disk", ERROR, points=0)
            problems.forgive("disk")
        assert problems.counts == {}


def test_strict_raises_what_another_thread_posted():
    problems = Problems()
    problems.post("disk", ERROR, points=0)
    with pytest.raises(RecordError):
        problems.deliver()
    problems.deliver()


@pytest.mark.usefixtures("lenient")
def test_a_card_has_one_line_for_a_problem_and_its_hint(monkeypatch):
    told = []
    monkeypatch.setattr(problems, "elsewhere", told.append)
    Problems().tell("profile", RecordError("not recorded: x", hint="do y", path="/logs"))
    assert told == ["not recorded: x; do y"]


def test_strict_is_off_at_0(monkeypatch):
    monkeypatch.setitem(os.environ, "STEPSCOPE_STRICT", "0")
    with pytest.warns(RuntimeWarning):
        Problems().tell("value", ERROR)


def test_a_trainers_lines_are_passed_by():
    """The warning points at the user's own call of fit(), not at a line of the trainer's."""
    trainer: dict[str, object] = {"__name__": "lightning.pytorch.trainer", "site": user_site}
    exec("def fit(): return site()", trainer)
    assert trainer["fit"]().module == __name__
    assert trainer["site"] is user_site


def test_in_a_thread_of_a_trainer_there_is_no_line_of_the_user():
    import threading

    trainer: dict[str, object] = {"__name__": "lightning.loop", "site": user_site}
    exec("def fit(found): found.append(site())", trainer)
    found: list[object] = []
    thread = threading.Thread(target=trainer["fit"], args=(found,))
    thread.start()
    thread.join()
    assert found == [None]
