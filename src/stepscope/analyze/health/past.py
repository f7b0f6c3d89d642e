"""A run compared with earlier ones: whether its loss is outside theirs at this step, and what differs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.health import Finding
from stepscope.health.ring import median
from stepscope.names.settings import flatten
from stepscope.text import number

Floats = NDArray[np.float64]
MAX_RUNS = 20
"""Earlier runs that it is compared with, the newest."""
MIN_RUNS = 8
"""Earlier runs that it needs: one of n + 1 equal runs is outside the n others with chance 2 / (n + 1)."""
PLACES = 8
"""Steps at which runs are compared, over the second half of what this one has done."""
NEAR = 0.02
"""Share of the steps around a place whose points are used for it."""
STRETCH = 9
"""Least number of points for one median."""
SHOWN = 5
RULE = "unlike-past-runs"


@dataclass(frozen=True, eq=False)
class Past:
    """One series of one run, and what the run was made of.

    Attributes:
        name: Of the run.
        steps: Ascending.
    """

    name: str
    steps: Floats
    values: Floats
    config: Mapping[str, Any] = field(default_factory=dict)


def compare(own: Past, past: Sequence[Past], *, tag: str, wall: float) -> Finding | None:
    """Return a finding if a run lies outside all earlier ones, and clearly; None if it does not.

    It must lie on one side of all of them at each of the places, by more than half of the range that they
    span there. The severity is "info": another configuration may well be intended to do so.

    Args:
        own: The run.
        past: Earlier runs that finished, the newest first.
        tag: Of the series.
        wall: When the newest point was recorded, seconds since the epoch.
    """
    good = np.isfinite(own.values)
    if good.sum() < PLACES:
        return None
    last = float(own.steps[good][-1])
    places = np.linspace(last / 2, last, PLACES)
    mine = levels(own, places)
    others = [(other, levels(other, places)) for other in past[:MAX_RUNS]]
    known = [(other, values) for other, values in others if np.isfinite(values).all()]
    if len(known) < MIN_RUNS or not np.isfinite(mine).all():
        return None
    table = np.array([values for _, values in known])
    low, high = table.min(axis=0), table.max(axis=0)
    apart = 0.5 * (high - low)
    above, below = bool((mine > high + apart).all()), bool((mine < low - apart).all())
    if not above and not below:
        return None
    side = "above" if above else "below"
    text = (
        f"{tag} is {number(mine[-1])} at step {int(last):,}, {side} all of the last {len(known)} finished "
        f"runs: they had {number(low[-1])} to {number(high[-1])} there"
    )
    causes = tuple(differing(own.config, [other.config for other, _ in known]))
    reached = arrival(own, known[0][0], float(mine[-1]))
    return Finding(
        rule=RULE,
        severity="info",
        title="Unlike past runs",
        summary=text,
        tag=tag,
        run="",
        layer=None,
        rank=None,
        first_step=int(places[0]),
        step=int(last),
        wall=wall,
        values={
            "value": float(mine[-1]),
            "low": float(low[-1]),
            "high": float(high[-1]),
            "runs": float(len(known)),
        },
        action="if no change of the configuration was meant to cause this, look at what differs",
        causes=(*causes, *reached),
    )


def levels(run: Past, places: Floats) -> Floats:
    """Return the median near each place; NaN if the run has no point there."""
    level = np.full(len(places), np.nan)
    for at, place in enumerate(places):
        width = max(NEAR * places[-1], 1.0)
        near = run.values[(run.steps >= place - width) & (run.steps <= place + width)]
        near = near[np.isfinite(near)]
        if len(near):
            level[at] = median(near)
    return level


def arrival(own: Past, other: Past, level: float) -> Iterable[str]:
    """Return when the newest earlier run had reached this level, for a series that falls."""
    step = reached(other, level)
    if step is not None:
        yield f"{other.name} had reached this at step {step:,}"


def reached(run: Past, level: float) -> int | None:
    """Return the step by which a series had fallen to a level; None if it never did.

    Medians of stretches of a tenth of what came before are compared, so that noise does not reach it early.
    None, too, if it was there from the beginning: then nothing was reached.
    """
    good = np.isfinite(run.values)
    steps, values = run.steps[good], run.values[good]
    above: tuple[float, float] | None = None
    begin = 0
    while begin + STRETCH <= len(values):
        end = min(len(values), begin + max(STRETCH, begin // 10))
        middle, at = median(values[begin:end]), median(steps[begin:end])
        if middle > level:
            above = at, middle
        elif above is None:
            return None
        else:
            return int(at + (level - middle) / (above[1] - middle) * (above[0] - at))
        begin = end
    return None


def differing(config: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Return the keys of the configuration whose values no other run has, in a sentence."""
    own, *rest = (
        {key: str(value) for key, value in flatten(settings).items()} for settings in (config, *others)
    )
    lines = []
    for key, value in own.items():
        had = {other[key] for other in rest if key in other}
        if had and value not in had:
            shown = sorted(had)
            theirs = ", ".join(shown[:3]) + (", …" if len(shown) > 3 else "")
            lines.append(f"{key} {value} (they had {theirs})")
    if lines:
        more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
        yield f"what differs: {'; '.join(lines[:SHOWN])}{more}"
