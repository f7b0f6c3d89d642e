"""Rows on single values far above those before them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np

from stepscope.health.looks import Known, Row, RunFacts, Seen
from stepscope.health.rule import CLIPPED, At, thresholds
from stepscope.health.series import Stream
from stepscope.health.spikes import LOCAL, MIN_POINTS, REPEATED, Mark, Spikes, apart_of, repeated
from stepscope.text import number

CALM = 64
"""Points without a mark after which it is over."""


class SpikeRow(Row):
    """A row on the marks beyond the tail of a series: so many of them close together, until it is calm."""

    what: ClassVar[str]
    opens: ClassVar[int] = 1
    within: ClassVar[int] = 1
    """Marks that it takes, and points within which they lie."""

    def see(self, known: Known, run: RunFacts) -> Seen | None:
        now, stage = known.facts.finite, known.stage.finite
        if stage > MIN_POINTS + LOCAL:
            self.judged()
        if not isinstance(known.tail, Spikes):
            return None
        marks = [
            mark
            for mark in known.tail.marks
            if now - stage < mark.place <= now and not self._is_driven(known, mark, run)
        ]
        return self._burst(known.stream, marks, now) or self._again(known.stream, marks, now)

    def _is_driven(self, known: Known, mark: Mark, run: RunFacts) -> bool:
        """Return whether the rate doubled by degrees meanwhile, as in a search for the largest that works."""
        facts, of_run = known.facts, known.stream.run
        begin = float(facts.walls[int(np.searchsorted(facts.curve[0], mark.before_step))])
        walls = (begin + mark.wall) / 2, mark.wall
        then, between, now = (run.rate(of_run, wall) or 0.0 for wall in (begin, *walls))
        return 0 < then < between < now >= 2 * then

    def moments(self, tail: Spikes) -> list[int]:
        """Return at which values it looks: at marks, and where it has been calm since one."""
        return [place for mark in tail.marks for place in (mark.place, mark.place + CALM)]

    def _burst(self, stream: Stream, marks: Sequence[Mark], now: int) -> Seen | None:
        """Return the newest burst of marks, unless it has been calm since."""
        begun = len(marks)
        while begun and (marks[begun].place if begun < len(marks) else now) - marks[begun - 1].place < CALM:
            begun -= 1
        burst = marks[begun:]
        for first, opening in zip(burst, burst[self.opens - 1 :], strict=False):
            if opening.place - first.place < self.within:
                since = burst[burst.index(first) :]
                most = max(since, key=lambda mark: mark.value)
                text = (
                    f"{self.what} rose to {number(most.value)}; the median of the {LOCAL} points before is "
                    f"{number(first.middle)}"
                )
                values = {"value": most.value, "median": first.middle, "limit": first.limit}
                at = At(stream, opening.step, opening.wall, first.before_step)
                return Seen(text, values, first.step, at=at)
        return None

    def _again(self, stream: Stream, marks: Sequence[Mark], now: int) -> Seen | None:
        """Return single marks that come again at equal distances; by default they do not count."""
        return None


class LossSpike(SpikeRow):
    """Compares each value with the points just before it, by the tail of such distances so far.

    Formula: twice within 8 points the loss is beyond the tail of its distances from the 8 points before,
        above ratio times these and by level_ratio of the first level; or 4 times at equal distances (low)
    Fires: at the second such value within 8 points, from the 41st point on; at the fourth that comes
        again
    Chance: below 1e-7 a point if the tail falls off exponentially
    Source: OLMo-core StabilityMonitor and llm-foundry KillLossSpike (6 sigma of 128); the fitted tail:
        Pickands 1975
    """

    id = "loss-spike"
    title = "Loss spike"
    severity = "medium"
    fewest = "41 points"
    roles = ("loss",)
    splits = ("train",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=1.2, level_ratio=0.05)
    what = "the loss"
    opens, within = 2, 8
    applied = dict.fromkeys(CLIPPED, "clip gradients, ")
    action = (
        "look at the batches of these steps and at the gradient norm before them; clip gradients, lower the "
        "learning rate or lengthen the warm-up; if the loss does not come back, restart from a checkpoint "
        "and skip the batches; if the data or the task was changed here on purpose, record that as a series, "
        "such as curriculum/stage, and the jump is expected"
    )
    action_repeated = (
        "look at what these steps have in common: a shard or a batch that recurs in each epoch, the "
        "last and smallest batch of an epoch, a step that also evaluates or saves; if it is a task of its "
        "own, record its loss separately"
    )

    def tail(self) -> Spikes:
        """Return the tail that it asks for."""
        return Spikes(self.limits["ratio"], least=self.limits["level_ratio"])

    def moments(self, tail: Spikes) -> list[int]:
        """Return also where a mark that came again and again did not come twice."""
        places = [mark.place for mark in tail.marks]
        missed = [after + 2 * (after - before) for before, after in pairwise(places)]
        return super().moments(tail) + missed

    def _again(self, stream: Stream, marks: Sequence[Mark], now: int) -> Seen | None:
        """Return marks that come again as a bad shard does with each epoch, until two did not come."""
        repeats = repeated(marks)
        if repeats is None or now - repeats[-1].place >= 2 * round(apart_of(repeats[:REPEATED])):
            return None
        first, opening, newest = repeats[0], repeats[REPEATED - 1], repeats[-1]
        every = round((opening.step - first.step) / (REPEATED - 1))
        text = (
            f"single points of {self.what} rise far above the others every {every:,} steps, at last to "
            f"{number(newest.value)}; the median of the {LOCAL} points before is {number(newest.middle)}"
        )
        values = {"value": newest.value, "median": newest.middle, "every_n_steps": every}
        at = At(stream, opening.step, opening.wall, first.step)
        return Seen(text, values, first.step, "low", self.action_repeated, at, "repeated")


class GradientSpike(SpikeRow):
    """Like ``loss-spike``, for the global gradient norm before clipping.

    Formula: the norm is beyond the tail of its distances from the 8 points before, in values and in
        logarithms, above ratio times these and 3 times the largest of the last 3
    Fires: at the first such value, from the 41st point on
    Chance: below 1e-7 a point if the tail falls off exponentially
    Source: ZClip (arXiv 2504.02507), Megatron-LM's spiky gradients (10 * the largest); the fitted tail:
        Pickands 1975
    """

    id = "gradient-spike"
    title = "Gradient spike"
    severity = "low"
    fewest = "41 points"
    roles = ("gradient_norm",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(ratio=10)
    what = "the gradient norm"
    applied = dict.fromkeys(CLIPPED, "clip by the 90th percentile of the unclipped norm; ")
    action = (
        "clip by the 90th percentile of the unclipped norm; look at the batch of this step; with Adam lower "
        "beta2 or the learning rate"
    )

    def tail(self) -> Spikes:
        """Return the tail that it asks for."""
        return Spikes(self.limits["ratio"], leaps=True)


ROWS = (LossSpike, GradientSpike)
