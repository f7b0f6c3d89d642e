"""The size of the batch, judged by the gradient noise scale."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.health.ring import median
from stepscope.text import number

RECENT = 20
"""Estimates whose median counts; each is a running mean already."""


@dataclass(frozen=True)
class BatchSize:
    """The batch of a job against the noise of its gradients.

    Attributes:
        noise: The simple noise scale, in batches of one rank: the critical batch size.
        ranks: The batch of the job, in the same unit.
    """

    noise: float
    ranks: int

    @property
    def fewer_steps(self) -> float:
        """Share of the steps that twice the batch would spare."""
        return 1 - (1 + self.noise / (2 * self.ranks)) / (1 + self.noise / self.ranks)

    @property
    def more_samples(self) -> float:
        """Share of further samples that twice the batch would cost."""
        return (1 + 2 * self.ranks / self.noise) / (1 + self.ranks / self.noise) - 1

    @property
    def text(self) -> str:
        """Return it as a sentence."""
        return (
            f"batch size: the gradient noise scale is {number(self.noise)} batches of a rank, and the job "
            f"has {self.ranks}; twice the batch would take {self.fewer_steps:.0%} fewer steps and cost "
            f"{self.more_samples:.0%} more samples"
        )


def batch_size(scales: NDArray[np.float64], ranks: int | None) -> BatchSize | None:
    """Return what noise scales say; None if there are too few, or none that makes sense.

    To reach a loss takes S = S_min (1 + B_noise / B) steps and E = E_min (1 + B / B_noise) samples, by
    McCandlish et al. 2018 (arXiv 1812.06162), equations 2.7 and 5.1, where B_noise is the simple noise scale.

    Args:
        scales: As recorded under ``gradients/noise_scale``, in batches of one rank.
        ranks: World size of the job.
    """
    good = scales[np.isfinite(scales) & (scales > 0)][-RECENT:]
    if len(good) < RECENT or ranks is None or ranks < 2:
        return None
    noise = median(good)
    return BatchSize(noise, ranks) if math.isfinite(noise) else None
