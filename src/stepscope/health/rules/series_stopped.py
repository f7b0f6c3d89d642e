"""series-stopped: an evaluation has no later points while the training goes on."""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.health.batch import StreamBatch
from stepscope.health.facts import FEWEST_GAPS, Facts
from stepscope.health.looks import FactRule, Seen
from stepscope.health.rule import At, thresholds
from stepscope.health.series import Stream
from stepscope.text import number


class SeriesStopped(FactRule):
    """Compares the time since an evaluation's last point with the longest time between two of its points."""

    id = "series-stopped"
    title = "Evaluation stopped"
    severity = "low"
    formula = (
        "the newest point of the training loss is more than gaps times the longest gap between the "
        "evaluation's points later than its last one"
    )
    source = "a prediction interval of its own gaps: after five of them, three times the longest; ours"
    window = "at the end of what is recorded"
    chance = "below 1 % of evaluations whose gaps fall off exponentially"
    fewest = "6 evaluations and a training loss"
    roles = ("loss", "metric")
    needs = ("loss",)
    splits = ("eval",)
    defaults = thresholds(gaps=3)
    action = (
        "look whether the evaluation raised an error that was caught, was switched off, or is recorded under "
        "another name; without it nothing says when to stop"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._newest: dict[str, tuple[float, int]] = {}

    def look(self, batch: StreamBatch) -> None:
        for chunk in batch.of(("loss",)):
            if chunk.stream.split == "train" and len(chunk):
                newest = float(chunk.walls[-1]), int(chunk.steps[-1])
                self._newest[chunk.stream.run] = max(newest, self._newest.get(chunk.stream.run, newest))
        super().look(batch)

    def see(self, facts: Facts, stream: Stream) -> Seen | None:
        """Return nothing: only the end of what is recorded tells that nothing comes."""
        if facts.count >= FEWEST_GAPS:
            self.judged()
        return None

    def ended(self, facts: Facts, stream: Stream) -> None:
        if facts.count < FEWEST_GAPS or stream.run not in self._newest:
            return
        wall, step = self._newest[stream.run]
        missing_s = wall - facts.last_wall
        if facts.gap_s > 0 and missing_s > self.limits["gaps"] * facts.gap_s:
            text = (
                f"its last point is at step {facts.last_step:,}, {number(missing_s)} s before the end of the "
                f"training loss; the longest gap between its points was {number(facts.gap_s)} s"
            )
            values = {"missing_s": missing_s, "longest_gap_s": facts.gap_s}
            at = At(stream, max(step, facts.last_step), wall, facts.last_step)
            self.open(at, text, values, since_step=facts.last_step)
