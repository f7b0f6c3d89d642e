from __future__ import annotations

import pytest

from stepscope.analyze.critical_path import BOUNDS, critical_path, critical_paths
from stepscope.errors import EmptyTraceError


def bounds(path):
    return {bound: time for bound, time in path.by_bound_ns.items() if time}


def test_a_host_that_is_too_slow(make):
    e, K = make.event, make.Kind
    (path,) = critical_paths(make.build([
        e("s", K.STEP, 0, 100, step=1),
        e("aten::a", K.HOST_OP, 0, 30), e("launch", K.RUNTIME_CALL, 10, 5, correlation=1),
        e("aten::b", K.HOST_OP, 40, 50), e("launch", K.RUNTIME_CALL, 80, 5, correlation=2),
        e("k1", K.KERNEL, 18, 10, device=0, stream=1, correlation=1),
        e("k2", K.KERNEL, 88, 20, device=0, stream=1, correlation=2),
    ]))  # fmt: skip
    # From the end of k2 back: its launch, the second operator, the gap before it, the first operator.
    assert (path.start_ns, path.end_ns) == (0, 108)
    assert bounds(path) == {"host": 30 + 40, "host_gap": 10, "launch": 8, "compute": 20}
    assert path.ratio("compute") == pytest.approx(20 / 108)
    assert [(c.name, c.time_ns) for c in path.top[:2]] == [("aten::b", 40), ("aten::a", 25)]


def test_a_device_that_is_too_slow(make):
    e, K = make.event, make.Kind
    events = [e("s", K.STEP, 0, 100, step=1), e("loop", K.HOST_OP, 0, 95)]
    for n in range(4):
        events.append(e("launch", K.RUNTIME_CALL, 2 + 3 * n, 1, correlation=n + 1))
        events.append(e("k", K.KERNEL, 6 + 21 * n, 20, device=0, stream=1, correlation=n + 1))
    events.append(e("cudaDeviceSynchronize", K.RUNTIME_CALL, 20, 72))
    (path,) = critical_paths(make.build(events))
    # The last operator ends at 95 because of the wait, which ends at 92 because of the work that ended at 89.
    assert path.end_ns == 95
    assert bounds(path) == {"host": 2 + 3, "launch": 4, "compute": 80, "kernel_gap": 3, "sync": 3}


def test_a_recorded_wait_between_streams(make):
    """The wait names the event, so the path follows the other stream although work of a third ended later."""
    e, K = make.event, make.Kind
    trace = make.build(
        [
            e("op", K.HOST_OP, 0, 60),
            e("launch", K.RUNTIME_CALL, 1, 1, correlation=1),
            e("cudaEventRecord", K.RUNTIME_CALL, 3, 1, correlation=2),
            e("launch", K.RUNTIME_CALL, 5, 1, correlation=3),
            e("cudaStreamWaitEvent", K.RUNTIME_CALL, 7, 1, correlation=4),
            e("launch", K.RUNTIME_CALL, 9, 1, correlation=5),
            e("nccl", K.COLLECTIVE, 10, 70, device=0, stream=2, correlation=1),
            e("unrelated", K.KERNEL, 10, 75, device=0, stream=3, correlation=3),
            e("Stream Wait Event", K.SYNC, 10, 1, device=0, stream=1, correlation=4),
            e("after", K.KERNEL, 86, 10, device=0, stream=1, correlation=5),
        ],
        tables={
            "syncs": {
                "row": [6], "what": ["Stream Wait Event"], "stream": [1], "wait_stream": [2],
                "wait_correlation": [2], "event": [1],
            }
        },
    )  # fmt: skip
    (path,) = critical_paths(trace)
    assert bounds(path) == {"host": 1, "launch": 9, "communication": 70, "sync": 6, "compute": 10}
    assert path.notes == ()


def test_an_inferred_wait_between_streams_is_said(make):
    e, K = make.event, make.Kind
    (path,) = critical_paths(make.build([
        e("op", K.HOST_OP, 0, 100_000),
        e("launch", K.RUNTIME_CALL, 1_000, 500, correlation=1),
        e("launch", K.RUNTIME_CALL, 2_000, 500, correlation=2),
        e("launch", K.RUNTIME_CALL, 3_000, 500, correlation=3),
        e("first", K.KERNEL, 4_000, 6_000, device=0, stream=1, correlation=1),
        e("nccl", K.COLLECTIVE, 5_000, 200_000, device=0, stream=2, correlation=2),
        e("second", K.KERNEL, 206_000, 10_000, device=0, stream=1, correlation=3),
    ]))  # fmt: skip
    assert bounds(path)["communication"] == 200_000
    assert "1 were inferred" in path.notes[0]


@pytest.mark.parametrize(("ended", "told"), [(206_000, "communication"), (120_000, "launch")])
def test_a_stream_that_had_run_dry_waits_for_what_ends_as_it_begins(make, ended, told):
    """Launched at 100 µs, begun at 206: after the exchange where that ends just then, else by the launch."""
    e, K = make.event, make.Kind
    (path,) = critical_paths(make.build([
        e("op", K.HOST_OP, 0, 105_000),
        e("launch", K.RUNTIME_CALL, 2_000, 500, correlation=2),
        e("launch", K.RUNTIME_CALL, 100_000, 500, correlation=3),
        e("nccl", K.COLLECTIVE, 5_000, ended - 5_000, device=0, stream=2, correlation=2),
        e("after", K.KERNEL, 207_000, 10_000, device=0, stream=1, correlation=3),
    ]))  # fmt: skip
    assert max(bounds(path), key=bounds(path).get) in (told, "host")
    assert bounds(path)[told] > 100_000
    assert ("communication" in bounds(path)) == (told == "communication")


def test_the_backward_thread(make):
    e, K = make.event, make.Kind
    (path,) = critical_paths(make.build([
        e("s", K.STEP, 0, 100, step=1),
        e("aten::mm", K.HOST_OP, 0, 20), e("Optimizer", K.HOST_OP, 80, 20),
        e("autograd::engine::evaluate_function: MmBackward0", K.HOST_OP, 25, 50, lane="autograd"),
    ]))  # fmt: skip
    assert bounds(path) == {"host": 90, "host_gap": 10}


def test_loading_is_told_apart(make):
    e, K = make.event, make.Kind
    (path,) = critical_paths(make.build([
        e("s", K.STEP, 0, 100, step=1),
        e("next", K.DATA_LOADING, 10, 50), e("aten::stack", K.HOST_OP, 20, 10),
        e("aten::mm", K.HOST_OP, 60, 40),
    ]))  # fmt: skip
    assert bounds(path) == {"unknown": 10, "data_loading": 50, "host": 40}


def test_gaps_are_named_by_what_they_lie_in(make):
    e, K = make.event, make.Kind
    (path,) = critical_paths(make.build([
        e("s", K.STEP, 0, 100, step=1), e("## forward ##", K.ANNOTATION, 5, 60),
        e("aten::a", K.HOST_OP, 0, 2), e("aten::b", K.HOST_OP, 10, 10), e("aten::c", K.HOST_OP, 40, 10),
    ]))  # fmt: skip
    gaps = {c.name: c.time_ns for c in path.top if c.bound == "host_gap"}
    assert gaps == {"s": 8, "## forward ##": 20}


def test_device_clock_ahead_of_the_hosts(make):
    e, K = make.event, make.Kind
    trace = make.build([
        e("op", K.HOST_OP, 0, 50), e("launch", K.RUNTIME_CALL, 20, 5, correlation=1),
        e("k", K.KERNEL, 15, 40, device=0, stream=1, correlation=1),
    ])  # fmt: skip
    path = critical_path(trace, 0, 0, 50)
    assert sum(path.by_bound_ns.values()) == path.length_ns == 55
    assert bounds(path) == {"host": 20, "compute": 35}


def test_work_that_ended_before_its_step_began_ends_no_path(make):
    """A device's clock that lies behind the host's by more than a step."""
    e, K = make.event, make.Kind
    _, path = critical_paths(make.build([
        e("s", K.STEP, 0, 60, step=0), e("aten::a", K.HOST_OP, 0, 0),
        e("s", K.STEP, 60, 60, step=1), e("launch", K.ANNOTATION, 60, 0, correlation=1),
        e("k", K.KERNEL, 0, 0, device=0, stream=1, correlation=1),
    ]))  # fmt: skip
    assert (path.start_ns, path.end_ns) == (60, 60)
    assert bounds(path) == {}


def test_without_operators_there_is_no_path(make):
    with pytest.raises(EmptyTraceError, match="critical path"):
        critical_paths(make.build([make.event("k", make.Kind.KERNEL, 0, 5, device=0)]))
    assert "compute" in BOUNDS
