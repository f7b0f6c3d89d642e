"""Changes between two profiles, and whether the steps can confirm them.

For each thing (step, part, kernel, operator, module scope) the times of A's steps and of B's are compared by
:mod:`~stepscope.analyze.rank_test`. The compared value is the mean of the steps, because means add up: those
of the parts to the step, their differences to its difference. The verdict is

- ``slower`` or ``faster`` if the test's p is at most 5 %, corrected for the number of things of a
  table that matter to the step (Benjamini and Hochberg 1995), and the shift above 1 % and the resolution
- ``same`` if the shift lies within a margin with 95 % on either side: 3 % of the larger mean or 0.1 % of
  the step, whichever is more
- ``unclear`` if the steps can tell neither, or most steps went the other way than the mean, which few of
  them then make; with fewer than two steps on a side there is nothing to judge by
- ``added`` and ``removed`` if a side does not have it

Operators and scopes are compared by the step's own time: the event of each instant
(:mod:`~stepscope.attribute.step_tree`), so they add up to it as parts do. ``launched`` and
``kernels`` are the device's time, which overlaps itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stepscope.analyze.breakdown import breakdown_of
from stepscope.analyze.groups import Groups, step_matrix
from stepscope.analyze.operators import operator_times
from stepscope.analyze.rank_test import LEAST_RATIO, LEVEL, SAME_RATIO, RankTest, rank_test
from stepscope.analyze.views.build import operation_names
from stepscope.analyze.views.measure import measure, owners
from stepscope.attribute.spans import Ints
from stepscope.attribute.step_tree import PARTS, StepTree, step_tree
from stepscope.trace.model import Kind, Trace

Floats = npt.NDArray[np.float64]

SAME_OF_STEP = 0.001
"""Share of the step below which a difference does not count."""

PYTHON, NO_SCOPE, NOTHING = "(Python)", "(no scope)", "(nothing recorded)"
"""Rows for work outside all operators or scopes, so that a table adds up to the step."""


@dataclass(frozen=True, slots=True)
class DiffSide:
    """Time per step of one thing in one profile."""

    steps: int
    """Steps of the profile, with or without it; 1 if no steps were recorded."""
    median_ns: float
    """Over all steps; a step without it counts as 0."""
    mean_ns: float
    """Likewise."""
    spread_ns: float | None
    """Standard deviation of the steps; None for one step."""
    calls_per_step: float


@dataclass(frozen=True, slots=True)
class Change:
    """One thing in both profiles."""

    name: str
    a: DiffSide | None
    """None if A does not have it."""
    b: DiffSide | None
    difference_ns: float
    """Mean of B less mean of A: positive is slower."""
    ratio: float | None
    """B / A, of the means; None if A has none."""
    verdict: str
    """``slower faster same``, ``added removed``, or ``unclear`` if the steps cannot tell."""
    p_value: float | None
    """How often equal sides would differ as clearly (p); None if one side has none, or too few steps."""
    effect: float | None
    """Cliff's delta: 1 if every step of B is slower than every step of A, -1 the other way round."""
    shift_ns: float | None
    """Median of the differences of all pairs of a step of B and one of A."""
    low_ns: float | None
    high_ns: float | None
    """Between which the shift lies with 95 %; None if there are too few steps for any bounds."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two profiles side by side; each list has the largest difference first."""

    step: Change
    parts: tuple[Change, ...]
    """Parts of the step that both recorded."""
    kernels: tuple[Change, ...]
    """Device work by name."""
    operators: tuple[Change, ...]
    """The step's time by operator; adds up to the step."""
    launched: tuple[Change, ...]
    """Device time by the operator that launched it; empty if neither profile knows its launches."""
    scopes: tuple[Change, ...]
    """The step's time by module scope, each with all scopes below."""
    notes: tuple[str, ...]
    steps_ns: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    """Duration of every step of A and of B, in their order."""


@dataclass(frozen=True, slots=True)
class StepTable:
    """Names, and time and calls by name and step.

    Attributes:
        names: Of the rows.
        time: f8[rows, steps], ns.
        calls: f8[rows, steps], or one column of means.
    """

    names: list[str]
    time: Floats
    calls: Floats


def diff(a: Trace, b: Trace) -> Diff:
    """Compare two profiles; rows of only one are ``added`` or ``removed``.

    Args:
        a: Before.
        b: After.
    """
    resolution = max(a.resolution_ns, b.resolution_ns)
    sides = [_Profile(trace) for trace in (a, b)]
    steps = [_step_table(side).time[0] for side in sides]
    step = max(float(np.median(times)) for times in steps)

    def compare(table: Callable[[_Profile], StepTable]) -> tuple[Change, ...]:
        return compared(table(sides[0]), table(sides[1]), resolution, step)

    return Diff(
        step=compare(_step_table)[0],
        parts=compare(_part_table),
        kernels=compare(_kernel_table),
        operators=compare(_operator_table),
        launched=compare(_launched_table),
        scopes=compare(_scope_table),
        notes=tuple(_notes(sides)),
        steps_ns=(tuple(steps[0].tolist()), tuple(steps[1].tolist())),
    )


def _notes(sides: Sequence[_Profile]) -> Iterator[str]:
    """Yield the obstacles to telling the sides apart."""
    counts = []
    for name, side in zip("AB", sides, strict=True):
        marked = len(side.trace.steps)
        counts.append(max(1, marked))
        if not marked:
            yield f"{name} recorded no steps: all its work counts as one"
        elif marked == 1:
            yield f"{name} recorded 1 step: a single step does not show how steps vary"
    least = 2 / math.comb(sum(counts), counts[0])
    if min(counts) > 1 and least > LEVEL:
        yield (
            f"{counts[0]} steps against {counts[1]} can never be told apart with certainty (the smallest "
            f"possible p is {least:.2g}): record four or more of each"
        )
    if sides[0].trace is not sides[1].trace and min(counts) > 1:
        yield (
            "these are the profiled steps alone, one recording of each side: they tell which steps took "
            "longer, not whether other runs would differ likewise"
        )


def compared(
    a: StepTable, b: StepTable, resolution_ns: int, step_ns: float, *, level: float = LEVEL
) -> tuple[Change, ...]:
    """Compare the rows of two tables by their steps.

    Args:
        a: Before.
        b: After.
        resolution_ns: Of the clocks.
        step_ns: Median step of the slower side.
        level: At most this share of the accepted differences is false.
    """
    sides = [
        {name: (time, float(calls.mean())) for name, time, calls in zip(*columns, strict=True)}
        for columns in ((table.names, table.time, table.calls) for table in (a, b))
    ]
    names = list(dict.fromkeys([*a.names, *b.names]))
    tests = []
    for name in names:
        times = [side[name][0] for side in sides if name in side and len(side[name][0]) > 1]
        tests.append(rank_test(*times) if len(times) == len(sides) else None)
    least = max(float(resolution_ns), SAME_OF_STEP * step_ns)
    limit = false_discoveries([test.p_value for test in tests if test and abs(test.shift) > least], level)
    changes = []
    for name, test in zip(names, tests, strict=True):
        before, after = (side_of(*side[name]) if name in side else None for side in sides)
        changes.append(change(name, before, after, test, limit=limit, least_ns=least))
    return tuple(sorted(changes, key=lambda item: -abs(item.difference_ns)))


def side_of(time: Floats, calls: float = 1.0) -> DiffSide:
    """Summarise the steps of one side."""
    spread = float(time.std(ddof=1)) if len(time) > 1 else None
    return DiffSide(len(time), float(np.median(time)), float(time.mean()), spread, calls)


def false_discoveries(p_values: Sequence[float], level: float = LEVEL) -> float:
    """Return the largest p that is accepted, so that at most this share of the accepted ones is false."""
    ordered = np.sort(np.array(p_values, np.float64))
    passed = ordered <= level * np.arange(1, len(ordered) + 1) / max(1, len(ordered))
    return float(ordered[np.flatnonzero(passed)[-1]]) if passed.any() else -1.0


def change(
    name: str,
    a: DiffSide | None,
    b: DiffSide | None,
    test: RankTest | None,
    *,
    limit: float = LEVEL,
    least_ns: float = 1.0,
) -> Change:
    """Judge the difference of two sides, at least one of which is given.

    Args:
        name: The name of the compared thing.
        a: Before.
        b: After.
        test: Of their steps; None if one side has none, or fewer than two.
        limit: The greatest p that is believed.
        least_ns: A difference of no more than this does not matter.
    """
    before, after = (side.mean_ns if side else 0.0 for side in (a, b))
    low, high = (test.interval if test else None) or (None, None)
    return Change(
        name=name,
        a=a,
        b=b,
        difference_ns=after - before,
        ratio=after / before if before else None,
        verdict="added"
        if a is None
        else "removed"
        if b is None
        else _verdict(test, before, after, limit, least_ns),
        p_value=test.p_value if test else None,
        effect=test.effect if test else None,
        shift_ns=test.shift if test else None,
        low_ns=low,
        high_ns=high,
    )


def _verdict(test: RankTest | None, before: float, after: float, limit: float, least_ns: float) -> str:
    if test is None:
        return "unclear"
    larger = max(before, after)
    if test.p_value <= limit and abs(test.shift) > max(least_ns, LEAST_RATIO * larger):
        if (test.shift > 0) != (after > before):
            return "unclear"
        return "slower" if test.shift > 0 else "faster"
    margin = max(least_ns, SAME_RATIO * larger)
    near = abs(after - before) <= margin
    same = near and test.inner is not None and -margin <= test.inner[0] and test.inner[1] <= margin
    return "same" if same else "unclear"


# --- what is compared -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Profile:
    """One side; the basis of its tables is computed once."""

    trace: Trace

    @cached_property
    def tree(self) -> StepTree:
        return step_tree(self.trace)


def step_table(trace: Trace) -> StepTable:
    """Return the time of each step; of all work if no steps were marked."""
    return _step_table(_Profile(trace))


def _step_table(side: _Profile) -> StepTable:
    wall = side.tree.wall_ns.astype(np.float64)[None, :]
    if not wall.shape[1]:
        wall = np.zeros((1, 1))
    return StepTable(["step"], wall, np.ones_like(wall))


def _part_table(side: _Profile) -> StepTable:
    steps = breakdown_of(side.trace, side.tree).steps
    names = [part for part in PARTS if steps and all(step.parts_ns[part] is not None for step in steps)]
    time = np.array([[step.parts_ns[part] for step in steps] for part in names], np.float64)
    time = time.reshape(len(names), max(1, len(steps)) if names else 1)
    return StepTable(names, time, np.ones_like(time))


def _operator_table(side: _Profile) -> StepTable:
    """Return the step's time by operation, as the view of operations has it."""
    trace, measures = side.trace, measure(side.trace, tree=side.tree)
    number = operation_names(trace, owners(trace, measures))
    texts = trace.strings.texts()
    names = [*texts, PYTHON, NOTHING]
    return _spent(
        side, np.where(number >= 0, number, len(texts)), names, trace.name, trace.kind == Kind.HOST_OP
    )


def _scope_table(side: _Profile) -> StepTable:
    """Return the step's time by module scope, each with all below it."""
    trace, scopes = side.trace, side.trace.scopes
    if not (trace.scope >= 0).any():
        return StepTable([], np.zeros((0, 1)), np.zeros((0, 1)))
    names = [*(scopes.text(number) for number in range(len(scopes))), NO_SCOPE]
    place = np.where(trace.scope >= 0, trace.scope, len(scopes))
    own = _spent(side, place, names, place, trace.kind == Kind.HOST_OP, all_rows=True)
    for column in (own.time, own.calls):
        for number in range(len(scopes) - 1, -1, -1):
            if scopes.parent[number] >= 0:
                column[scopes.parent[number]] += column[number]
    used = np.flatnonzero(own.time.any(axis=1))
    return StepTable([names[n] for n in used], own.time[used], own.calls[used])


def _spent(
    side: _Profile,
    node: Ints,
    names: list[str],
    called: Ints,
    calls: npt.NDArray[np.bool_],
    *,
    all_rows: bool = False,
) -> StepTable:
    """Sum the stretches of every step by a number of their rows.

    Args:
        side: The profile.
        node: The number of each row of the trace, a place in ``names``.
        names: Of all numbers; time without a row is the last one's.
        called: The number that a row is a call of.
        calls: Which rows are calls.
        all_rows: Whether to keep numbers without any time.
    """
    trace, tree = side.trace, side.tree
    if not len(tree.windows):
        return StepTable([], np.zeros((0, 1)), np.zeros((0, 1)))
    time = tree.summed(node[tree.row], len(names)).T.astype(np.float64)
    time[-1] += tree.nothing_ns
    inside = calls & ((trace.step >= 0) | ~np.array(tree.windows.marked))
    count = np.bincount(called[inside], minlength=len(names))[:, None] / len(tree.windows)
    used = np.arange(len(names)) if all_rows else np.flatnonzero(time.any(axis=1))
    return StepTable([names[n] for n in used], time[used], count[used])


def _kernel_table(side: _Profile) -> StepTable:
    rows = side.trace.device_work()
    return _by_name(side.trace, rows, side.trace.duration_ns[rows])


def _launched_table(side: _Profile) -> StepTable:
    times = operator_times(side.trace)
    busy = times.device_self_ns > 0
    return _by_name(side.trace, times.rows[busy], times.device_self_ns[busy])


def _by_name(trace: Trace, rows: Ints, value: Ints) -> StepTable:
    groups = Groups.by(trace.name[rows])
    time, _, _ = step_matrix(trace, rows, groups, value)
    calls, _, _ = step_matrix(trace, rows, groups, np.ones(len(rows), np.int64))
    return StepTable([trace.strings[int(number)] for number in groups.key], time, calls)


_TABLES: dict[str, Callable[[_Profile], StepTable]] = {
    "parts": _part_table,
    "scopes": _scope_table,
    "launched": _launched_table,
    "operators": _operator_table,
    "kernels": _kernel_table,
}
TABLES = tuple(_TABLES)
"""Dimensions by which a profile's time is split, as named in :class:`Diff`."""


def table_of(trace: Trace, by: str) -> StepTable:
    """Return a profile's time by one of :data:`TABLES`."""
    return _TABLES[by](_Profile(trace))
