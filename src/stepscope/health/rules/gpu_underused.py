"""gpu-underused: a GPU has too little to do."""

from __future__ import annotations

import numpy as np

from stepscope.health.batch import Chunk
from stepscope.health.gate import AlarmGate
from stepscope.health.ring import Ring, pieces
from stepscope.health.rule import At, PerStream, Rule, StreamWatch, finite, thresholds
from stepscope.health.series import Stream

EVERY = 12


class GpuUnderused(PerStream):
    """Looks at the percentiles of a GPU's utilization over a window of samples."""

    id = "gpu-underused"
    title = "GPU under-used"
    severity = "low"
    formula = (
        "95th percentile of the window < high: under-used; else 5th percentile < low: fluctuating; two "
        "checks in a row"
    )
    source = "SageMaker Debugger LowGPUUtilization (p95 < 70 %, p5 < 10 %)"
    window = "within 84 samples; at 5 s a sample 7 minutes"
    chance = "none from noise: percentiles of 60 samples, twice"
    fewest = "72 samples"
    roles = ("gpu",)
    defaults = thresholds(high=0.7, low=0.1, window=60, checks=2)
    action = (
        "larger batches, mixed precision, more of the step in one launch (PyTorch: torch.compile, CUDA "
        "graphs; JAX: the whole step in jax.jit, several by lax.scan; Keras: steps_per_execution, "
        "jit_compile=True); if data-wait is found too, fix the loader first; a profile of one step shows the "
        "gaps"
    )

    def watch(self, stream: Stream) -> StreamWatch:
        """Return what judges a series."""
        return _Percentiles(self)


class _Percentiles(StreamWatch):
    def __init__(self, rule: Rule) -> None:
        self._rule, self._ring = rule, Ring(rule.limit("window"))
        self._steps = Ring(rule.limit("window"))
        self._gate = AlarmGate(opens=rule.limit("checks"), closes=rule.limit("checks"))

    def take(self, chunk: Chunk) -> None:
        chunk = finite(chunk)
        for rows in pieces(self._ring.count, len(chunk), EVERY):
            part = chunk.part(rows)
            self._ring.push(part.values)
            self._steps.push(part.steps.astype(np.float64))
            if self._ring.full and self._ring.count % EVERY == 0:
                self._judge(part)

    def _judge(self, part: Chunk) -> None:
        self._rule.judged()
        limits = self._rule.limits
        low, high = np.percentile(self._ring.values, [5, 95]).tolist()
        change = self._gate.see(high < limits["high"] or low < limits["low"])
        at = At.row(part, -1, int(self._steps.values[0]))
        if change == "close":
            self._rule.close(at)
        elif change == "open":
            layer = part.stream.layer or "the GPU"
            text = (
                f"{layer} is hardly used: 95 % of the samples lie below {high:.0%}"
                if high < limits["high"]
                else f"{layer} is used in fits and starts: between {low:.0%} and {high:.0%}"
            )
            self._rule.open(at, text, {"p5": low, "p95": high})
