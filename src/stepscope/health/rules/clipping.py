"""clipping: gradients are clipped at most steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.gate import AlarmGate
from stepscope.health.pairs import Paired
from stepscope.health.ring import Ring, Steps, pieces
from stepscope.health.rule import At, finite, thresholds
from stepscope.health.series import Stream

EVERY = 20
ALWAYS = 0.9
"""Share of clipped steps that counts if nothing says by how much they were clipped."""


class Clipping(Paired):
    """Compares the gradient norm before clipping with the one after it, over a window of samples.

    Clipping that halves the norm is common and harmless; if it divides the norm by far more at most steps,
    the threshold sets the step, not the gradient.
    """

    id = "clipping"
    title = "Clipping too often"
    severity = "low"
    formula = (
        "share of samples with ‖g after clipping‖ < ‖g‖ / factor > ratio of the last window samples; closes "
        "below calm_ratio; if only the share of clipped steps is recorded, that share > 0.9"
    )
    source = "Google deep learning tuning playbook (more than 50 % is extremely aggressive); the factor: ours"
    window = "within 220 samples"
    chance = "none from noise: most steps must lose most of their gradient"
    fewest = "200 samples of the norm before and after clipping"
    roles = ("gradient_norm", "clipped_norm", "clipped")
    pair = ("gradient_norm", "clipped_norm")
    unfit = ("adversarial", "reinforcement", "private")
    defaults = thresholds(ratio=0.5, calm_ratio=0.4, factor=10, window=200)
    action = (
        "clip near the 90th percentile of the unclipped norm, or lower the learning rate: when every step is "
        "clipped, the threshold is the learning rate"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._shares: dict[Stream, tuple[Ring, Steps, AlarmGate]] = {}

    def look(self, batch: StreamBatch) -> None:
        """Pair the norms; a recorded share needs no pair."""
        super().look(batch)
        for chunk in map(finite, batch.of(("clipped",))):
            self._add(chunk, np.clip(chunk.values, 0.0, 1.0), ratio=ALWAYS)

    def pairs(self, first: Chunk, second: Chunk) -> None:
        """Judge for each step whether it was clipped."""
        rows = np.flatnonzero(np.isfinite(first.values) & np.isfinite(second.values))
        before, after = first.part(rows), second.part(rows)
        self._add(before, (after.values * self.limits["factor"] < before.values).astype(np.float64))

    def _add(self, chunk: Chunk, shares: NDArray[np.float64], ratio: float = 0.0) -> None:
        size = self.limit("window")
        ring, steps, gate = self._shares.setdefault(chunk.stream, (Ring(size), Steps(size), AlarmGate()))
        for rows in pieces(ring.count, len(chunk), EVERY):
            ring.push(shares[rows])
            steps.push(chunk.steps[rows])
            if ring.full and ring.count % EVERY == 0:
                self._judge(
                    At.row(chunk.part(rows), -1, int(steps.values[0])), float(ring.values.mean()), gate, ratio
                )

    def _judge(self, at: At, share: float, gate: AlarmGate, least: float) -> None:
        self.judged()
        change = gate.see(share > max(self.limits["calm_ratio" if gate.is_open else "ratio"], least))
        if change == "close":
            self.close(at, about="share")
        elif change == "open":
            much = "" if least else f" to less than 1/{self.limits['factor']:g} of their norm"
            text = f"{share:.0%} of the last {self.limit('window')} samples were clipped{much}"
            self.open(at, text, {"clipped_ratio": share}, about="share")

    @property
    def missing(self) -> str | None:
        """Both norms are needed."""
        if "clipped" in self._seen or {"gradient_norm", "clipped_norm"} <= set(self._seen):
            return super().missing
        lacks = "before" if "gradient_norm" not in self._seen else "after"
        return f"not recorded: the gradient norm {lacks} clipping"
