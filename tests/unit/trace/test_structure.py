"""Order, nesting, steps, launches, backward links, scopes, stacks, allocations."""

import numpy as np

from stepscope.trace.draft import Draft, InstantEvents
from stepscope.trace.model import Kind, Lane
from stepscope.trace.names import Paths, Strings
from stepscope.trace.structure import build, lane_search, match, timeline_order

HOST, BACKWARD, DEVICE = 0, 1, 2
LANES = [
    Lane(rank=0, process="python", thread="main"),
    Lane(rank=0, process="python", thread="autograd"),
    Lane(rank=0, process="GPU 0", thread="stream 7", device=0, stream=7),
]


def draft(events, **more):
    """A draft of (name, kind, lane, start, duration, correlation) in any order."""
    names = {}
    columns = [
        (names.setdefault(name, len(names)), kind, lane, start, duration, *(rest or [-1]))
        for name, kind, lane, start, duration, *rest in events
    ]
    name, kind, lane, start, duration, correlation = np.array(columns, np.int64).reshape(-1, 6).T
    return Draft(
        format="test", path="", strings=Strings.of(names), lanes=list(LANES), name=name.astype(np.int32),
        kind=kind.astype(np.uint8), lane=lane.astype(np.int32), start_ns=start, duration_ns=duration,
        correlation=correlation, **more,
    )  # fmt: skip


STEP = [
    ("kernel", Kind.KERNEL, DEVICE, 400, 50, 7),
    ("ProfilerStep#3", Kind.STEP, HOST, 0, 300),
    ("nn.Module: Net_0", Kind.MODULE_SCOPE, HOST, 10, 100),
    ("train.py(3): forward", Kind.PYTHON_FRAME, HOST, 11, 98),
    ("aten::mm", Kind.HOST_OP, HOST, 20, 60),
    ("launch", Kind.RUNTIME_CALL, HOST, 30, 10, 7),
    ("MmBackward", Kind.HOST_OP, BACKWARD, 200, 50),
    ("launch", Kind.RUNTIME_CALL, BACKWARD, 210, 10, 8),
    ("kernel", Kind.KERNEL, DEVICE, 460, 20, 8),
    ("late", Kind.HOST_OP, HOST, 310, 10),
]
OPERATORS = {
    "row": np.array([6, 4]), "sequence": np.array([5, 5]), "forward_thread": np.array([1, 0]),
    "shapes": np.array([-1, -1]), "types": np.array([-1, -1]), "values": np.array([-1, -1]),
    "external_id": np.array([-1, -1]), "record_id": np.array([-1, -1]),
}  # fmt: skip


def trace_of(events=STEP, **more):
    made = draft(events, operators=OPERATORS if events is STEP else None, **more)
    made.step_number = np.array([3 if name.startswith("ProfilerStep") else -1 for name, *_ in events])
    return build(made)


def test_rows_are_in_order_and_nested():
    trace = trace_of()
    assert [trace.name_of(row) for row in range(len(trace))] == [
        "ProfilerStep#3",
        "nn.Module: Net_0",
        "train.py(3): forward",
        "aten::mm",
        "launch",
        "late",
        "MmBackward",
        "launch",
        "kernel",
        "kernel",
    ]
    assert trace.parent.tolist() == [-1, 0, 1, 2, 3, -1, -1, 6, -1, -1]
    assert trace.depth.tolist() == [0, 1, 2, 3, 4, 0, 0, 1, 0, 0]
    assert trace.self_ns.tolist() == [200, 2, 38, 50, 10, 10, 40, 10, 50, 20]


def test_launches_steps_and_backward_links():
    trace = trace_of()
    assert trace.launch.tolist() == [-1] * 8 + [4, 7]
    assert trace.step.tolist() == [3, 3, 3, 3, 3, -1, 3, 3, 3, 3]  # device work has its launch's step
    assert trace.forward.tolist() == [-1] * 6 + [3, 3, -1, 3]
    assert (trace.steps.number.tolist(), trace.steps.row.tolist()) == ([3], [0])
    assert trace.operators.row.tolist() == [3, 6]


def test_scopes_and_stacks_reach_kernels_and_backward():
    trace = trace_of()
    scopes = [trace.scopes.text(int(number)) for number in trace.scope]
    assert scopes == ["", *["nn.Module: Net_0"] * 4, "", *["nn.Module: Net_0"] * 4]
    stacks = [trace.stacks.text(int(number)) for number in trace.stack]
    assert stacks == ["", "", *["train.py(3): forward"] * 3, "", *["train.py(3): forward"] * 4]


def test_what_was_recorded_and_what_not():
    trace = trace_of(not_recorded={"memory": "record with profile_memory=True"})
    assert {"timeline", "steps", "device", "launches", "backward", "modules", "stacks"} == trace.recorded
    assert trace.not_recorded["memory"] == "record with profile_memory=True"
    assert trace.not_recorded["shapes"]
    assert trace.recorded.isdisjoint(trace.not_recorded)


def test_a_trace_without_steps():
    trace = build(draft([("a", Kind.HOST_OP, HOST, 5, 5)]))
    assert (len(trace.steps), trace.step.tolist()) == (0, [-1])
    assert "steps" in trace.not_recorded


def test_bad_durations_are_mended_or_dropped_and_counted():
    week = 8 * 24 * 3600 * 10**9
    trace = build(draft([("a", 1, HOST, 0, -5), ("b", 1, HOST, 1, week), ("c", 1, HOST, 2, 3)]))
    assert [trace.name_of(row) for row in range(len(trace))] == ["a", "c"]
    assert trace.duration_ns.tolist() == [0, 3]
    assert trace.dropped == {"negative_durations": 1, "overflowed_durations": 1}


def test_tables_follow_dropped_and_sorted_rows():
    week = 8 * 24 * 3600 * 10**9
    made = draft([("late", 5, HOST, 9, 1), ("gone", 5, HOST, 1, week), ("early", 5, HOST, 2, 3)])
    made.syncs = {
        "row": np.array([0, 1, 2]), "what": np.array([0, 1, 2]), "stream": np.array([7, 8, 9]),
        "wait_stream": np.full(3, -1), "wait_correlation": np.full(3, -1), "event": np.full(3, -1),
    }  # fmt: skip
    trace = build(made)
    assert trace.syncs.row.tolist() == [0, 1]
    assert trace.syncs.stream.tolist() == [9, 7]


def test_overlapping_siblings_are_counted():
    trace = build(draft([("a", 1, HOST, 0, 10), ("b", 1, HOST, 5, 10)]))
    assert trace.dropped == {"overlapping_siblings": 1}
    assert trace.parent.tolist() == [-1, -1]


def test_what_frames_open_and_close_is_no_overlapping_sibling():
    """PyTorch's marks begin within the call that opens them and end within the one that closes them."""
    around = [("enter", Kind.PYTHON_FRAME, HOST, 1, 4), ("exit", Kind.PYTHON_FRAME, HOST, 18, 4)]
    for kind in (Kind.ANNOTATION, Kind.STEP, Kind.DATA_LOADING, Kind.HOST_OP):
        assert build(draft([*around, ("range", kind, HOST, 3, 17)])).dropped == {}
    assert build(draft([*around, ("frame", Kind.PYTHON_FRAME, HOST, 3, 17)])).dropped == {
        "overlapping_siblings": 2
    }
    assert build(draft([("a", Kind.HOST_OP, HOST, 1, 4), ("b", Kind.HOST_OP, HOST, 3, 17)])).dropped == {
        "overlapping_siblings": 1
    }


def test_external_ids_join_where_no_correlation_does():
    made = draft([("op", Kind.HOST_OP, HOST, 0, 10), ("graph kernel", Kind.KERNEL, DEVICE, 20, 5)])
    made.external = np.array([4, 4])
    assert build(made).launch.tolist() == [-1, 0]


def test_allocations_know_where_they_happened():
    made = draft(STEP)
    columns = {
        "device": np.array([0, 0, -1]),
        "action": np.zeros(3),
        "address": np.zeros(3),
        "bytes": np.array([5, 6, 7]),
    }
    made.memory = InstantEvents(np.array([HOST, HOST, -1]), np.array([65, 900, 50]), columns)
    memory = build(made).memory
    assert memory.bytes.tolist() == [7, 5, 6]  # host first, then by time
    assert memory.row.tolist() == [-1, 3, -1]
    assert memory.allocated_bytes.tolist() == [-1, -1, -1]


def test_arrows_join_rows():
    made = draft([("a", 0, HOST, 0, 10), ("b", 0, BACKWARD, 20, 10), ("c", 0, BACKWARD, 40, 5)])
    arrows = {
        "id": np.array([1, 1, 1, 2]),
        "begins": np.array([True, False, False, True]),
        "name": np.zeros(4),
    }
    made.arrows = InstantEvents(np.array([HOST, BACKWARD, BACKWARD, HOST]), np.array([10, 20, 41, 5]), arrows)
    flows = build(made).flows
    assert (flows.source.tolist(), flows.target.tolist()) == ([0, 0], [1, 2])


def test_forward_threads_are_told_apart_by_what_they_know():
    events = [
        ("f", Kind.HOST_OP, HOST, 0, 5),
        ("f", Kind.HOST_OP, BACKWARD, 1, 5),
        ("b", Kind.HOST_OP, HOST, 20, 5),
    ]
    made = draft([*events, ("f", Kind.HOST_OP, BACKWARD, 7, 2), ("b", Kind.HOST_OP, HOST, 30, 5)])
    made.operators = {
        "row": np.arange(5),
        "sequence": np.array([5, 5, 5, 6, 6]),
        "forward_thread": np.array([0, 0, 2, 0, 2]),
        **{key: np.full(5, -1) for key in ("shapes", "types", "values", "external_id", "record_id")},
    }
    trace = build(made)
    named = [(trace.name_of(row), int(trace.forward[row])) for row in range(5)]
    assert named == [("f", -1), ("b", 3), ("b", 4), ("f", -1), ("f", -1)]


def test_recorded_scopes_win():
    made = draft([("a", 1, HOST, 0, 10), ("b", 1, HOST, 2, 3)])
    made.scopes, numbers = Paths.of([["net", "a"], []])
    made.scope = numbers
    trace = build(made)
    assert [trace.scopes.text(int(n)) for n in trace.scope] == ["net/a", "net/a"]


def test_order_by_lane_start_and_length():
    random = np.random.default_rng(0)
    for spread in (3, 1 << 60):
        lane, start = random.integers(0, 9, 500), random.integers(-5, 5, 500) * spread
        duration = random.integers(0, 4, 500)
        order = timeline_order(lane.astype(np.int32), start, duration)
        rows = list(
            zip(
                lane[order].tolist(),
                start[order].tolist(),
                (-duration[order]).tolist(),
                order.tolist(),
                strict=True,
            )
        )
        assert rows == sorted(rows)


def test_match_and_lane_search():
    for scale in (1, 10**12):
        keys = np.array([3, 1, 3, -2]) * scale
        assert match(keys, np.arange(4), np.array([3, 2, -2, 1]) * scale).tolist() == [0, -1, 3, 1]
    assert match(np.zeros(0), np.zeros(0), np.array([1])).tolist() == [-1]
    lanes, starts = np.array([0, 0, 2, 2]), np.array([1, 5, 1, 5])
    lane, time = np.array([0, 0, 2, 2, 1, -1]), np.array([5, 0, 9, 1, 5, 5])
    assert lane_search(lanes, starts, lane, time, "right").tolist() == [1, -1, 3, 2, -1, -1]
    assert lane_search(lanes, starts, lane, time, "left").tolist() == [0, -1, 3, -1, -1, -1]
