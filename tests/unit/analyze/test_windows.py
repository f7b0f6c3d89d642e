"""Windows of what was recorded without steps: bounded by work."""

from __future__ import annotations

import pytest

from stepscope.analyze.windows import windows


def bounds(trace):
    found = windows(trace)
    return list(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True))


def test_frames_and_ranges_around_the_work_do_not_stretch_it(make):
    e, K = make.event, make.Kind
    events = [
        e("range", K.ANNOTATION, 0, 1000),
        e("main.py(1): main", K.PYTHON_FRAME, 0, 1000),
        e("aten::mm", K.HOST_OP, 300, 50),
        e("launch", K.RUNTIME_CALL, 310, 5, correlation=1),
        e("k", K.KERNEL, 400, 90, device=0, correlation=1),
        e("cudaDeviceSynchronize", K.RUNTIME_CALL, 500, 400),
    ]
    trace = make.build(events)
    assert bounds(trace) == [(300, 490)]
    assert not windows(trace).marked


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        ("torch/profiler/profiler.py(700): start", "torch/profiler/profiler.py(712): stop"),
        ("$profiler.py:101 start_trace", "$profiler.py:213 stop_trace"),
        ("torch/profiler/profiler.py(690): __enter__", "torch/profiler/profiler.py(693): __exit__"),
    ],
)
def test_what_the_profiler_does_to_start_and_stop_is_no_work(make, start, stop):
    e, K = make.event, make.Kind
    events = [
        e(start, K.PYTHON_FRAME, 0, 100),
        e("aten::empty", K.HOST_OP, 50, 10),
        e("aten::mm", K.HOST_OP, 120, 50),
        e(stop, K.PYTHON_FRAME, 200, 700),
        e("aten::empty", K.HOST_OP, 300, 10),
        e("pool", K.HOST_OP, 400, 10, lane="other"),
    ]
    assert bounds(make.build(events)) == [(120, 170)]


def test_a_function_that_is_only_called_like_the_profilers_counts(make):
    e, K = make.event, make.Kind
    events = [e("train.py(3): start", K.PYTHON_FRAME, 0, 100), e("aten::mm", K.HOST_OP, 20, 50)]
    assert bounds(make.build(events)) == [(20, 70)]


def test_where_only_frames_were_recorded_they_are_the_window(make):
    e, K = make.event, make.Kind
    assert bounds(make.build([e("f", K.PYTHON_FRAME, 10, 100), e("g", K.PYTHON_FRAME, 20, 10)])) == [
        (10, 110)
    ]


def test_marked_steps_are_windows_as_they_are(make):
    e, K = make.event, make.Kind
    trace = make.build([e("s", K.STEP, 0, 100, step=3), e("aten::mm", K.HOST_OP, 20, 50)])
    assert bounds(trace) == [(0, 100)]
    assert windows(trace).marked
