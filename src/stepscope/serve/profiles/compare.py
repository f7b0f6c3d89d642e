"""Two profiles, or two stretches of one, side by side: the slower parts, and their explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.analyze.diff import Change, Diff, diff
from stepscope.serve.encode import extended
from stepscope.serve.profiles.open_profiles import OpenProfile, Steps, command
from stepscope.serve.profiles.types import DiffAnswer, DiffProfile, DiffRow, DiffTable
from stepscope.serve.reply import refusing
from stepscope.serve.routes import get
from stepscope.serve.run_series import recorded_beside
from stepscope.store import Log
from stepscope.trace.model import Trace

MOST_ROWS = 1000
MOST_STEPS = 4000
"""Steps whose durations are drawn; more are not told apart."""
TABLES = ("parts", "scopes", "launched", "operators", "kernels")
"""In the order of the page."""


@get("profile/diff")
def compare(
    log: Log | None, a: OpenProfile, b: OpenProfile, steps_a: Steps = "", steps_b: Steps = ""
) -> DiffAnswer:
    """Compare two profiles; the steps that their runs recorded decide which is slower, if both did.

    Args:
        log: The log directory.
        a: The profile before.
        b: The profile after; it may be the same one.
        steps_a: Steps of A, as :func:`stepscope.analyze.chosen.keep_steps` reads them; empty is all.
        steps_b: Steps of B.

    Raises:
        Refusal: No such steps, or a profile that holds nothing.
    """
    with refusing():
        before, after = a.chosen(steps_a), b.chosen(steps_b)
        numbers = before.steps.number.tolist(), after.steps.number.tolist()
        whole = not steps_a and not steps_b
        recorded = recorded_beside(log, (a.path, b.path), numbers) if whole else None
        change = diff(before, after)
    return DiffAnswer(
        a=side_of(a.path, before, steps_a, change.steps_ns[0]),
        b=side_of(b.path, after, steps_b, change.steps_ns[1]),
        step=row_of(change.step, None),
        recorded=recorded,
        tables=list(tables_of(change)),
        on_device=bool(len(before.device_work()) or len(after.device_work())),
        notes=[] if recorded else list(change.notes),
        command=command("diff", a.path, b.path, steps_a=steps_a, steps_b=steps_b),
    )


def side_of(path: str, trace: Trace, steps: str, steps_ns: Sequence[float]) -> DiffProfile:
    """Return the description of a side."""
    return DiffProfile(
        path=path,
        steps=steps,
        numbers=sorted(set(trace.steps.number.tolist())),
        ranks=list(trace.ranks),
        format=trace.format,
        devices=sorted({device.name for device in trace.devices}),
        steps_ns=thinned(steps_ns),
    )


def thinned(steps_ns: Sequence[float]) -> list[float]:
    """Return all of them; if too many, the shortest, the longest and some between, evenly chosen."""
    if len(steps_ns) <= MOST_STEPS:
        return list(steps_ns)
    ordered = sorted(steps_ns)
    return [ordered[round(at * (len(ordered) - 1) / (MOST_STEPS - 1))] for at in range(MOST_STEPS)]


def tables_of(compared: Diff) -> Iterator[DiffTable]:
    """Yield the tables that have any rows."""
    for key in TABLES:
        changes: Sequence[Change] = getattr(compared, key)
        if not changes:
            continue
        outer = outermost(changes) if key == "scopes" else changes
        whole = explained(compared.step, changes, nested=key == "scopes")
        yield DiffTable(
            key=key,
            rows=[row_of(one, whole) for one in changes[:MOST_ROWS]],
            total=len(changes),
            slower_ns=sum(one.difference_ns for one in outer if one.difference_ns > 0),
            faster_ns=sum(one.difference_ns for one in outer if one.difference_ns < 0),
        )


def explained(step: Change, changes: Sequence[Change], *, nested: bool) -> float | None:
    """Return all that went the way of the step, of which a row is a part; None if the step went none.

    Args:
        step: The change to explain.
        changes: The rows of a table.
        nested: Whether rows are scopes that hold each other. The parts of a scope may have gone both ways:
            the scope counts with its own change or that of all parts, so that no row is more than the whole.
    """
    if not step.difference_ns or step.verdict == "same":
        return None
    way = 1.0 if step.difference_ns > 0 else -1.0
    went = {one.name: max(0.0, way * one.difference_ns) for one in changes}
    if not nested:
        return way * sum(went.values()) or None
    within = dict.fromkeys(went, 0.0)
    total = 0.0
    for name in sorted(went, key=len, reverse=True):
        most = max(went[name], within[name])
        above = next((above for above in prefixes(name) if above in went), None)
        if above is None:
            total += most
        else:
            within[above] += most
    return way * total or None


def outermost(changes: Sequence[Change]) -> list[Change]:
    """Return the scopes that lie in no other, because a scope has the time of all below it."""
    names = {one.name for one in changes}
    return [one for one in changes if not any(above in names for above in prefixes(one.name))]


def prefixes(name: str) -> Iterator[str]:
    """Yield the scopes around a scope."""
    while (at := name.rfind("/")) > 0:
        name = name[:at]
        yield name


def row_of(change: Change, whole_ns: float | None) -> DiffRow:
    """Return one change, and its part of all that went the way of the step; None if it went the other."""
    part = change.difference_ns / whole_ns if whole_ns else None
    return extended(DiffRow, change, explains_ratio=part if part is not None and part > 0 else None)
