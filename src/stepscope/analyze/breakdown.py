"""Where the time of each step goes; the parts exclude each other and add up to the step exactly.

Every instant of a step's window on the host goes to the first of these that covers it:

1. computation, by the phase it belongs to: ``backward``, ``forward``, ``optimizer``, else ``other``
2. ``communication``
3. ``copy``: copies and memsets
4. ``data_loading`` on the thread that runs the steps; where that thread loads nothing, on any
5. ``idle``: nothing of all these

Where a rank has a device, 1 to 3 are the device's work (any device of the rank), so ``data_loading`` is what
the device waited for, ``communication`` and ``copy`` are what no computation hides, and ``idle`` is an idle
device. On a host without a device they are operators, and ``idle`` is time without an operator.

The scheme is the priority sweep of PyTorch's former TensorBoard plugin and of XProf, with computation first.
A part that the profile does not tell is ``None``, never 0; its time is then in ``idle`` or ``other``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from stepscope.analyze.device import COMMUNICATION, COPY, rows_spans
from stepscope.analyze.phases import Phase, Phases, phases
from stepscope.analyze.spans import Ints, Spans, sweep
from stepscope.analyze.windows import Windows, ranks, windows
from stepscope.trace.model import DEVICE_WORK, Kind, Trace

PARTS = ("data_loading", "forward", "backward", "optimizer", "other", "communication", "copy", "idle")
"""Names of the parts, in the order of a step."""

_PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER}
_LAYERS = ("backward", "forward", "optimizer", "other", "communication", "copy", "data_loading")


@dataclass(frozen=True, slots=True)
class StepBreakdown:
    """One step of one rank; its parts that are not None add up to ``wall_ns``."""

    rank: int
    step: int
    """Number of the step, -1 where no steps were recorded and this is all of the profile."""
    start_ns: int
    wall_ns: int
    parts_ns: dict[str, int | None]

    def ratio(self, part: str) -> float | None:
        """Return a part's share of the step, None where it was not recorded."""
        value = self.parts_ns[part]
        return None if value is None or not self.wall_ns else value / self.wall_ns


@dataclass(frozen=True, slots=True)
class Breakdown:
    """All steps of all ranks."""

    steps: tuple[StepBreakdown, ...]
    missing: dict[str, str]
    """Parts that were not recorded, by the reason; of at least one rank."""
    notes: tuple[str, ...]

    def total_ns(self, part: str, *, rank: int | None = None) -> int | None:
        """Return a part's time in all steps, None where it was not recorded in any."""
        values = self._values(part, rank)
        return sum(values) if values else None

    def median_ns(self, part: str, *, rank: int | None = None) -> float | None:
        """Return a part's time in the median step, None where it was not recorded in any."""
        values = self._values(part, rank)
        return median(values) if values else None

    def ratio(self, part: str, *, rank: int | None = None) -> float | None:
        """Return a part's share of all steps that recorded it."""
        mine = [step for step in self._steps(rank) if step.parts_ns[part] is not None]
        wall = sum(step.wall_ns for step in mine)
        return sum(step.parts_ns[part] or 0 for step in mine) / wall if wall else None

    def _steps(self, rank: int | None) -> list[StepBreakdown]:
        return [step for step in self.steps if rank is None or step.rank == rank]

    def _values(self, part: str, rank: int | None) -> list[int]:
        found = [step.parts_ns[part] for step in self._steps(rank)]
        return [value for value in found if value is not None]


def breakdown(trace: Trace) -> Breakdown:
    """Return where the time of each step went, for every rank."""
    every, phase = windows(trace), phases(trace)
    steps: list[StepBreakdown] = []
    missing: dict[str, str] = {}
    for rank in ranks(trace):
        rows = np.flatnonzero((trace.rank == rank) & (trace.kind != Kind.OVERHEAD))
        absent = _absent(trace, rows, phase)
        missing.update(absent)
        steps += _rank_steps(_layers(trace, rows, phase), every.of_rank(rank), absent)
    notes = list(phase.notes)
    if (every.number < 0).any():
        notes.append("no steps were recorded: each rank's profile counts as one")
    return Breakdown(tuple(steps), missing, tuple(notes))


def loading_spans(trace: Trace, rows: Ints) -> Spans:
    """Return when data was loaded on the threads that run steps, else on any thread."""
    loading = rows[trace.kind[rows] == Kind.DATA_LOADING]
    stepping = np.unique(trace.lane[rows[trace.kind[rows] == Kind.STEP]])
    on_step = loading[np.isin(trace.lane[loading], stepping)]
    return rows_spans(trace, on_step if len(on_step) else loading)


def _on_device(trace: Trace, rows: Ints) -> Ints:
    return rows[(trace.device[rows] >= 0) & np.isin(trace.kind[rows], DEVICE_WORK)]


def _layers(trace: Trace, rows: Ints, phase: Phases) -> list[Spans]:
    """Return when each of the layers was active on one rank, highest priority first."""
    device = _on_device(trace, rows)
    if len(device):
        work = device[trace.kind[device] == Kind.KERNEL]
    else:
        work = rows[(trace.kind[rows] == Kind.HOST_OP) & (phase.phase[rows] != Phase.DATA_LOADING)]
    of_work = phase.phase[work]
    known = [rows_spans(trace, work[of_work == p]) for p in (Phase.BACKWARD, Phase.FORWARD, Phase.OPTIMIZER)]
    # Loading done on a device (decoding, augmentation) is computation of no phase.
    other = rows_spans(trace, work[(of_work < 0) | (of_work == Phase.DATA_LOADING)])
    communication = rows[np.isin(trace.kind[rows], COMMUNICATION)]
    copy = rows[np.isin(trace.kind[rows], COPY)]
    return [
        *known,
        other,
        rows_spans(trace, communication),
        rows_spans(trace, copy),
        loading_spans(trace, rows),
    ]


def _absent(trace: Trace, rows: Ints, phase: Phases) -> dict[str, str]:
    """Return the parts that one rank's rows cannot tell, with the reason."""
    kinds = set(np.unique(trace.kind[rows]).tolist())
    seen = set(np.unique(phase.phase[rows]).tolist())
    absent = {}
    for part, needed in _PHASES.items():
        if needed not in seen:
            absent[part] = f"nothing in the profile shows the {part}"
    if Kind.DATA_LOADING not in kinds:
        absent["data_loading"] = "no event of data loading was recorded"
    if not len(_on_device(trace, rows)):
        # A device's list of work is complete, so that a kind which is not in it did not run. A host's is not.
        if not kinds.intersection(COMMUNICATION):
            absent["communication"] = "no communication was recorded on the host"
        if not kinds.intersection(COPY):
            absent["copy"] = "no copies were recorded on the host"
    return absent


def _rank_steps(layers: Sequence[Spans], steps: Windows, absent: dict[str, str]) -> list[StepBreakdown]:
    shares = sweep(layers).within(steps.start_ns, steps.end_ns, len(layers))
    found = []
    for n in range(len(steps)):
        wall = int(steps.end_ns[n] - steps.start_ns[n])
        values: dict[str, int] = dict(zip(_LAYERS, shares[n].tolist(), strict=True))
        values["idle"] = wall - sum(values.values())
        parts = {part: None if part in absent else values[part] for part in PARTS}
        found.append(
            StepBreakdown(int(steps.rank[n]), int(steps.number[n]), int(steps.start_ns[n]), wall, parts)
        )
    return found
