"""What the timeline draws beside events, and what it links them with."""

import dataclasses

import numpy as np
import pytest

from stepscope.serve.frame import array_of, unpack_as
from stepscope.serve.profiles.draw import search
from stepscope.serve.profiles.event import event as describe
from stepscope.serve.profiles.levels import levels
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.outline import outline
from stepscope.serve.profiles.range import within
from stepscope.serve.profiles.tracks import layers
from stepscope.serve.profiles.types import TracksHeader
from stepscope.serve.reply import Refusal
from stepscope.trace.model import Kind
from stepscope.trace.tables import Collectives, Counters, Flows, Memory, MemoryAction

A, F = MemoryAction.ALLOCATE, MemoryAction.FREE


def table(kind, rows, **columns):
    """A table of so many rows; columns that are not given are -1."""
    empty = kind.empty()
    made = {name: np.full(rows, -1).astype(column.dtype) for name, column in empty.columns().items()}
    return kind(**{**made, **{name: np.array(value, made[name].dtype) for name, value in columns.items()}})


@pytest.fixture
def profile(make):
    """Two operators, the second of which is the first's backward one; memory, a counter."""
    event = make.event
    trace = make.build(
        [
            event("step", Kind.STEP, 0, 1000, step=4),
            event("mm", Kind.HOST_OP, 100, 200),
            event("inner", Kind.HOST_OP, 150, 100),
            event("other", Kind.HOST_OP, 600, 100),
        ]
    )
    memory = table(
        Memory, 4, rank=[0] * 4, time_ns=[100, 200, 400, 600], device=[-1] * 4, action=[A, A, F, F],
        address=[7, 8, 7, 8], bytes=[1000, 500, -1000, -500], row=[1, 2, 3, 3],
    )  # fmt: skip
    counters = table(Counters, 2, name=[1, 1], lane=[0, 0], time_ns=[0, 500], value=[3.0, np.nan])
    flows = table(Flows, 1, source=[1], target=[3], name=[0])
    return OpenProfile("a.json", dataclasses.replace(trace, memory=memory, counters=counters, flows=flows))


def drawn(profile, *window, wanted=None):
    header, body = unpack_as(levels(profile, *window, wanted), TracksHeader)
    return [
        {name: array_of(body, column).tolist() for name, column in one.columns.items()}
        for one in header.tracks
    ]


def test_the_outline_holds_what_is_drawn_before_anything_is_analysed(profile):
    said = outline(profile)
    assert (said.events, said.start_ns, said.end_ns) == (4, 0, 1000)
    assert [(step.number, step.wall_ns) for step in said.steps] == [(4, 1000)]
    assert said.lanes[0].busy_ratio == pytest.approx(0.3)  # a step's mark keeps nobody busy
    assert [lane.stepping for lane in said.lanes] == [True] + [False] * (len(said.lanes) - 1)
    assert [(track.kind, track.unit, track.high, track.rows) for track in said.tracks] == [
        ("memory", "bytes", 1500.0, 0), ("tensors", "bytes", 1000.0, 2), ("counter", "count", 3.0, 0),
    ]  # fmt: skip
    assert said.tracks[0].note.startswith("since the recording began")


def test_a_level_is_drawn_by_its_extremes_and_what_held_before(profile):
    memory, tensors, counter = drawn(profile, 0, 1000, 10)
    assert np.isnan(memory["high"][0])
    assert memory["high"][1:] == memory["low"][1:] == [1000, 1500, 1500, 500, 500, 0, 0, 0, 0]
    wide = drawn(profile, 0, 1000, 2, wanted=[0])[0]
    assert (wide["low"], wide["high"]) == ([500, 0], [1500, 500])
    assert counter["high"] == [3.0] * 10
    assert list(zip(tensors["start"], tensors["end"], tensors["bytes"], tensors["row"], strict=True)) == [
        (100, 400, 1000, 1), (200, 600, 500, 2),
    ]  # fmt: skip
    assert sorted(tensors["layer"]) == [0, 1]


def test_tensors_narrower_than_a_pixel_are_counted(profile):
    header, _ = unpack_as(levels(profile, 0, 1000, 2, [1]), TracksHeader)
    assert [one.merged for one in header.tracks] == [2]
    for wrong in ((0, 0, 10, None), (0, 10, 10, [9])):
        with pytest.raises(Refusal):
            levels(profile, *wrong)


def test_intervals_share_a_row_only_where_they_do_not_meet():
    start, end = np.array([0, 5, 10, 2]), np.array([10, 8, 12, 4])
    assert layers(start, end).tolist() == [0, 1, 0, 1]


def test_a_range_says_how_busy_each_lane_was(profile):
    found = within(profile, 200, 700, None)
    assert [(lane.lane, lane.events, lane.busy_ns) for lane in found.lanes] == [(0, 4, 200)]
    assert found.self_ns == 500


def test_the_heaviest_path_leads_down(profile):
    assert [one.name for one in describe(profile, 0).heaviest] == ["mm", "inner"]


def test_arrows_of_the_file_are_links(profile):
    (link,) = describe(profile, 1).successors
    assert (link.how, link.event.name, link.event.depth) == ("flow", "other", 1)
    (back,) = describe(profile, 3).predecessors
    assert back.event.name == "mm"


def test_hits_are_given_from_a_place_or_a_time_on(profile):
    assert [one.name for one in search(profile, "e", 9).hits] == ["step", "inner", "other"]
    assert [one.name for one in search(profile, "e", 1, skip=2).hits] == ["other"]
    found = search(profile, "e", 9, start=150)
    assert (found.skip, found.total, found.hits[0].name) == (1, 3, "inner")
    assert search(profile, "e", 9, start=999).skip == 0


def test_a_send_belongs_to_its_receive_and_the_last_of_a_collective_lets_the_others_go(make):
    event = make.event
    rows = [
        event("send", Kind.SEND_RECV, 0, 10, rank=0), event("sum", Kind.COLLECTIVE, 50, 50, rank=0),
        event("recv", Kind.SEND_RECV, 5, 10, rank=1), event("sum", Kind.COLLECTIVE, 80, 20, rank=1),
    ]  # fmt: skip
    trace = make.build(rows)
    by_name = {(trace.name_of(row), int(trace.rank[row])): row for row in range(len(trace))}
    send, recv = by_name["send", 0], by_name["recv", 1]
    early, late = by_name["sum", 0], by_name["sum", 1]
    names = [trace.strings.find(name) for name in ("send", "recv", "sum")]
    collectives = table(
        Collectives, 4, row=[send, early, recv, late], operation=[names[0], names[2], names[1], names[2]],
        group=[0] * 4, sequence=[1, 2, 1, 2], peer=[1, -1, 0, -1],
    )  # fmt: skip
    both = OpenProfile("a", dataclasses.replace(trace, collectives=collectives))
    assert [one.event.row for one in describe(both, send).successors] == [recv]
    assert [one.event.row for one in describe(both, recv).predecessors] == [send]
    assert describe(both, send).predecessors == []
    assert [one.event.row for one in describe(both, late).successors] == [early]
    assert [one.event.row for one in describe(both, early).predecessors] == [late]


def test_a_thread_that_waits_within_its_frames_is_not_called_busy(make):
    event = make.event
    trace = make.build(
        [
            event("main", Kind.PYTHON_FRAME, 0, 1000),
            event("sleep", Kind.PYTHON_FRAME, 0, 700),
            event("mm", Kind.HOST_OP, 700, 200),
            event("relu", Kind.HOST_OP, 750, 50),
            event("_bootstrap", Kind.PYTHON_FRAME, 0, 1000, lane="other"),
        ]
    )
    profile = OpenProfile("a.json", trace)
    assert {lane.thread: lane.busy_ratio for lane in outline(profile).lanes} == {
        "main": pytest.approx(0.2),
        "other": None,
    }
    assert [lane.busy_ns for lane in within(profile, 0, 800, None).lanes] == [100, None]
