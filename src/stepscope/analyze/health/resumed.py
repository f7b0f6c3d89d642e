"""Two attempts of a run compared where the later one goes on: whether all of the state was restored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.analyze.health.judge import AttemptSeries
from stepscope.health import Finding
from stepscope.health.changes import SET_RATIO, RecordedSeries
from stepscope.health.facts import clipped, point_noise
from stepscope.health.finding import Severity
from stepscope.health.ring import median
from stepscope.health.rules import AttemptDiscontinuous
from stepscope.names.meanings import NAMED, Meanings
from stepscope.text import number

NEAR = 64
"""Points before the place at which the run goes on that show its noise."""
FEW = 8
"""Points on either side whose medians are compared."""
CLEAR = 6.0
"""Standard errors of such a median by which the loss must have risen."""
SOME = 0.1
"""Share of what the loss had gained that a lost state of the optimizer costs at least."""


class Resumed(NamedTuple):
    """One series where a run goes on.

    Attributes:
        step: The first step of the later attempt.
        start: Level at which the earlier attempt began.
        before: Its level before that step.
        after: Level at which the later attempt begins.
        noise: Standard deviation of single points.
    """

    step: int
    start: float
    before: float
    after: float
    noise: float
    points: RecordedSeries


def discontinuities(
    earlier: AttemptSeries, later: AttemptSeries, meanings: Meanings = NAMED
) -> Iterator[Finding]:
    """Return at most one finding about an attempt that does not go on where the one before was.

    A lost model explains a loss that is high, and a rate that begins anew a model that changes; the first of
    what is found leads.

    Args:
        earlier: The attempt before.
        later: The one that is judged.
        meanings: The meanings of tags.
    """
    losses = list(_resumed(earlier, later, "loss", meanings))
    rates = list(_resumed(earlier, later, "learning_rate", meanings))
    back = AttemptDiscontinuous.defaults["back"]
    for one in losses:
        gained, rose = one.start - one.before, one.after - one.before
        if not gained > 0 or rose <= CLEAR * one.noise / FEW**0.5:
            continue
        at_step = f"{number(one.before)} at step {one.step:,} of attempt {earlier.number}"
        if rose > back * gained:
            text = f"the loss was {at_step}, and attempt {later.number} goes on with {number(one.after)}: "
            yield _finding(one, f"{text}the weights were not restored", "high")
            return
        if rose > SOME * gained and not _differs(rates):
            text = f"the loss was {at_step}, and attempt {later.number} goes on with {number(one.after)}: "
            yield _finding(one, f"{text}the optimizer's state may not have been restored", "medium")
            return
    for one in _differing(rates):
        text = (
            f"the learning rate was {number(one.before)} at step {one.step:,} of attempt {earlier.number}, "
            f"and attempt {later.number} goes on with {number(one.after)}: the schedule was not restored"
        )
        yield _finding(one, text, "medium")
        return


def _differs(rates: Iterable[Resumed]) -> bool:
    return any(True for _ in _differing(rates))


def _differing(rates: Iterable[Resumed]) -> Iterator[Resumed]:
    for one in rates:
        low, high = sorted((abs(one.before), abs(one.after)))
        if high > SET_RATIO * max(low, 1e-300) and one.before > 0:
            yield one


def _resumed(
    earlier: AttemptSeries, later: AttemptSeries, role: str, meanings: Meanings
) -> Iterator[Resumed]:
    """Return the series of a role that both attempts have and that go on rather than begin anew."""
    known = {(series.tag, series.run, series.rank): series for series in earlier.series}
    for continued in later.series:
        before, meaning = (
            known.get((continued.tag, continued.run, continued.rank)),
            meanings.role(continued.tag),
        )
        if before is None or meaning is None or meaning.role != role or not len(continued.step):
            continue
        if role == "loss" and "eval" in (continued.split, meaning.split):
            continue
        step = int(continued.step[0])
        values = _finite(before.value[np.asarray(before.step) < step])
        if len(values) <= FEW or step <= int(before.step[0]):
            continue
        few = FEW if role == "loss" else 1
        after = _finite(continued.value[:few])
        if len(after):
            noise = point_noise(clipped(values[-NEAR:]))
            levels = median(values[:3]), median(values[-few:]), median(after)
            yield Resumed(step, *levels, noise, continued)


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.asarray(values, np.float64)
    return values[np.isfinite(values)]


def _finding(one: Resumed, text: str, severity: Severity) -> Finding:
    rule = AttemptDiscontinuous
    return Finding(
        rule=rule.id,
        severity=severity,
        title=rule.title,
        summary=text,
        tag=one.points.tag,
        run="",
        layer=None,
        rank=one.points.rank,
        first_step=one.step,
        step=one.step,
        wall=float(one.points.wall[0]),
        values={"start": one.start, "before": one.before, "after": one.after},
        threshold=dict(rule.defaults),
        action=(
            "compare what the checkpoint holds with what is loaded: weights, the optimizer's state, the "
            "schedule with its step, the order of the data, the loss scale"
        ),
        since_step=one.step,
    )
