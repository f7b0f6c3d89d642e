"""Input: whether training waits for its data.

- loading: time in which the thread that runs the steps loads data (``DataLoader.__next__``,
  ``IteratorGetNext``)
- waiting: loading during which no device of the rank works. Loading behind a busy device costs nothing.
- copy: host-to-device copies that no computation hides
- input ratio = (waiting + copy) / step if a device was recorded, else loading / step

The levels are those of XProf's input pipeline analysis: 5 % moderately, 20 % highly input-bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import numpy as np

from stepscope.analyze.breakdown import loading_spans
from stepscope.attribute.device import COMMUNICATION, COMPUTE, COPY, kind_spans, rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.spans import Ints, Spans
from stepscope.attribute.step_tree import loading_rows
from stepscope.attribute.table import TO_DEVICE
from stepscope.attribute.windows import Windows, ranks, windows
from stepscope.trace.model import DEVICE_WORK, Kind, Trace, among

MODERATE_RATIO = 0.05
HIGH_RATIO = 0.20


@dataclass(frozen=True, slots=True)
class StepInput:
    """One step of one rank; None if no device was recorded."""

    step: int
    wall_ns: int
    loading_ns: int
    waiting_ns: int | None
    copy_ns: int | None


@dataclass(frozen=True, slots=True)
class RankInput:
    """All steps of one rank."""

    rank: int
    steps: tuple[StepInput, ...]
    loading_ratio: float
    """Share of the steps spent loading, hidden or not."""
    waiting_ratio: float | None
    copy_ratio: float | None
    ratio: float
    """The input ratio, by which ``level`` is chosen."""
    level: str
    """``none``, ``moderate`` or ``high``."""
    slowest_ratio: float
    """Loading's share in the step in which it is largest."""
    median_loading_ns: float
    loaders: tuple[str, ...]
    """Names of the events of loading, most time first."""


@dataclass(frozen=True, slots=True)
class Input:
    """All ranks whose loading was recorded."""

    ranks: tuple[RankInput, ...]
    missing: str
    """Why some or all ranks cannot be judged, ``""`` if all can."""


def input_waits(trace: Trace) -> Input:
    """Measure loading against the steps; ranks without any loading event are not judged."""
    every, measured, unknown = windows(trace), [], []
    for rank in ranks(trace):
        if len(loading_rows(trace, np.flatnonzero(trace.rank == rank))):
            measured.append(_rank(trace, rank, every.of_rank(rank)))
        else:
            unknown.append(rank)
    missing = f"no event of data loading was recorded on rank {_short(unknown)}" if unknown else ""
    return Input(tuple(measured), missing)


def _short(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else "")


def _rank(trace: Trace, rank: int, steps: Windows) -> RankInput:
    rows = np.flatnonzero(trace.rank == rank)
    loading = loading_spans(trace, rows)
    device = rows[(trace.device[rows] >= 0) & among(*DEVICE_WORK)[trace.kind[rows]]]
    wall = steps.end_ns - steps.start_ns
    loaded = loading.within(steps.start_ns, steps.end_ns)
    waited = copied = None
    if len(device):
        busy = kind_spans(trace, device, *COMPUTE, *COMMUNICATION, *COPY)
        waited = loading.minus(busy).within(steps.start_ns, steps.end_ns)
        copied = _copies(trace, device).within(steps.start_ns, steps.end_ns)
    total = max(1, int(wall.sum()))
    ratios = [float(part.sum() / total) if part is not None else None for part in (loaded, waited, copied)]
    ratio = (ratios[1] or 0.0) + (ratios[2] or 0.0) if waited is not None else float(loaded.sum() / total)
    measured = tuple(
        StepInput(
            int(steps.number[n]),
            int(wall[n]),
            int(loaded[n]),
            None if waited is None else int(waited[n]),
            None if copied is None else int(copied[n]),
        )
        for n in range(len(steps))
    )
    return RankInput(
        rank=rank,
        steps=measured,
        loading_ratio=ratios[0] or 0.0,
        waiting_ratio=ratios[1],
        copy_ratio=ratios[2],
        ratio=ratio,
        level="high" if ratio >= HIGH_RATIO else "moderate" if ratio >= MODERATE_RATIO else "none",
        slowest_ratio=max((s.loading_ns / s.wall_ns for s in measured if s.wall_ns), default=0.0),
        median_loading_ns=float(median(s.loading_ns for s in measured)),
        loaders=_loaders(trace, rank),
    )


def _copies(trace: Trace, device: Ints) -> Spans:
    """Return host-to-device copies that no computation hides."""
    copies = device[(trace.kind[device] == Kind.MEMCPY) & named(trace, TO_DEVICE)[trace.name[device]]]
    return rows_spans(trace, copies).minus(kind_spans(trace, device, *COMPUTE))


def _loaders(trace: Trace, rank: int) -> tuple[str, ...]:
    rows = loading_rows(trace, np.flatnonzero(trace.rank == rank))
    time = np.bincount(trace.name[rows], weights=trace.duration_ns[rows])
    names = [int(number) for number in np.argsort(-time, kind="stable")[:5] if time[number] > 0]
    return tuple(trace.strings[number] for number in names)
