"""The breakdown of each step's time; the parts exclude each other and add up to the step exactly.

These are sums of :mod:`~stepscope.attribute.step_tree`, which gives every instant of a step to one event:
to computation by phase (``backward``, ``forward``, ``optimizer``, else ``other``), to ``communication``,
``copy`` or ``data_loading``, in this order, and to ``idle`` if nothing of all these went on.

If a rank has a device, work is the device's (any device of the rank), so ``data_loading`` is the device's
wait for data, ``communication`` and ``copy`` are the parts that no computation hides, and ``idle`` is an idle
device. On a host without a device they are operators, and ``idle`` is time without an operator.

A part that the profile does not tell is ``None``, never 0; its time is then in ``idle`` or ``other``. If
neither a device's work nor an operator was recorded, idleness is not known either and its time is in
``other``; if no part at all was recorded, ``other`` is not known, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

import numpy as np

from stepscope.attribute.attribution import attribution
from stepscope.attribute.device import COMMUNICATION, COPY
from stepscope.attribute.purpose import Purpose
from stepscope.attribute.spans import Ints
from stepscope.attribute.step_tree import PARTS, StepTree, loading_rows, step_tree
from stepscope.attribute.windows import Windows, ranks
from stepscope.trace.distinct import distinct
from stepscope.trace.model import DEVICE_WORK, Kind, Trace, among

_MODEL = {"forward": Purpose.FORWARD, "backward": Purpose.BACKWARD, "optimizer": Purpose.OPTIMIZER}


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """One step of one rank; its parts that are not None add up to ``wall_ns``."""

    rank: int
    number: int
    """Number of the step, -1 if no steps were recorded and this is all of the profile."""
    start_ns: int
    wall_ns: int
    parts_ns: dict[str, int | None]
    after_ns: int | None = None
    """Time between its end and the next step of its rank, which belongs to neither; None after the last."""


@dataclass(frozen=True, slots=True)
class Breakdown:
    """All steps of all ranks."""

    steps: tuple[StepBreakdown, ...]
    missing: dict[str, str]
    """Parts that were not recorded, by the reason; of at least one rank."""
    notes: tuple[str, ...]

    def total_ns(self, part: str) -> int | None:
        """Return a part's time in all steps, None if it was not recorded in any."""
        values = self._values(part)
        return sum(values) if values else None

    def mean_ns(self, part: str) -> float | None:
        """Return a part's mean time per step, None if it was not recorded in any."""
        values = self._values(part)
        return fmean(values) if values else None

    def ratio(self, part: str) -> float | None:
        """Return a part's share of all steps that recorded it."""
        wall = sum(step.wall_ns for step in self.steps if step.parts_ns[part] is not None)
        return sum(self._values(part)) / wall if wall else None

    def _values(self, part: str) -> list[int]:
        return [value for step in self.steps if (value := step.parts_ns[part]) is not None]


def breakdown(trace: Trace) -> Breakdown:
    """Return the parts of each step's time, for every rank."""
    return breakdown_of(trace, step_tree(trace))


def breakdown_of(trace: Trace, tree: StepTree) -> Breakdown:
    """Return the parts of steps whose stretches are known already."""
    every, parts = tree.windows, tree.parts_ns()
    absent = {}
    for rank in ranks(trace):
        absent[rank] = _absent(trace, np.flatnonzero((trace.rank == rank) & (trace.kind != Kind.OVERHEAD)))
    steps = []
    for n, wall in enumerate(tree.wall_ns.tolist()):
        rank, known = int(every.rank[n]), dict(zip(PARTS, parts[n].tolist(), strict=True))
        known_parts = {part: None if part in absent[rank] else value for part, value in known.items()}
        number, start = int(every.number[n]), int(every.start_ns[n])
        steps.append(StepBreakdown(rank, number, start, wall, known_parts, after_ns=_after(every, n)))
    missing = {part: reason for reasons in absent.values() for part, reason in reasons.items()}
    notes = list(attribution(trace).notes)
    if not every.marked:
        notes.append("no steps were recorded: each rank's profile counts as one")
    return Breakdown(tuple(steps), missing, tuple(notes))


def _after(every: Windows, n: int) -> int | None:
    if n + 1 >= len(every) or every.rank[n + 1] != every.rank[n]:
        return None
    if every.number[n + 1] != every.number[n] + 1:  # steps that were not recorded lie between
        return None
    return max(0, int(every.start_ns[n + 1] - every.end_ns[n]))


def _absent(trace: Trace, rows: Ints) -> dict[str, str]:
    """Return the parts that one rank's rows cannot show, with the reason."""
    kinds = set(distinct(trace.kind[rows]).tolist())
    seen = set(distinct(attribution(trace).purpose[rows]).tolist())
    absent = {}
    for part, needed in _MODEL.items():
        if needed not in seen:
            absent[part] = f"nothing in the profile shows the {part}"
    if not len(loading_rows(trace, rows)):
        absent["data_loading"] = "no event of data loading was recorded"
    if not ((trace.device[rows] >= 0) & among(*DEVICE_WORK)[trace.kind[rows]]).any():
        # A device's list of work is complete, so that a kind which is not in it did not run. A host's is not.
        if not kinds.intersection(COMMUNICATION):
            absent["communication"] = "no communication was recorded on the host"
        if not kinds.intersection(COPY):
            absent["copy"] = "no copies were recorded on the host"
        if Kind.HOST_OP not in kinds:
            absent["idle"] = "neither a device's work nor operators were recorded"
    if len(absent) == len(PARTS) - 1:  # other is then no remainder but everything
        absent["other"] = "nothing in the profile says which part of a step any event belongs to"
    return absent
