"""Answers to ``GET profile/waits`` and ``GET profile/gaps``: the waits that the timeline draws."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from stepscope.analyze.idle import Gap, idle
from stepscope.analyze.ranks.together import CLOCK_NOTES, WAITS_FOR
from stepscope.errors import EmptyTraceError
from stepscope.serve.profiles.open_profiles import End, OpenProfile, Start
from stepscope.serve.routes import get
from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints


class RankWait(msgspec.Struct, frozen=True):
    """A rank in a collective until the last rank came."""

    row: int
    rank: int
    lane: int
    depth: int
    start_ns: int
    end_ns: int
    """When the last rank came; not after the end of its own part."""
    last_row: int
    """The same collective on the rank that is waited for."""
    last_rank: int
    last_lane: int
    last_depth: int
    last_start_ns: int


class WaitsAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/waits?path=&start=&end=&most=300``: who waits for whom in a window."""

    path: str
    waits: list[RankWait]
    """The longest, in order of time."""
    total: int
    total_ns: int
    """Number of all in the window."""
    clocks: str
    """How the ranks' times were put on one clock, or why not; empty for a single rank."""


class GapsAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/gaps?path=&start=&end=&most=100``: when devices did nothing, and why."""

    path: str
    gaps: list[Gap]
    """The longest, in order of time."""
    total: int
    """Gaps in the window, of the 2,000 longest of each device."""


MAX_ROWS = 5_000
GAPS = 2_000
"""Gaps of each device that are kept, the longest."""


@get("profile/waits")
def waits(
    profile: OpenProfile,
    start: Start = None,
    end: End = None,
    most: Annotated[int, Meta(ge=0, le=MAX_ROWS, description="largest number of waits, longest first")] = 300,
) -> WaitsAnswer:
    """Return the longest waits that overlap a window.

    Only waits longer than the error of the clocks are returned.
    """
    trace, (start_ns, end_ns) = profile.trace, profile.window(start, end)
    source, target = profile.once(("waits",), lambda: _arrows(trace))
    begin = trace.start_ns[source]
    until = np.minimum(trace.start_ns[target], trace.end_ns[source])
    inside = np.flatnonzero((until > start_ns) & (begin < end_ns) & (until > begin))
    length = (until - begin)[inside]
    longest = inside[np.sort(np.argsort(-length, kind="stable")[:most])]
    longest = longest[np.argsort(begin[longest], kind="stable")]
    answer = [_wait(trace, int(source[at]), int(target[at]), int(until[at])) for at in longest.tolist()]
    clocks = next((note for note in trace.notes if note.startswith(CLOCK_NOTES)), "")
    return WaitsAnswer(profile.path, answer, len(inside), int(length.sum()), clocks)


def _arrows(trace: Trace) -> tuple[Ints, Ints]:
    """Return the rows that wait and the rows that they wait for."""
    texts = trace.strings.texts()
    named = [number for number, text in enumerate(texts) if text == WAITS_FOR]
    mine = np.isin(trace.flows.name, named)
    return trace.flows.source[mine], trace.flows.target[mine]


def _wait(trace: Trace, row: int, last: int, end: int) -> RankWait:
    return RankWait(
        row=row,
        rank=int(trace.rank[row]),
        lane=int(trace.lane[row]),
        depth=int(trace.depth[row]),
        start_ns=int(trace.start_ns[row]),
        end_ns=end,
        last_row=last,
        last_rank=int(trace.rank[last]),
        last_lane=int(trace.lane[last]),
        last_depth=int(trace.depth[last]),
        last_start_ns=int(trace.start_ns[last]),
    )


@get("profile/gaps")
def gaps(
    profile: OpenProfile,
    start: Start = None,
    end: End = None,
    most: Annotated[int, Meta(ge=0, le=MAX_ROWS, description="largest number of gaps, longest first")] = 100,
) -> GapsAnswer:
    """Return the longest gaps of each device in a window; none if no device was recorded."""
    start_ns, end_ns = profile.window(start, end)
    every = profile.once(("gaps",), lambda: _gaps(profile.trace))
    inside = [gap for gap in every if gap.start_ns < end_ns and gap.start_ns + gap.duration_ns > start_ns]
    longest = sorted(inside, key=lambda gap: -gap.duration_ns)[:most]
    longest.sort(key=lambda gap: gap.start_ns)
    return GapsAnswer(profile.path, longest, len(inside))


def _gaps(trace: Trace) -> list[Gap]:
    try:
        return [gap for device in idle(trace, longest=GAPS).devices for gap in device.gaps]
    except EmptyTraceError:
        return []
