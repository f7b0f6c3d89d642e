"""Every event of a window, as CSV made piece by piece: events that the timeline merges are separate here."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from stepscope.serve.points import PIECE
from stepscope.serve.profiles.category import CATEGORIES
from stepscope.serve.profiles.open_profiles import End, Lanes, OpenProfile, Start
from stepscope.serve.reply import File, Refusal
from stepscope.serve.routes import get
from stepscope.text import cell_text

HEAD = "row,rank,process,thread,depth,category,name,start_ns,duration_ns\r\n"


@get("chrome", media=("application/gzip",))
def chrome(profile: OpenProfile) -> File:
    """Return a profile as Chrome JSON, gzipped, as Perfetto reads it."""
    from stepscope.export.timeline import gzipped_timeline  # needs polars

    return File(gzipped_timeline(profile.trace), "application/gzip", "trace.json.gz")


@get("profile/events", media=("text/csv",))
def events_csv(profile: OpenProfile, start: Start = None, end: End = None, lanes: Lanes = None) -> File:
    """Return the events that overlap a window, whole, lane by lane in time order, as CSV.

    Raises:
        Refusal: The window is empty.
    """
    trace, (start_ns, end_ns) = profile.trace, profile.window(start, end)
    if end_ns <= start_ns:
        raise Refusal(400, f"empty window: {start_ns} to {end_ns} ns", "ask for what is in view")
    overlaps = (trace.start_ns < end_ns) & (trace.end_ns >= start_ns)
    if lanes is not None:
        overlaps &= np.isin(trace.lane, lanes)
    rows = np.flatnonzero(overlaps)
    order = np.lexsort((trace.depth[rows], trace.start_ns[rows], trace.lane[rows]))
    return File(_pieces(profile, rows[order]), "text/csv", "events.csv")


def _pieces(profile: OpenProfile, rows: npt.NDArray[np.intp]) -> Iterator[bytes]:
    trace = profile.trace
    yield HEAD.encode()
    for first in range(0, len(rows), PIECE):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\r\n")
        for row in rows[first : first + PIECE].tolist():
            lane = trace.lanes[trace.lane[row]]
            where = (lane.rank, cell_text(lane.process), cell_text(lane.thread), int(trace.depth[row]))
            what = (CATEGORIES[profile.category[row]], cell_text(trace.name_of(row)))
            writer.writerow((row, *where, *what, int(trace.start_ns[row]), int(trace.duration_ns[row])))
        yield text.getvalue().encode()
