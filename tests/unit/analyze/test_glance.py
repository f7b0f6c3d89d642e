"""A profile at a glance: its steps, and what they waited for."""

from __future__ import annotations

import pytest

from stepscope.analyze.advise import Facts
from stepscope.analyze.glance import step_facts, waited_for


@pytest.fixture
def facts(make):
    """Two steps of one long operator and three short ones."""
    e, kind = make.event, make.Kind
    events = []
    for step in range(2):
        at = step * 1000
        events.append(e(f"s{step}", kind.STEP, at, 1000, step=step))
        events.append(e("long", kind.HOST_OP, at + 10, 600))
        events += [e("short", kind.HOST_OP, at + 650 + 100 * number, 50) for number in range(3)]
    return Facts(make.build(events))


def test_the_first_step_counts(facts):
    found = step_facts(facts)
    assert found["steps"]["numbers"] == [0, 1]
    assert (found["steps"]["count"], found["steps"]["ranks"]) == (2, 1)


def test_steps_that_two_recordings_of_a_rank_number_alike_are_two(make):
    e, kind = make.event, make.Kind

    def marks(rank, starts):
        return [
            each
            for step, start in starts
            for each in (
                e(f"s{step}", kind.STEP, start, 100, step=step, rank=rank),
                e("op", kind.HOST_OP, start + 5, 90, rank=rank),
            )
        ]

    facts = Facts(make.build(marks(0, [(1, 0), (2, 100), (1, 5000)]) + marks(1, [(1, 0), (2, 100)])))
    found = step_facts(facts)["steps"]
    assert (found["numbers"], found["count"], found["ranks"]) == ([1, 2], 3, 2)


def test_what_steps_waited_for_longest_comes_first(facts):
    found = waited_for(facts)
    named = [(each["name"], each["ns"]) for each in found if each["name"] in ("long", "short")]
    assert named == [("long", 600), ("short", 150)]
    assert [each["ns"] for each in found] == sorted((each["ns"] for each in found), reverse=True)
    assert sum(each["ratio"] for each in found) == pytest.approx(1.0, abs=0.02)


def test_one_stretch_without_operators_is_named_by_all_that_lay_in_it(make):
    """Between two operators the thread ends one function, is in another, and begins a third."""
    e, kind = make.event, make.Kind
    events = [
        e("step", kind.STEP, 0, 1000, step=0),
        e("train.py(1): main", kind.PYTHON_FRAME, 1, 998),
        e("first", kind.HOST_OP, 10, 90),
        e("load", kind.ANNOTATION, 150, 600),
        e("<built-in function sleep>", kind.PYTHON_FRAME, 200, 500),
        e("last", kind.HOST_OP, 800, 190),
    ]
    found = {(one["name"], one["bound"]): one["ns"] for one in waited_for(Facts(make.build(events)))}
    assert found["<built-in function sleep>", "host_gap"] == 500
    assert found["load", "host_gap"] == 100
    assert found["train.py(1): main", "host_gap"] == pytest.approx(109, abs=10)


def test_a_gap_of_another_thread_keeps_the_name_of_what_lay_around_it_there(make):
    e, kind = make.event, make.Kind
    events = [
        e("step", kind.STEP, 0, 1000, step=0),
        e("forward", kind.HOST_OP, 10, 90),
        e("run_backward", kind.PYTHON_FRAME, 110, 700),
        e("hook", kind.PYTHON_FRAME, 200, 500, lane="autograd"),
        e("MmBackward0", kind.HOST_OP, 150, 40, lane="autograd"),
        e("AddBackward0", kind.HOST_OP, 720, 70, lane="autograd"),
        e("last", kind.HOST_OP, 900, 90),
    ]
    names = {one["name"] for one in waited_for(Facts(make.build(events)))}
    assert {"forward", "MmBackward0", "AddBackward0", "last"} <= names


def test_what_a_host_waits_for_while_xla_runs_is_what_it_runs(make):
    """Nothing says so but the threads of XLA: ``block_until_ready`` has no event of its own."""
    e, kind = make.event, make.Kind
    events = [
        e("train", kind.STEP, 0, 1000, step=0),
        e("$train.py:7 step", kind.PYTHON_FRAME, 1, 998),
        e("PjitFunction(update)", kind.HOST_OP, 10, 90),
        e("fusion.1", kind.HOST_OP, 110, 600, lane="tf_XLAEigen/1"),
        e("DevicePut", kind.HOST_OP, 900, 90),
    ]
    found = {(one["name"], one["bound"]): one["ns"] for one in waited_for(Facts(make.build(events)))}
    assert found["fusion.1", "host"] == 600
    assert found["$train.py:7 step", "host_gap"] == pytest.approx(209, abs=10)
    assert sum(found.values()) == 990
