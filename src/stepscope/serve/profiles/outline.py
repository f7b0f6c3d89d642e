"""The outline that a timeline needs before it can draw: lanes, steps, and tracks other than events."""

from __future__ import annotations

import numpy as np

from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.range import busy_lanes
from stepscope.serve.profiles.types import ProfileLane, ProfileOutline, StepWindow
from stepscope.serve.routes import get
from stepscope.trace.model import Kind, Trace


@get("outline")
def outline(profile: OpenProfile) -> ProfileOutline:
    """Return the outline of a profile: nothing of it has to be analysed first."""
    trace = profile.trace
    steps = trace.steps
    return ProfileOutline(
        path=profile.path,
        events=len(trace),
        ranks=list(trace.ranks),
        start_ns=profile.start_ns,
        end_ns=profile.end_ns,
        lanes=lanes(profile),
        steps=[
            StepWindow(rank, number, start, end - start)
            for rank, number, start, end in zip(
                steps.rank.tolist(), steps.number.tolist(), steps.start_ns.tolist(), steps.end_ns.tolist(),
                strict=True,
            )
        ],
        tracks=[track.facts for track in profile.tracks],
    )  # fmt: skip


def lanes(profile: OpenProfile) -> list[ProfileLane]:
    """Return the lanes in the order of their numbers."""
    trace, timeline = profile.trace, profile.timeline
    stepping = set(np.unique(trace.lane[trace.kind == Kind.STEP]).tolist())
    working = working_lanes(trace)
    bounds = np.searchsorted(trace.lane, np.arange(len(trace.lanes) + 1))
    busy = {
        one.lane: one.busy_ns
        for one in busy_lanes(trace, np.arange(len(trace)), trace.start_ns, trace.end_ns)
    }
    span = max(profile.end_ns - profile.start_ns, 1)
    return [
        ProfileLane(
            rank=lane.rank,
            process=lane.process,
            thread=lane.thread,
            device=lane.device,
            depth=timeline.depth(number),
            events=int(bounds[number + 1] - bounds[number]),
            busy_ratio=None if (ran := busy.get(number, 0)) is None else min(ran / span, 1.0),
            stepping=number in stepping,
            working=number in working,
        )
        for number, lane in enumerate(trace.lanes)
    ]


def working_lanes(trace: Trace) -> set[int]:
    """Return the lanes that take part in training; all of a rank's lanes if none is known to."""
    launchers = trace.launch[trace.launch >= 0]
    backward = np.flatnonzero(trace.forward >= 0)
    marked = np.flatnonzero((trace.kind == Kind.STEP) | (trace.kind == Kind.DATA_LOADING))
    lanes = set(np.unique(trace.lane[np.concatenate((launchers, backward, marked))]).tolist())
    known = {trace.lanes[number].rank for number in lanes}
    return lanes | {
        number for number, lane in enumerate(trace.lanes) if lane.device >= 0 or lane.rank not in known
    }
