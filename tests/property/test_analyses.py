"""Whatever was recorded, parts add up to the whole and paths fill their window."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import modules

from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.critical_path import critical_paths
from stepscope.analyze.dependencies import graph
from stepscope.analyze.idle import idle
from stepscope.analyze.operators import operator_times
from stepscope.analyze.overlap import overlap, overlap_by_step
from stepscope.errors import EmptyTraceError
from stepscope.export.folded import folded_stacks
from stepscope.export.layout import layout
from stepscope.trace.model import Kind

hand_made = modules.hand_made()

HOST = (Kind.HOST_OP, Kind.RUNTIME_CALL, Kind.DATA_LOADING, Kind.ANNOTATION)
DEVICE = (Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET)
NAMES = (
    "aten::mm",
    "MmBackward0",
    "Optimizer.step#SGD.step",
    "cudaDeviceSynchronize",
    "cudaMemcpyAsync",
    "x",
)


@st.composite
def traces(draw):
    steps = range(draw(st.integers(0, 2)))
    events = [hand_made.event("s", Kind.STEP, number * 60, 60, step=number) for number in steps]
    for number in range(draw(st.integers(1, 14))):
        start, duration = draw(st.integers(0, 120)), draw(st.sampled_from((0, 0, 1, 5, 40)))
        if draw(st.booleans()):
            kind, lane = draw(st.sampled_from(HOST)), draw(st.sampled_from(("main", "other")))
            name = draw(st.sampled_from(NAMES))
            events.append(hand_made.event(name, kind, start, duration, lane=lane, correlation=number))
        else:
            kind, stream = draw(st.sampled_from(DEVICE)), draw(st.integers(1, 2))
            events.append(
                hand_made.event("k", kind, start, duration, device=0, stream=stream,
                                correlation=draw(st.integers(0, 13)))
            )  # fmt: skip
    return hand_made.build(events)


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_parts_add_up(trace):
    for step in breakdown(trace).steps:
        assert sum(value or 0 for value in step.parts_ns.values()) <= step.wall_ns
        assert all(value is None or value >= 0 for value in step.parts_ns.values())
        if None not in step.parts_ns.values():
            assert sum(step.parts_ns.values()) == step.wall_ns
    if not len(trace.device_work()):
        return
    for found in (*overlap(trace), *overlap_by_step(trace)):
        assert found.busy_ns + found.idle_ns == found.window_ns
        assert found.idle_ns >= 0
        assert 0 <= found.exposed_communication_ns <= found.communication_ns
    for device, whole in zip(idle(trace).devices, overlap(trace), strict=True):
        assert device.idle_ns == whole.idle_ns
        assert sum(device.by_reason_ns.values()) == device.idle_ns


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_paths_fill_their_window(trace):
    try:
        paths = critical_paths(trace)
    except EmptyTraceError:
        return
    for path in paths:
        assert sum(path.by_bound_ns.values()) == path.length_ns
        ends = path.pieces.start_ns + path.pieces.duration_ns
        assert (path.pieces.start_ns[1:] == ends[:-1]).all()
        if len(ends):
            assert (path.pieces.start_ns[0], ends[-1]) == (path.start_ns, path.end_ns)


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_nothing_waits_for_itself(trace):
    made = graph(trace, 0)
    for node in range(len(made.time_ns)):
        seen = set()
        while node >= 0:
            assert node not in seen
            seen.add(node)
            before = int(made.before[node])
            assert before < 0 or made.time_ns[before] <= made.time_ns[node]
            node = before


@given(traces())
@settings(deadline=None)
def test_time_is_neither_lost_nor_made(trace):
    times = operator_times(trace)
    linked = trace.device_work()
    linked = linked[trace.launch[linked] >= 0]
    assert times.device_self_ns.sum() <= trace.duration_ns[linked].sum()
    assert (times.device_total_ns >= times.device_self_ns).all()
    assert sum(folded_stacks(trace).values()) == trace.self_ns[trace.device < 0].sum()
    work = trace.device_work()
    assert sum(folded_stacks(trace, time="device").values()) == trace.duration_ns[work].sum()


@given(traces())
@settings(deadline=None)
def test_rows_of_a_viewer_nest(trace):
    place = layout(trace)
    assert place.left_out == 0
    ends = trace.start_ns + trace.duration_ns
    for track in range(len(place.tracks)):
        rows = np.flatnonzero(place.track == track)
        for at, row in enumerate(rows):
            for earlier in rows[:at]:
                apart = ends[earlier] <= trace.start_ns[row]
                assert apart or ends[row] <= ends[earlier]
