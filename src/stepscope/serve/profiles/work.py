"""Rates by shapes, critical paths and overlap of a profile, for the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from stepscope.analyze.critical_path import BOUNDS, CriticalPath, PathPart, critical_paths
from stepscope.analyze.overlap import Overlap, blocking, overlap_by_step
from stepscope.analyze.shapes import ShapeTable, shape_table
from stepscope.serve.encode import projected, projection
from stepscope.serve.profiles.open_profiles import OpenProfile, Steps, command
from stepscope.serve.reply import refusing
from stepscope.serve.routes import get
from stepscope.trace.model import Trace


@projected(ShapeTable)
class ShapesAnswer:
    """Answer of ``GET api/v1/profile/shapes?path=&steps=``: the work with most time first."""

    path: str
    command: str
    """The same in a terminal."""


class PathPiece(msgspec.Struct, frozen=True):
    """One stretch of a critical path."""

    start_ns: int
    duration_ns: int
    bound: str
    row: int | None
    """Name of the event that it belongs to."""
    name: str


@projected(CriticalPath, without=("step", "top"))
class StepPath:
    """The critical path of one step of one rank: what it waited for, without a gap."""

    number: int
    """-1: no steps were marked, and this is all that the rank recorded."""
    parts: tuple[PathPart, ...]
    """Most time first, at most 50."""
    pieces: list[PathPiece]
    """In order of time; only the longest if there are more than were requested."""
    pieces_total: int
    pieces_ns: int
    """Time of the pieces that are listed."""


class PathAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/path?path=&steps=&pieces=``."""

    path: str
    bounds: list[str]
    """Every word that ``bound`` may be."""
    steps: list[StepPath]
    command: str
    """The text that a terminal prints."""


@projected(Overlap, without=("end_ns",))
class DeviceOverlap:
    """How one device spent one step; compute, exposed communication, exposed copy and idle fill it."""

    window_ns: int
    exposed_communication_ns: int
    """Nothing was computed meanwhile."""
    exposed_copy_ns: int
    """Nothing was computed or communicated meanwhile."""
    idle_ns: int
    overlap_ratio: float | None
    """Share of communication behind computation; None if there is none."""


class OverlapAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/overlap?path=&steps=``: what hides behind what."""

    path: str
    rows: list[DeviceOverlap]


MOST_PARTS = 50
MOST_PIECES = 100_000

Found = TypeVar("Found")


def _asked(profile: OpenProfile, steps: str, name: str, ask: Callable[[Trace], Found]) -> Found:
    """Return the result of an analysis of the chosen steps.

    Raises:
        Refusal: No such steps, or its input was not recorded.
    """
    with refusing():
        trace = profile.chosen(steps)
        return profile.once((name, steps), lambda: ask(trace))


@get("profile/shapes")
def shapes(profile: OpenProfile, steps: Steps = "") -> ShapesAnswer:
    """Return products, convolutions and attention by shapes, with the roof of the device.

    Raises:
        Refusal: No such steps, or no work whose operations can be counted.
    """
    table = _asked(profile, steps, "shapes", shape_table)
    same = command("profile", "shapes", profile.path, steps=steps)
    return projection(ShapesAnswer, table, path=profile.path, command=same)


@get("profile/path")
def critical(
    profile: OpenProfile,
    steps: Steps = "",
    pieces: Annotated[int, Meta(ge=0, le=MOST_PIECES, description="largest number of segments")] = 2000,
) -> PathAnswer:
    """Return the critical path of each step.

    Args:
        profile: The profile.
        steps: Those that count.
        pieces: How many stretches of each path are listed.

    Raises:
        Refusal: No such steps, or no operators of the host were recorded.
    """
    paths = _asked(profile, steps, "path", lambda trace: critical_paths(trace, top=MOST_PARTS))
    return PathAnswer(
        path=profile.path,
        bounds=list(BOUNDS),
        steps=[_step_path(profile.trace, one, pieces) for one in paths],
        command=command("glance", profile.path),
    )


def _step_path(trace: Trace, path: CriticalPath, most: int) -> StepPath:
    pieces = path.pieces
    longest = np.sort(np.argsort(-pieces.duration_ns, kind="stable")[:most])
    rows = pieces.row[longest].tolist()
    return projection(
        StepPath,
        path,
        number=path.step,
        parts=path.top,
        pieces=[
            PathPiece(start, duration, BOUNDS[bound], row if row >= 0 else None,
                      trace.name_of(row) if row >= 0 else "")
            for start, duration, bound, row in zip(
                pieces.start_ns[longest].tolist(), pieces.duration_ns[longest].tolist(),
                pieces.bound[longest].tolist(), rows, strict=True,
            )
        ],
        pieces_total=len(pieces.row),
        pieces_ns=int(pieces.duration_ns[longest].sum()),
    )  # fmt: skip


@get("profile/overlap")
def overlaps(profile: OpenProfile, steps: Steps = "") -> OverlapAnswer:
    """Return how each device spent each step.

    Raises:
        Refusal: No such steps, or no work of a device was recorded.
    """
    rows = _asked(profile, steps, "overlap", lambda trace: blocking(trace, overlap_by_step(trace)))
    return OverlapAnswer(profile.path, [projection(DeviceOverlap, row) for row in rows])
