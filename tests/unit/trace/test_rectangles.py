"""What a viewer draws: nothing vanishes, nothing is drawn twice, wide events are themselves."""

import json

import numpy as np
import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.trace.rectangles import Timeline


@pytest.fixture
def timeline(tmp_path):
    random = np.random.default_rng(3)
    start, events = 0, []
    for number in range(3000):
        length = int(random.choice([1, 2, 5, 400]))
        events.append((f"e{number}", 1, start, length))
        if length == 400:
            events += [("child", 1, start + 10, 5), ("child", 1, start + 15, 300)]
        start += length + int(random.choice([0, 1, 50]))
    events += [("other", 2, 7, 3), ("overlap", 3, 0, 100), ("overlap", 3, 50, 100), ("overlap", 3, 60, 200)]
    document = [
        {"ph": "X", "name": n, "pid": 1, "tid": tid, "ts": ts, "dur": dur} for n, tid, ts, dur in events
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(document))
    return Timeline(ss.load_trace(path, cache=False))


@pytest.mark.parametrize("pixels", [1, 10, 500, 10_000_000])
@pytest.mark.parametrize("window", [(0.0, 1.0), (0.3, 0.31), (0.5, 0.9)])
def test_every_event_of_the_window_is_drawn_once(timeline, pixels, window):
    trace = timeline.trace
    end = int(trace.end_ns.max())
    start, stop = int(end * window[0]), int(end * window[1])
    found = timeline.query(start, stop, pixels=pixels)
    inside = np.flatnonzero((trace.start_ns < stop) & (trace.end_ns > start))
    assert found.count.sum() == len(inside)
    pixel = max(1, (stop - start) // pixels)
    wide = inside[trace.duration_ns[inside] >= pixel]
    alone = found.count == 1
    assert set(wide.tolist()) <= set(found.row[alone].tolist())
    assert np.array_equal(found.start_ns[alone], trace.start_ns[found.row[alone]])
    assert np.array_equal(found.end_ns[alone], trace.end_ns[found.row[alone]])
    assert found.busy_ns.sum() == trace.duration_ns[inside].sum()
    assert (trace.lane[found.row] == found.lane).all()


def test_merged_rectangles_are_named_after_their_longest_event(timeline):
    trace = timeline.trace
    found = timeline.query(0, int(trace.end_ns.max()), pixels=50, lanes=[0, 1])
    for number in np.flatnonzero(found.count > 1)[:200].tolist():
        same = (trace.lane == found.lane[number]) & (trace.depth == found.depth[number])
        merged = same & (trace.start_ns >= found.start_ns[number]) & (trace.end_ns <= found.end_ns[number])
        assert (
            trace.duration_ns[found.row[number]] >= np.sort(trace.duration_ns[merged])[-1]
            or merged.sum() > found.count[number]
        )
        assert found.busy_ns[number] <= found.end_ns[number] - found.start_ns[number]


def test_lanes_and_depths_can_be_chosen(timeline):
    end = int(timeline.trace.end_ns.max())
    assert set(timeline.query(0, end, pixels=100, lanes=[1]).lane.tolist()) == {1}
    assert set(timeline.query(0, end, pixels=100, lanes=[0], deepest=0).depth.tolist()) == {0}
    assert timeline.depth(0) == 2
    assert len(timeline.query(0, end, pixels=100, lanes=[])) == 0


def test_overlapping_siblings_are_all_drawn(timeline):
    found = timeline.query(0, 300_000, pixels=10_000, lanes=[2])
    assert found.count.tolist() == [1, 1, 1]
    assert found.start_ns.tolist() == [0, 50_000, 60_000]
    assert timeline.query(200_000, 300_000, pixels=10, lanes=[2]).start_ns.tolist() == [60_000]


def test_bad_questions(timeline):
    with pytest.raises(UsageError, match="nothing to draw"):
        timeline.query(5, 5, pixels=10)
    with pytest.raises(UsageError, match="nothing to draw"):
        timeline.query(0, 5, pixels=0)
    with pytest.raises(UsageError, match="no lane 9: the trace has 3"):
        timeline.query(0, 5, pixels=5, lanes=[9])
