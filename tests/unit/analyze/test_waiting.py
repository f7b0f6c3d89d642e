"""Helper threads that wait, in profiles with stacks."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stepscope.analyze.views import view
from stepscope.analyze.views.measure import measure
from stepscope.trace.model import Kind

WAITS = [
    "<built-in method acquire of _thread.lock object at 0x7f00>",
    "<built-in method get of _queue.SimpleQueue object at 0x7f00>",
    "<built-in function sleep>",
    "<built-in function select>",
    "<built-in method poll of select.epoll object at 0x7f00>",
    "threading.py(327): wait",
    "/usr/lib/python3.11/queue.py(171): get",
    "time.sleep",
    "Condition.wait (/usr/lib/python3.11/threading.py:288)",
]
WORKS = [
    "<built-in function sorted>",
    "<built-in method get of dict object at 0x7f00>",
    "loader.py(3): wait",
    "sleep_less (loader.py:3)",
    "threading.py(982): run",
]


@pytest.fixture
def frames(make: SimpleNamespace):
    """A step of 100 with an operator of 40, and a frame of 80 beside it, on some lane."""

    def trace(name, lane="helper", *, kinds=(Kind.STEP, Kind.HOST_OP)):
        event = make.event
        events = [
            event("step", kinds[0], 0, 100, step=0, lane="main"),
            event("mm", kinds[1], 10, 40, step=0, lane="main"),
            event(name, Kind.PYTHON_FRAME, 15, 80 if lane != "main" else 30, step=0, lane=lane),
        ]
        return make.build(events)

    return trace


@pytest.mark.parametrize("name", WAITS)
def test_what_a_helper_waits_is_nobodys_work_and_that_is_said(frames, name):
    answer = view("scope", frames(name))
    assert answer.as_dict()["rows"][0]["host_total_ns"] == 40
    assert "left out: 80 ns in which threads that run no steps or operators waited" in answer.notes


@pytest.mark.parametrize("name", WORKS)
def test_what_a_helper_does_counts(frames, name):
    answer = view("scope", frames(name))
    assert answer.as_dict()["rows"][0]["host_total_ns"] == 120
    assert not any("waited" in note for note in answer.notes)


@pytest.mark.parametrize("name", WAITS[:2])
def test_what_the_steps_own_thread_waits_counts(frames, name):
    found = measure(frames(name, "main"))
    assert (found.host_ns.sum(), found.waited_ns) == (40, 0)


def test_of_frames_alone_nobody_knows_which_thread_it_is_about(frames):
    found = measure(frames(WAITS[0], kinds=(Kind.PYTHON_FRAME, Kind.PYTHON_FRAME)))
    assert (found.host_ns.sum(), found.waited_ns) == (180, 0)
