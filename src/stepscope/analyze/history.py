"""Several profiles of one run, taken during its training: how the time of each thing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analyze.diff import TABLES, step_table, table_of
from stepscope.errors import UsageError
from stepscope.trace.model import Trace


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One thing in each profile; None if a profile does not have it."""

    name: str
    mean_ns: tuple[float | None, ...]
    """Per step, over all steps; a step without it counts as 0."""
    calls_per_step: tuple[float | None, ...]
    change_ns: float
    """The last minus the first; a missing time counts as 0."""


@dataclass(frozen=True, slots=True)
class ProfileColumn:
    """One profile's times: mean per step and calls per step by name."""

    step_ns: float
    means: dict[str, float]
    calls: dict[str, float]


def column(trace: Trace, by: str) -> ProfileColumn:
    """Return one profile's times.

    Args:
        trace: Any trace.
        by: ``parts scopes launched operators kernels``, as :class:`stepscope.analyze.diff.Diff` has them.

    Raises:
        UsageError: It is by something else.
    """
    if by not in TABLES:
        raise UsageError(f"by is {by!r}: expected {', '.join(TABLES)}", hint="choose one of these")
    table = table_of(trace, by)
    return ProfileColumn(
        step_ns=float(np.mean(step_table(trace).time[0])),
        means={name: float(np.mean(table.time[at])) for at, name in enumerate(table.names)},
        calls={name: float(table.calls[at].mean()) for at, name in enumerate(table.names)},
    )


def history(columns: Sequence[ProfileColumn]) -> list[HistoryLine]:
    """Return every thing that any of these profiles has, the largest change first."""
    names = dict.fromkeys(name for one in columns for name in one.means)
    lines = []
    for name in names:
        mean_ns = tuple(one.means.get(name) for one in columns)
        change_ns = (mean_ns[-1] or 0.0) - (mean_ns[0] or 0.0)
        lines.append(HistoryLine(name, mean_ns, tuple(one.calls.get(name) for one in columns), change_ns))
    return sorted(
        lines, key=lambda line: (-abs(line.change_ns), -max(value or 0.0 for value in line.mean_ns))
    )
