"""What changed between two profiles, and whether the difference is more than the steps' own spread.

For each thing (step, kernel, operator, module scope) the time per step of A and of B is compared by medians.
The spread of a side is the median absolute deviation of its steps, scaled by 1.4826 to a standard deviation
(Rousseeuw and Croux 1993); below ten steps, where that estimate is often far too small, the larger of it and
the sample's standard deviation. A difference counts as a change only where it exceeds

    max(3 * 1.2533 * sqrt(spread_a**2 / n_a + spread_b**2 / n_b), resolution, 1 % of the larger median)

which is three standard errors of the difference of two medians (1.2533 = sqrt(pi / 2), for normal noise). Of
pairs drawn from one normal distribution 1.8 % exceed it with three steps a side, 1.5 % with ten, less with
more. With fewer than three steps the spread is not known, and the verdict is ``unknown``, whatever the
difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyze.breakdown import PARTS, breakdown
from stepscope.analyze.groups import Groups, step_matrix
from stepscope.analyze.operators import operator_times
from stepscope.analyze.spans import Ints
from stepscope.analyze.windows import windows
from stepscope.trace.model import Trace
from stepscope.trace.names import Paths

Floats = npt.NDArray[np.float64]

LEAST_STEPS = 3
"""Steps that each side needs for its spread to be known."""

LEAST_RATIO = 0.01
"""Smaller differences are never a change."""

_ENOUGH_STEPS = 10
_STANDARD_ERRORS = 3.0
_NORMAL = 1.4826
_MEDIAN_ERROR = 1.2533


@dataclass(frozen=True, slots=True)
class Side:
    """Time per step of one thing in one profile."""

    steps: int
    """Steps of the profile, with or without it; 1 where no steps were recorded."""
    median_ns: float
    """Over all steps; a step without it counts as 0."""
    spread_ns: float | None
    """Standard deviation; None below three steps."""
    calls_per_step: float


@dataclass(frozen=True, slots=True)
class Change:
    """One thing in both profiles."""

    name: str
    a: Side | None
    """None where A does not have it."""
    b: Side | None
    difference_ns: float
    """B less A: positive is slower."""
    ratio: float | None
    """B / A; None where A has none."""
    noise_ns: float | None
    """What a difference must exceed to count; None where the spread is not known."""
    verdict: str
    """``slower faster same``, ``added removed``, or ``unknown`` where there are too few steps to tell."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two profiles side by side; each list has the largest difference first."""

    step: Change
    parts: tuple[Change, ...]
    """Parts of the step that both recorded."""
    kernels: tuple[Change, ...]
    """Device work by name."""
    operators: tuple[Change, ...]
    """Host self time by operator."""
    launched: tuple[Change, ...]
    """Device time by the operator that launched it; empty where neither profile knows its launches."""
    scopes: tuple[Change, ...]
    """Device time by module scope, each with all scopes below; host self time where neither has a device."""
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """Names, and time and calls by name and step."""

    names: list[str]
    time: Floats
    calls: Floats


def diff(a: Trace, b: Trace) -> Diff:
    """Compare two profiles; what is in only one of them is ``added`` or ``removed``."""
    notes = []
    for side, trace in (("A", a), ("B", b)):
        steps = len(trace.steps)
        if steps < LEAST_STEPS:
            what = f"{steps} steps" if steps else "no steps"
            notes.append(f"{side} recorded {what}: without {LEAST_STEPS} the spread is not known")
    resolution = max(a.resolution_ns, b.resolution_ns)

    def compare(table: Callable[[Trace], _Table]) -> tuple[Change, ...]:
        return _compare(table(a), table(b), resolution)

    has_device = bool(len(a.device_work()) or len(b.device_work()))
    return Diff(
        step=compare(step_table)[0],
        parts=compare(_part_table),
        kernels=compare(_kernel_table),
        operators=compare(_operator_table),
        launched=compare(_launched_table),
        scopes=compare(_scope_device_table if has_device else _scope_host_table),
        notes=tuple(notes),
    )


def _compare(a: _Table, b: _Table, resolution_ns: int) -> tuple[Change, ...]:
    place_a, place_b = ({name: n for n, name in enumerate(table.names)} for table in (a, b))
    found = []
    for name in dict.fromkeys([*a.names, *b.names]):
        side_a = _side(a, place_a[name]) if name in place_a else None
        side_b = _side(b, place_b[name]) if name in place_b else None
        found.append(change(name, side_a, side_b, resolution_ns))
    return tuple(sorted(found, key=lambda item: -abs(item.difference_ns)))


def _side(table: _Table, number: int) -> Side:
    time = table.time[number]
    middle = float(np.median(time))
    return Side(len(time), middle, spread_of(time), float(table.calls[number].mean()))


def spread_of(time: Floats) -> float | None:
    """Return the standard deviation of steps, robust against outliers where there are enough; else None."""
    if len(time) < LEAST_STEPS:
        return None
    robust = float(np.median(np.abs(time - np.median(time)))) * _NORMAL
    return robust if len(time) >= _ENOUGH_STEPS else max(robust, float(time.std(ddof=1)))


def change(name: str, a: Side | None, b: Side | None, resolution_ns: int = 1) -> Change:
    """Judge the difference of two sides, at least one of which is given."""
    before, after = (side.median_ns if side else 0.0 for side in (a, b))
    difference = after - before
    noise = _noise(a, b, resolution_ns, max(before, after))
    if a is None or b is None:
        verdict = "added" if a is None else "removed"
    elif noise is None:
        verdict = "unknown"
    elif abs(difference) <= noise:
        verdict = "same"
    else:
        verdict = "slower" if difference > 0 else "faster"
    return Change(name, a, b, difference, after / before if before else None, noise, verdict)


def _noise(a: Side | None, b: Side | None, resolution_ns: int, larger: float) -> float | None:
    variance, error = 0.0, _STANDARD_ERRORS * _MEDIAN_ERROR
    for side in (a, b):
        if side is None:
            continue
        if side.spread_ns is None:
            return None
        variance += side.spread_ns**2 / side.steps
    return max(error * math.sqrt(variance), float(resolution_ns), LEAST_RATIO * larger)


# --- what is compared -------------------------------------------------------------------------------------


def step_table(trace: Trace) -> _Table:
    """Return the time of each step; of everything where no steps were marked."""
    every = windows(trace)
    wall = (every.end_ns - every.start_ns).astype(np.float64)[None, :]
    if not wall.shape[1]:
        wall = np.zeros((1, 1))
    return _Table(["step"], wall, np.ones_like(wall))


def _part_table(trace: Trace) -> _Table:
    steps = breakdown(trace).steps
    names = [part for part in PARTS if steps and all(step.parts_ns[part] is not None for step in steps)]
    time = np.array([[step.parts_ns[part] for step in steps] for part in names], np.float64)
    time = time.reshape(len(names), max(1, len(steps)) if names else 1)
    return _Table(names, time, np.ones_like(time))


def _kernel_table(trace: Trace) -> _Table:
    rows = trace.device_work()
    return _by_name(trace, rows, trace.duration_ns[rows])


def _operator_table(trace: Trace) -> _Table:
    times = operator_times(trace)
    return _by_name(trace, times.rows, times.host_self_ns)


def _launched_table(trace: Trace) -> _Table:
    times = operator_times(trace)
    busy = times.device_self_ns > 0
    return _by_name(trace, times.rows[busy], times.device_self_ns[busy])


def _by_name(trace: Trace, rows: Ints, value: Ints) -> _Table:
    groups = Groups.by_name(trace.name[rows])
    texts = [trace.strings[int(number)] for number in groups.key]
    return _table(trace, rows, groups, value, texts)


def _table(trace: Trace, rows: Ints, groups: Groups, value: Ints, names: list[str]) -> _Table:
    time, _, _ = step_matrix(trace, rows, groups, value)
    calls, _, _ = step_matrix(trace, rows, groups, np.ones(len(rows), np.int64))
    return _Table(names, time, calls)


def _scope_device_table(trace: Trace) -> _Table:
    rows = trace.device_work()
    return _by_scope(trace, rows, trace.duration_ns[rows])


def _scope_host_table(trace: Trace) -> _Table:
    times = operator_times(trace)
    return _by_scope(trace, times.rows, times.host_self_ns)


def _by_scope(trace: Trace, rows: Ints, value: Ints) -> _Table:
    scoped = trace.scope[rows] >= 0
    rows, value = rows[scoped], value[scoped]
    groups = Groups.by_name(trace.scope[rows])
    own = _table(trace, rows, groups, value, [])
    columns = own.time.shape[1]
    time, calls = (_with_children(trace.scopes, groups.key, part, columns) for part in (own.time, own.calls))
    used = np.flatnonzero(calls.any(axis=1))
    return _Table([trace.scopes.text(int(n)) for n in used], time[used], calls[used])


def _with_children(scopes: Paths, numbers: Sequence[int] | Ints, part: Floats, columns: int) -> Floats:
    total = np.zeros((len(scopes), columns))
    total[numbers] = part
    for number in range(len(scopes) - 1, -1, -1):
        if scopes.parent[number] >= 0:
            total[scopes.parent[number]] += total[number]
    return total


def _scope_table(trace: Trace) -> _Table:
    return _scope_device_table(trace) if len(trace.device_work()) else _scope_host_table(trace)


TABLES: dict[str, Callable[[Trace], _Table]] = {
    "parts": _part_table,
    "scopes": _scope_table,
    "launched": _launched_table,
    "operators": _operator_table,
    "kernels": _kernel_table,
}
"""What a profile's time is told by, each as :class:`Diff` has it."""
