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


def test_what_steps_waited_for_longest_comes_first(facts):
    found = waited_for(facts)
    named = [(each["name"], each["ns"]) for each in found if each["name"] in ("long", "short")]
    assert named == [("long", 600), ("short", 150)]
    assert [each["ns"] for each in found] == sorted((each["ns"] for each in found), reverse=True)
    assert sum(each["ratio"] for each in found) == pytest.approx(1.0, abs=0.02)
