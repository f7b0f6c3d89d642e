"""A step owns the work that it launched, and ends with its last event."""

import numpy as np
import pytest

from stepscope.trace.draft import Draft
from stepscope.trace.model import Kind, Lane
from stepscope.trace.names import Strings
from stepscope.trace.structure import build

MS = 1_000_000


def trace_of(events, *, steps=((0, 0, 10), (1, 10, 20)), lanes=2):
    """Build a trace of (name, kind, lane, start, duration, correlation) in ms; lane 0 is the host."""
    rows = [(f"ProfilerStep#{n}", Kind.STEP, 0, a, b - a, -1) for n, a, b in steps] + list(events)
    names = {name: n for n, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    number = np.full(len(rows), -1, np.int64)
    number[: len(steps)] = [step[0] for step in steps]
    return build(
        Draft(
            format="kineto",
            path="t.json",
            strings=Strings.of(names),
            lanes=[
                Lane(rank=0, process="python", thread="main"),
                *(
                    Lane(rank=0, process="GPU 0", thread=f"stream {n}", device=0, stream=n)
                    for n in range(1, lanes)
                ),
            ],
            name=np.array([names[row[0]] for row in rows], np.int32),
            kind=np.array([row[1] for row in rows], np.uint8),
            lane=np.array([row[2] for row in rows], np.int32),
            start_ns=np.array([int(row[3] * MS) for row in rows], np.int64),
            duration_ns=np.array([int(row[4] * MS) for row in rows], np.int64),
            correlation=np.array([row[5] for row in rows], np.int64),
            step_number=number,
        )
    )


def step_of(trace, name):
    return trace.step[trace.named(name)].tolist()


@pytest.mark.parametrize("call", ["cudaLaunchKernel", "hipModuleLaunchKernel", "cuLaunchKernelEx"])
def test_a_backlog_from_before_the_recording_belongs_to_no_step(call):
    trace = trace_of(
        [
            ("old", Kind.KERNEL, 1, 0, 5, -1),
            (call, Kind.RUNTIME_CALL, 0, 1, 0.1, 1),
            ("new", Kind.KERNEL, 1, 5, 6, 1),
            ("graph node", Kind.KERNEL, 1, 11, 2, -1),
        ]
    )
    assert step_of(trace, "old") == [-1]
    assert step_of(trace, "new") == [0]
    assert step_of(trace, "graph node") == [0]  # it ran in step 1's window, after work of step 0


def test_each_stream_has_its_own_backlog():
    trace = trace_of(
        [
            ("launch", Kind.RUNTIME_CALL, 0, 1, 0.1, 1),
            ("a", Kind.KERNEL, 1, 2, 1, 1),
            ("b", Kind.KERNEL, 2, 3, 1, -1),
        ],
        lanes=3,
    )
    assert (step_of(trace, "a"), step_of(trace, "b")) == ([0], [-1])


def test_without_any_launch_the_time_is_all_that_tells():
    trace = trace_of([("k", Kind.KERNEL, 1, 3, 1, -1), ("k", Kind.KERNEL, 1, 12, 1, -1)])
    assert step_of(trace, "k") == [0, 1]


def test_the_profilers_tail_is_no_part_of_the_last_step():
    operators = [("aten::mm", Kind.HOST_OP, 0, at, 9.9, -1) for at in (0, 10)]
    trace = trace_of(
        [*operators, ("aten::mm", Kind.HOST_OP, 0, 20, 9, -1)], steps=((0, 0, 10), (1, 10, 20), (2, 20, 110))
    )
    assert (trace.steps.end_ns // MS).tolist() == [10, 20, 29]
    assert any("81.0 ms" in note for note in trace.notes)


@pytest.mark.parametrize("name", ["torch/profiler/profiler.py(712): stop", "$profiler.py:213 stop_trace"])
def test_the_profilers_own_frames_are_part_of_the_tail(name):
    trace = trace_of(
        [
            ("aten::mm", Kind.HOST_OP, 0, 0, 9, -1),
            (name, Kind.PYTHON_FRAME, 0, 9, 50, -1),
            ("json.dumps", Kind.PYTHON_FRAME, 0, 20, 9, -1),
        ],
        steps=((0, 0, 60),),
    )
    assert (trace.steps.end_ns // MS).tolist() == [9]


def test_a_tail_like_those_of_other_steps_is_kept():
    operators = [("aten::mm", Kind.HOST_OP, 0, at, 5, -1) for at in (0, 10, 20)]
    trace = trace_of(operators, steps=((0, 0, 10), (1, 10, 20), (2, 20, 30)))
    assert (trace.steps.end_ns // MS).tolist() == [10, 20, 30]
    assert not trace.notes


def test_a_tail_in_which_the_device_works_is_the_steps():
    trace = trace_of(
        [("launch", Kind.RUNTIME_CALL, 0, 1, 0.1, 1), ("k", Kind.KERNEL, 1, 2, 58, 1)], steps=((0, 0, 60),)
    )
    assert (trace.steps.end_ns // MS).tolist() == [60]
