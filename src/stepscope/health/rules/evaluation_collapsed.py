"""evaluation-collapsed: an evaluation becomes suddenly and lastingly worse."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np

from stepscope.health.batch import StreamBatch
from stepscope.health.facts import CHANCE, Facts
from stepscope.health.looks import FactRule, Seen
from stepscope.health.rule import thresholds
from stepscope.health.series import Stream
from stepscope.text import number

FEWEST = 8
SERIES = CHANCE / 4
"""Chance of a false jump: few series of a run are evaluations."""


class EvaluationCollapsed(FactRule):
    """Compares the level after a lasting jump with what the evaluation had gained before it.

    Losses are not judged: that of a model that is too sure of itself grows many times while the model is
    right as often.
    """

    id = "evaluation-collapsed"
    title = "Evaluation collapsed"
    severity = "medium"
    formula = (
        "a metric of an evaluation jumps to the worse side by more than share of its level and does not come "
        "back, and loses more than lost of what it had gained from its first value to its best; no loss of "
        "the run was NaN or infinite before"
    )
    source = "change points by two-sided lines, and by levels below 64 points: ours"
    window = "at the third evaluation after it"
    chance = "below 0.03 % in a run"
    fewest = "8 evaluations"
    roles = ("metric",)
    splits = ("eval",)
    unfit = ("adversarial", "reinforcement")
    defaults = thresholds(lost=0.5, share=0.2)
    action = (
        "compare the inputs of an evaluation before this step with those after it: files, preprocessing, "
        "order of axes, labels; see what else changed at this step with stepscope changes; go on from the "
        "checkpoint before it if the model itself broke"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._broken: dict[str, float] = {}

    def look(self, batch: StreamBatch) -> None:
        for chunk in batch.of(("loss",)):
            bad = np.flatnonzero(~np.isfinite(chunk.values))
            if len(bad):
                wall = float(chunk.walls[bad[0]])
                self._broken[chunk.stream.run] = min(wall, self._broken.get(chunk.stream.run, wall))
        super().look(batch)

    def see(self, facts: Facts, stream: Stream) -> Seen | None:
        falls = stream.lower_is_better
        if facts.finite < FEWEST or falls is None:
            return None
        self.judged()
        best, best_step = facts.least if falls else facts.most
        for change in reversed(facts.changes(SERIES)):
            if change.kind != "jump" or not change.lasts or change.before is None or change.after is None:
                continue
            worse = (change.after > change.before) == falls
            worse &= abs(change.after - change.before) > self.limits["share"] * abs(change.before)
            worse &= self._broken.get(stream.run, inf) > change.wall
            gained = abs(best - facts.first)
            if (
                not worse
                or abs(facts.level - best) <= self.limits["lost"] * gained
                or best_step > change.last_step
            ):
                return None
            text = f"it went from {number(change.before)} to {number(change.after)} and has not come back"
            values = {"before": change.before, "after": change.after, "best": best, "best_step": best_step}
            return Seen(text, values, change.first_step)
        return None
