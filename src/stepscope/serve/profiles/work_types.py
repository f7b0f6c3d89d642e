"""Types sent between the server and the Profile page: rates by shapes, critical paths, overlap.

``None`` means not recorded. Times are nanoseconds since the profile's own zero.
"""

from __future__ import annotations

import msgspec

from stepscope.analyze.critical_path import CriticalPath, PathPart
from stepscope.analyze.overlap import Overlap
from stepscope.analyze.peaks import PeakRates
from stepscope.analyze.roofline import StepRoof
from stepscope.analyze.shapes import ShapeRow
from stepscope.serve.encode import projected


class ShapesAnswer(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/profile/shapes?path=&steps=``: the work with most time first."""

    path: str
    rows: tuple[ShapeRow, ...]
    steps: tuple[StepRoof, ...]
    peak: PeakRates | None
    """None: the device's data sheet is not known; its rates then have no roof."""
    utilisation_ratio: float | None
    """Value over all steps together."""
    counted_ratio: float | None
    """Share of the device's time that this work has; the rest has no operations that are counted."""
    notes: list[str]
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
