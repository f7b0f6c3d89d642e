"""class-imbalance: the logged labels are mostly of few classes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from stepscope.health.batch import StreamBatch
from stepscope.health.gate import AlarmGate
from stepscope.health.layers import Place
from stepscope.health.rule import At, Rule, thresholds
from stepscope.health.series import Stream
from stepscope.text import number


class ClassImbalance(Rule):
    """Adds up the counts of labels logged as ``labels/CLASS``."""

    id = "class-imbalance"
    title = "Class imbalance"
    severity = "low"
    formula = (
        "most frequent / rarest class > ratio, once so many labels were counted; a class never seen counts "
        "as 1"
    )
    source = "SageMaker Debugger ClassImbalance (10, 500 samples)"
    window = "at the first count after 500 labels"
    chance = "none from noise: a factor of 10 among 500 labels"
    fewest = "500 labels"
    roles = ("labels",)
    defaults = thresholds(ratio=10, labels=500)
    action = (
        "weight the loss or the sampler by class, report metrics per class, collect more of the rare ones"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._counts: dict[Place, dict[Stream, float]] = {}
        self._gates: dict[Place, tuple[AlarmGate, Stream, int]] = {}

    def look(self, batch: StreamBatch) -> None:
        """Count, and judge once every class had its turn in a step."""
        for stream, step, value, wall in batch.points(self.roles):
            place = stream.run, stream.rank
            counts = self._counts.setdefault(place, {})
            if isfinite(value) and value > 0:
                counts[stream] = counts.get(stream, 0.0) + value
            else:
                counts.setdefault(stream, 0.0)
            gate, home, last = self._gates.get(place, (AlarmGate(closes=1), stream, step))
            if step != last and stream == home:
                self._judge(At(home, step, wall, step), gate, counts)
            self._gates[place] = gate, home, step if stream == home else last

    def _judge(self, at: At, gate: AlarmGate, counts: dict[Stream, float]) -> None:
        total = sum(counts.values())
        if total < self.limits["labels"] or len(counts) < 2:
            return
        self.judged()
        most, least = max(counts, key=counts.__getitem__), min(counts, key=counts.__getitem__)
        ratio = counts[most] / max(counts[least], 1.0)
        change = gate.see(ratio > self.limits["ratio"] * (0.8 if gate.is_open else 1.0))
        if change == "close":
            self.close(at)
        elif change == "open":
            text = (
                f"class {most.layer} is {number(ratio)} times as frequent as class {least.layer}: "
                f"{counts[most]:,.0f} and "
                f"{counts[least]:,.0f} of {total:,.0f} labels"
            )
            self.open(
                at, text, {"ratio": ratio, "most": counts[most], "least": counts[least], "labels": total}
            )
