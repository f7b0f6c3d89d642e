"""Lines of a training as they are read: damaged facts, and the line that grew."""

import pytest

from stepscope.health.finding import Finding
from stepscope.store.lines import CodeLine, LineWindow, apart, growth, placed, windows_of

FETCH, MODEL = (
    CodeLine("/a/train.py", 10, "main", "batch = next(data)"),
    CodeLine("/a/train.py", 12, "main", ""),
)
LINES = {
    "code": [["/a/train.py", 10, "main", "batch = next(data)"]],
    "windows": [[0, 9, 10, 2.0, [[0, 1.5]]]],
}


def windows(*spent):
    """Return a window of ten steps for each pair of seconds of the two lines."""
    return [
        LineWindow(10 * at, 10 * at + 9, 10, fetch + model + 0.1, {FETCH: fetch, MODEL: model})
        for at, (fetch, model) in enumerate(spent)
    ]


def test_windows_are_read():
    assert windows_of({"lines": LINES}) == [LineWindow(0, 9, 10, 2.0, {FETCH: 1.5})]


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"lines": None},
        {"lines": {"code": []}},
        {"lines": {**LINES, "code": []}},
        {"lines": {**LINES, "code": [["train.py"]]}},
        {"lines": {**LINES, "windows": [[0, 9, 10]]}},
        {"lines": {**LINES, "windows": [[0, "x", 10, 2.0, []]]}},
    ],
)
def test_damaged_facts_are_no_windows(facts):
    assert windows_of(facts) == []


@pytest.mark.parametrize(
    ("spent", "since", "line"),
    [
        ([(1, 1), (1, 1), (3, 1), (3, 1)], 20, FETCH),
        ([(1, 1), (1, 3)], 10, MODEL),
        ([(1, 1), (2, 2)], 10, FETCH),  # of two that share it evenly, one has half
        ([(1, 1), (2, 5), (3, 1), (3, 1)], 15, FETCH),  # a window on both sides counts for none
        ([(3, 1), (1, 1)], 10, None),  # steps became faster
        ([(1, 1), (1, 1)], 10, None),
        ([(1, 1), (3, 1)], 0, None),  # nothing before
        ([(1, 1), (3, 1)], 99, None),  # nothing since
        ([], 10, None),
    ],
)
def test_the_line_that_grew(spent, since, line):
    found = growth(windows(*spent), since)
    assert (found and found.line) == line


def test_no_line_that_grew_explains_less_than_half():
    before, after = windows((1, 1), (1.2, 1))
    slower = LineWindow(10, 19, 10, after.seconds + 2, after.spent_s)  # two seconds in no line of the program
    assert growth([before, slower], 10) is None


def finding(rule, **facts):
    base = {"severity": "medium", "title": "", "summary": "", "tag": "speed/step_time_ms", "run": ""}
    place = {"layer": None, "rank": None, "first_step": 0, "step": 25, "wall": 0.0}
    return Finding(rule, **base, **place, **facts)


def test_steps_that_became_slower_get_the_line_that_grew():
    course = windows((1, 1), (1, 1), (3, 1), (3, 1))
    found = [
        finding("slower-steps", since_step=20),
        finding("slower-steps", since_step=20, stack=("seen.py:3",)),
        finding("slower-steps", since_step=0),
        finding("data-wait", since_step=20),
    ]
    first, *others = placed(found, course)
    assert first.stack == ("train.py:10",)
    assert first.causes == (
        "most of it is train.py:10  batch = next(data): 100 ms of a step before, 300 ms since",
    )
    assert others == found[1:]


def test_the_line_in_which_a_rank_spends_more_than_the_others():
    usual, slow, waiting = windows((1, 1)), windows((1, 4)), windows((1, 4.5))
    text = "rank 2 spends 400 ms of a step at train.py:12 in main, and the others 100 ms"
    assert apart({0: usual, 1: usual, 2: slow}) == {2: ("train.py:12", text)}
    assert apart({0: usual, 1: usual, 2: usual}) == {}  # all alike
    assert apart({0: usual, 1: slow, 2: waiting}).keys() == {1, 2}
    assert apart({0: usual, 1: [], 2: usual}) == {}  # nothing was recorded of rank 1
    assert apart({0: slow}) == {}
    small = windows((1, 1.15))
    assert apart({0: usual, 1: small}) == {}  # a few percent of its step


def test_a_line_that_only_one_rank_runs():
    only = [LineWindow(0, 9, 10, 3.0, {FETCH: 1.0, CodeLine("/a/train.py", 11, "main", "augment()"): 2.0})]
    place, text = apart({0: windows((1, 2)), 1: only})[1]
    assert place == "train.py:11"
    assert text == "rank 1 spends 200 ms of a step at train.py:11  augment(), and the others none"
