"""Drawing and searching the timeline."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stepscope.serve.frame import FrameArrays, pack
from stepscope.serve.profiles.open_profiles import End, Lanes, Number, OpenProfile, Pixels, Start
from stepscope.serve.profiles.types import Related, SearchAnswer, TimelineHeader
from stepscope.serve.reply import refusing
from stepscope.serve.routes import get

MAX_HITS = 10_000


@get("timeline", frame=TimelineHeader)
def timeline(
    profile: OpenProfile, start: Start = None, end: End = None, pixels: Pixels = 1000, lanes: Lanes = None
) -> bytes:
    """Return the rectangles of a window as a frame.

    Raises:
        Refusal: The window is empty, or a lane is not there.
    """
    start_ns, end_ns = profile.window(start, end)
    with refusing():
        drawn = profile.timeline.query(start_ns, end_ns, pixels=pixels, lanes=lanes)
    trace = profile.trace
    numbers, name = np.unique(trace.name[drawn.row], return_inverse=True)
    arrays = FrameArrays()
    columns: dict[str, NDArray[Any]] = {
        "lane": drawn.lane.astype(np.int32),
        "depth": drawn.depth.astype(np.int32),
        "row": drawn.row.astype(np.int32),
        "start": drawn.start_ns.astype(np.float64),
        "end": drawn.end_ns.astype(np.float64),
        "count": drawn.count.astype(np.uint32),
        "name": name.astype(np.uint32),
        "category": profile.category[drawn.row].astype(np.uint32),
    }
    header = TimelineHeader(
        path=profile.path,
        start_ns=start_ns,
        end_ns=end_ns,
        events=int(drawn.count.sum()),
        names=[trace.strings[int(number)] for number in numbers],
        columns={key: arrays.add(column) for key, column in columns.items()},
    )
    return pack(header, arrays)


@get("search")
def search(
    profile: OpenProfile,
    q: Annotated[str, Meta(description="text that the name contains, ignoring case")] = "",
    limit: Annotated[int, Meta(ge=0, description="largest number of events")] = 2_000,
    skip: Annotated[int, Meta(ge=0, description="number of events to skip")] = 0,
    start: Annotated[Number | None, Meta(description="the nanosecond to begin at")] = None,
) -> SearchAnswer:
    """Return the places of events whose names hold a text, in any case.

    Args:
        profile: The profile.
        q: Part of the names, in any case.
        limit: How many of them to return.
        skip: From which one on.
        start: Instead from the first one on that begins at this time or later.
    """
    trace, wanted = profile.trace, q.casefold()
    named = np.array([wanted in name.casefold() for name in trace.strings.texts()], bool)
    if not wanted or not named.any():
        return SearchAnswer(0, 0, 0, 0, [])
    rows = np.flatnonzero(named[trace.name])
    rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
    if start is not None:
        skip = int(np.searchsorted(trace.start_ns[rows], start))
        skip = 0 if skip == len(rows) else skip
    limit = min(limit, MAX_HITS)
    return SearchAnswer(
        total=len(rows),
        total_ns=int(trace.duration_ns[rows].sum()),
        names=len(np.unique(trace.name[rows])),
        skip=skip,
        hits=[related(profile, row) for row in rows[skip : skip + limit].tolist()],
    )


def related(profile: OpenProfile, row: int) -> Related:
    """Return an event as something to go to."""
    trace = profile.trace
    return Related(
        row=row,
        name=trace.name_of(row),
        lane=int(trace.lane[row]),
        depth=int(trace.depth[row]),
        start_ns=int(trace.start_ns[row]),
        duration_ns=int(trace.duration_ns[row]),
    )
