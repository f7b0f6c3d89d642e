"""Every event of a window, as CSV made piece by piece: what the timeline merges is told apart here."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from stepscope.export.spreadsheet import guarded
from stepscope.serve.points import PIECE
from stepscope.serve.profiles.category import CATEGORIES
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.reply import Refusal

HEAD = "row,rank,process,thread,depth,category,name,start_ns,duration_ns\r\n"


def events_csv(
    profile: OpenProfile, start_ns: int, end_ns: int, lanes: Sequence[int] | None
) -> Iterator[bytes]:
    """Return the events that overlap a window, whole, lane by lane in time order.

    Args:
        profile: The profile.
        start_ns: Begin of the window, since the profile's own zero.
        end_ns: Its end.
        lanes: Those that count; None for all.

    Raises:
        Refusal: The window is empty.
    """
    trace = profile.trace
    if end_ns <= start_ns:
        raise Refusal(400, f"empty window: {start_ns} to {end_ns} ns", "ask for what is in view")
    overlaps = (trace.start_ns < end_ns) & (trace.end_ns >= start_ns)
    if lanes is not None:
        overlaps &= np.isin(trace.lane, lanes)
    rows = np.flatnonzero(overlaps)
    order = np.lexsort((trace.depth[rows], trace.start_ns[rows], trace.lane[rows]))
    return _pieces(profile, rows[order])


def _pieces(profile: OpenProfile, rows: npt.NDArray[np.intp]) -> Iterator[bytes]:
    trace = profile.trace
    yield HEAD.encode()
    for first in range(0, len(rows), PIECE):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        for row in rows[first : first + PIECE].tolist():
            lane = trace.lanes[trace.lane[row]]
            where = (lane.rank, guarded(lane.process), guarded(lane.thread), int(trace.depth[row]))
            what = (CATEGORIES[profile.category[row]], guarded(trace.name_of(row)))
            writer.writerow((row, *where, *what, int(trace.start_ns[row]), int(trace.duration_ns[row])))
        yield text.getvalue().encode()
