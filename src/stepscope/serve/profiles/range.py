"""The work between two times: by name, and how busy each lane was."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from stepscope.serve.profiles.category import CATEGORIES
from stepscope.serve.profiles.open_profiles import Lanes, Number, OpenProfile
from stepscope.serve.profiles.types import RangeAnswer, RangeLane, RangeRow
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get
from stepscope.trace.model import Kind, Trace
from stepscope.trace.tables import Ints

MAX_RANGE_ROWS = 500


@get("range")
def within(
    profile: OpenProfile,
    start: Annotated[Number, Meta(description="first nanosecond")],
    end: Annotated[Number, Meta(description="last nanosecond")],
    lanes: Lanes = None,
) -> RangeAnswer:
    """Return the events within a range, by name, most time first; events are cut at its ends.

    Raises:
        Refusal: The range is empty.
    """
    trace = profile.trace
    if end <= start:
        raise Refusal(400, f"empty range: {start} to {end} ns", "drag from left to right")
    overlaps = (trace.start_ns < end) & (trace.end_ns > start)
    if lanes is not None:
        overlaps &= np.isin(trace.lane, lanes)
    rows = np.flatnonzero(overlaps)
    begins, ends = np.maximum(trace.start_ns[rows], start), np.minimum(trace.end_ns[rows], end)
    own = own_time(trace, rows, ends - begins)
    key = trace.name[rows].astype(np.int64) * len(CATEGORIES) + profile.category[rows]
    keys, group, calls = np.unique(key, return_inverse=True, return_counts=True)
    total = np.bincount(group, weights=ends - begins, minlength=len(keys))
    self_ns = np.bincount(group, weights=own, minlength=len(keys))
    order = np.argsort(-self_ns, kind="stable")[:MAX_RANGE_ROWS]
    return RangeAnswer(
        events=len(rows),
        names=len(keys),
        self_ns=int(self_ns.sum()),
        rows=[
            RangeRow(
                name=trace.strings[int(keys[at]) // len(CATEGORIES)],
                category=CATEGORIES[int(keys[at]) % len(CATEGORIES)],
                calls=int(calls[at]),
                total_ns=int(total[at]),
                self_ns=int(self_ns[at]),
            )
            for at in order.tolist()
        ],
        lanes=busy_lanes(trace, rows, begins, ends),
    )


def own_time(trace: Trace, rows: Ints, cut: Ints) -> npt.NDArray[np.float64]:
    """Return the time of events within a range less their children's time in it."""
    parent = trace.parent[rows]
    position = np.searchsorted(rows, parent)
    inside = (parent >= 0) & (position < len(rows))
    inside[inside] = rows[position[inside]] == parent[inside]
    covered = np.bincount(position[inside], weights=cut[inside], minlength=len(rows))
    own: npt.NDArray[np.float64] = np.maximum(cut - covered[: len(rows)], 0.0)
    return own


def busy_lanes(trace: Trace, rows: Ints, start: Ints, end: Ints) -> list[RangeLane]:
    """Return how long anything ran on each lane; overlapping time counts once.

    A frame of Python's stack lasts as long as its calls, which may only wait: a thread of which nothing
    else was recorded is neither busy nor idle.
    """
    lane = trace.lane[rows]
    is_frame, is_step = (trace.kind[rows] == kind for kind in (Kind.PYTHON_FRAME, Kind.STEP))
    counted = ~is_frame & ~is_step
    numbers, first, events = np.unique(lane, return_index=True, return_counts=True)
    lanes = []
    for number, at, count in zip(numbers.tolist(), first.tolist(), events.tolist(), strict=True):
        mine = slice(at, at + count)
        some = counted[mine]
        unknown = is_frame[mine].any() and not some.any()
        busy = None if unknown else covered_ns(start[mine][some], end[mine][some])
        lanes.append(RangeLane(number, count, busy))
    return lanes


def covered_ns(start: Ints, end: Ints) -> int:
    """Return the length of the union of intervals in the order of their starts."""
    if not len(start):
        return 0
    reach = np.maximum.accumulate(end)
    before = np.concatenate([start[:1], reach[:-1]])
    return int(np.maximum(end - np.maximum(start, before), 0).sum())
