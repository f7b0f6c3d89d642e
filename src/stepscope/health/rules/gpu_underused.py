"""gpu-underused: a GPU has too little to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepscope.health.ring import Floats
from stepscope.health.rule import At, PerStream, StreamWatch, Told, Windowed, thresholds
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
        return _Percentiles(self, EVERY)


class _Percentiles(Windowed):
    def judge(self, values: Floats) -> Callable[[At], Told] | None:
        limits = self.rule.limits
        low, high = np.percentile(values, [5, 95]).tolist()
        if high >= limits["high"] and low >= limits["low"]:
            return None

        def say(at: At) -> Told:
            layer = at.stream.layer or "the GPU"
            text = (
                f"{layer} is hardly used: 95 % of the samples lie below {high:.0%}"
                if high < limits["high"]
                else f"{layer} is used in fits and starts: between {low:.0%} and {high:.0%}"
            )
            return text, {"p5": low, "p95": high}

        return say
