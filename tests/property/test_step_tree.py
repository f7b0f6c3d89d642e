"""The step tree against an instant-by-instant count: whatever was recorded, its parts are the step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import modules

from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.diff import diff
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import view
from stepscope.analyze.views.tree import below_added
from stepscope.attribute.attribution import attribution
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.step_tree import PARTS, step_tree, stepping_lanes
from stepscope.trace.model import DEVICE_WORK, Kind

hand_made = modules.hand_made()

HOST = (
    Kind.HOST_OP,
    Kind.RUNTIME_CALL,
    Kind.DATA_LOADING,
    Kind.ANNOTATION,
    Kind.PYTHON_FRAME,
    Kind.OVERHEAD,
    Kind.COLLECTIVE,
)
DEVICE = (Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET)
NAMES = ("aten::mm", "MmBackward0", "Optimizer.step#SGD.step", "aten::add", "train.py(3): main")
ALL = ViewOptions(max_depth=100_000)


@st.composite
def traces(draw, most_steps=3):
    ranks = draw(st.integers(1, 2))
    device = draw(st.booleans())
    events = []
    for rank in range(ranks):
        events += [
            hand_made.event("s", Kind.STEP, number * 40, 40, step=number, rank=rank)
            for number in range(draw(st.integers(0, most_steps)))
        ]
        for number in range(draw(st.integers(1, 10))):
            start, duration = draw(st.integers(0, 120)), draw(st.sampled_from((0, 1, 5, 20, 40)))
            if not device or draw(st.booleans()):
                kind, lane = draw(st.sampled_from(HOST)), draw(st.sampled_from(("main", "other")))
                name = draw(st.sampled_from(NAMES))
                events.append(
                    hand_made.event(name, kind, start, duration, lane=lane, correlation=number, rank=rank)
                )
            else:
                kind, stream = draw(st.sampled_from(DEVICE)), draw(st.integers(1, 2))
                events.append(
                    hand_made.event(
                        "k", kind, start, duration, device=0, stream=stream, rank=rank,
                        correlation=draw(st.integers(0, 9)),
                    )
                )  # fmt: skip
    return hand_made.build(events)


MODEL = (Purpose.BACKWARD, Purpose.FORWARD, Purpose.OPTIMIZER)


def holders(trace, rows):
    """Return what encloses any of some rows."""
    found = set()
    for row in rows.tolist():
        while (row := int(trace.parent[row])) >= 0:
            found.add(row)
    return sorted(found)


def slowly(trace, tree, at):
    """Count the parts of one window instant by instant, by what covers each."""
    rank, start, end = (
        int(column[at]) for column in (tree.windows.rank, tree.windows.start_ns, tree.windows.end_ns)
    )
    purpose = attribution(trace).purpose
    mine = np.flatnonzero((trace.rank == rank) & (trace.kind != Kind.OVERHEAD))
    work = mine[(trace.device[mine] >= 0) & np.isin(trace.kind[mine], DEVICE_WORK)]
    has_device = bool(len(work))
    computing = work[trace.kind[work] == Kind.KERNEL]
    if not has_device:
        computing = mine[(trace.kind[mine] == Kind.HOST_OP) & (purpose[mine] != Purpose.LOADING)]
    loading = mine[trace.kind[mine] == Kind.DATA_LOADING]
    on_step = np.isin(trace.lane[loading], stepping_lanes(trace, mine))
    loading = loading[on_step] if on_step.any() else loading
    if not has_device:  # an operator that holds loading waits for it
        computing = computing[~np.isin(computing, holders(trace, loading[trace.duration_ns[loading] > 0]))]
    order = [
        ("backward", computing[purpose[computing] == Purpose.BACKWARD]),
        ("forward", computing[purpose[computing] == Purpose.FORWARD]),
        ("optimizer", computing[purpose[computing] == Purpose.OPTIMIZER]),
        (
            "other",
            computing[~np.isin(purpose[computing], (Purpose.BACKWARD, Purpose.FORWARD, Purpose.OPTIMIZER))],
        ),
        ("communication", mine[np.isin(trace.kind[mine], (Kind.COLLECTIVE, Kind.SEND_RECV))]),
        ("copy", mine[np.isin(trace.kind[mine], (Kind.MEMCPY, Kind.MEMSET))]),
        ("data_loading", loading),
    ]
    knows_idleness = has_device or bool((trace.kind[mine] == Kind.HOST_OP).any())
    parts = dict.fromkeys(PARTS, 0)
    ends = trace.end_ns
    for time in range(start, end):
        name = next(
            (name for name, rows in order if ((trace.start_ns[rows] <= time) & (time < ends[rows])).any()),
            "idle" if knows_idleness else "other",
        )
        parts[name] += 1
    return [parts[name] for name in PARTS]


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_every_instant_goes_to_one_event_that_is_there(trace):
    tree = step_tree(trace)
    parts = tree.parts_ns()
    assert (parts >= 0).all()
    assert (tree.nothing_ns >= 0).all()
    assert parts.sum(axis=1).tolist() == tree.wall_ns.tolist()
    assert (tree.length_ns > 0).all()
    assert (tree.start_ns >= trace.start_ns[tree.row]).all()
    assert (tree.end_ns <= trace.end_ns[tree.row]).all()
    assert (trace.rank[tree.row] == tree.windows.rank[tree.window]).all()
    same = tree.window[1:] == tree.window[:-1]
    assert (tree.start_ns[1:][same] >= tree.end_ns[:-1][same]).all()
    for at in range(len(tree.windows)):
        assert parts[at].tolist() == slowly(trace, tree, at)


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_every_view_adds_up_to_the_same_steps(trace):
    every = step_tree(trace)
    marked = every.windows.number >= 0
    wall = every.wall_ns[marked].sum() if marked.any() else every.wall_ns.sum()
    for name in ("op", "scope", "graph"):
        tree = view(name, trace, ALL).tree
        if not wall or not (len(every.row) or marked.any()):
            assert not tree.own.get("step_ns", np.zeros(1)).any()
            continue
        assert (tree.own["step_ns"] >= 0).all()
        assert tree.own["step_ns"].sum() == tree.total["step_ns"][0] == wall
        assert tree.own["step_ns"][0] == 0  # all of it has a name
        assert (below_added(tree.own["step_ns"], tree.parent) == tree.total["step_ns"]).all()
        below = np.bincount(tree.parent[1:], weights=tree.total["step_ns"][1:], minlength=len(tree))
        assert (tree.total["step_ns"] == tree.own["step_ns"] + below).all()


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_a_step_alone_is_its_part_of_all(trace):
    if not len(trace.steps):
        return
    every = step_tree(trace)
    for number in np.unique(trace.steps.number).tolist():
        mine = every.windows.number == number
        ranks = np.isin(every.windows.rank[mine], trace.rank[trace.step == number])
        tree = view("graph", trace, ViewOptions(step=number)).tree if ranks.any() else None
        if tree is not None:
            assert tree.total["step_ns"][0] == every.wall_ns[mine][ranks].sum()


@pytest.mark.slow
@given(traces())
@settings(deadline=None)
def test_loading_is_the_same_in_the_parts_and_in_the_operations(trace):
    loaded = [step.parts_ns["data_loading"] for step in breakdown(trace).steps]
    tree = view("op", trace, ALL).tree
    if "step_ns" not in tree.own or (trace.kind == Kind.COLLECTIVE).any():
        return
    every = step_tree(trace)
    inside = every.part == PARTS.index("data_loading")
    assert every.length_ns[inside].sum() == sum(value or 0 for value in loaded)
    names = {trace.name_of(row) for row in np.flatnonzero(trace.kind == Kind.DATA_LOADING)}
    shown = sum(tree.own["step_ns"][node] for node, name in enumerate(tree.names) if name in names)
    if not (every.windows.number < 0).any():
        assert shown >= sum(value or 0 for value in loaded)


@pytest.mark.slow
@given(traces(), traces())
@settings(deadline=None, max_examples=50)
def test_what_differs_adds_up_to_the_difference_of_the_means(a, b):
    found = diff(a, b)
    for which in "ab":
        every = [getattr(change, which) for change in found.operators]
        whole = getattr(found.step, which).mean_ns
        assert sum(side.mean_ns for side in every if side) == pytest.approx(whole)
