"""Which steps are measured: a grid of step numbers that depends on nothing else.

Ranks that know the same step number agree without a word, and one that missed a step is back in line at the
next grid point. Seconds, or a rank's own count of samples, would let ranks drift apart.
"""

from __future__ import annotations

import bisect
import math
import zlib
from collections.abc import Callable

DENSE_STEPS = 10
GROWTH = 1.3
HIGHEST_STRETCH = 1 << 20


class Sampling:
    """Says of each step whether it is measured, and how thoroughly.

    Each of the first steps is measured, then every 1.3th, until the distance is ``every_n_steps``; from there
    on the multiples of it. A step number beyond a grid point makes that point's sample, once.

    Args:
        every_n_steps: Distance of samples in the long run.
        histograms_every: Distance of samples with histograms; 0 for none.
        dense_steps: How many first steps are all measured; 0 to keep to the multiples from the beginning.
        probability: With which a grid point is measured, the same points on all ranks.
        seed: Of that choice.
        wanted: Further steps, by number; the same on all ranks.
    """

    def __init__(
        self,
        every_n_steps: int,
        *,
        histograms_every: int = 0,
        dense_steps: int = DENSE_STEPS,
        probability: float = 1.0,
        seed: int = 0,
        wanted: Callable[[int], bool] | None = None,
    ) -> None:
        self.every_n_steps, self.histograms_every = every_n_steps, histograms_every
        self.probability, self.seed, self.wanted = probability, seed, wanted
        self._early = early(every_n_steps, dense_steps)
        self._stretches: list[tuple[int, int]] = [(-1, 1)]
        self._last = self._last_histogram = -1

    def due(self, step: int) -> bool:
        """Whether a step is measured; asking marks it as done."""
        due = self.ahead(step)
        point = self.point(step)
        self._last = point if step < self._last else max(point, self._last)
        return due

    def ahead(self, step: int) -> bool:
        """Whether a step will be measured, without marking it."""
        if self.wanted is not None and self.wanted(step):
            return True
        point = self.point(step)
        new = point > self._last or step < self._last  # numbers that begin anew
        return new and self._chosen(point)

    def histogram_due(self, step: int) -> bool:
        """Whether a measured step has histograms; asking marks it."""
        if not self.histograms_every:
            return False
        mark = step // (self.histograms_every * self.stretch(step))
        new, self._last_histogram = mark != self._last_histogram, mark
        return new

    def point(self, step: int) -> int:
        """Return the last grid point up to a step, as a step number."""
        distance = self.every_n_steps * self.stretch(step)
        at = bisect.bisect_right(self._early, step)
        return max(self._early[at - 1] if at else -1, step // distance * distance)

    def stretch(self, step: int) -> int:
        """Return by what the distances are multiplied at a step."""
        at = bisect.bisect_right(self._stretches, (step, HIGHEST_STRETCH))
        return self._stretches[at - 1][1]

    def stretch_from(self, step: int, factor: int) -> None:
        """Multiply the distances from a step on."""
        if factor != self._stretches[-1][1]:
            self._stretches = [pair for pair in self._stretches if pair[0] < step] + [(step, factor)]

    def turn(self, step: int, turns: int) -> int:
        """Return which part of the layers has its turn, of so many: the next one at each grid point."""
        point = self.point(step)
        at = bisect.bisect_left(self._early, point)
        early = at < len(self._early) and self._early[at] == point
        return (at if early else point // (self.every_n_steps * self.stretch(step)) + at) % turns

    def _chosen(self, point: int) -> bool:
        if self.probability >= 1:
            return True
        return zlib.crc32(f"{self.seed}:{point}".encode()) < self.probability * 2**32


def early(every_n_steps: int, dense_steps: int) -> list[int]:
    """Return the first grid points: dense, then growing apart to the regular distance."""
    points = list(range(min(dense_steps, every_n_steps)))
    at = float(dense_steps)
    while dense_steps and at < every_n_steps / (GROWTH - 1) and int(at) - points[-1] < every_n_steps:
        if int(at) > points[-1]:
            points.append(int(at))
        at *= GROWTH
    return points


def stretch_for(cost_seconds: float, step_seconds: float, every_n_steps: int, max_overhead: float) -> int:
    """Return by what to multiply the distance of samples so that their cost stays within a share of the time.

    Args:
        cost_seconds: What a sample costs, on the slowest rank.
        step_seconds: How long a step takes.
        every_n_steps: Distance without stretching.
        max_overhead: The share, from 0 to 1.
    """
    if not (cost_seconds > 0 and step_seconds > 0):
        return 1
    factor = math.ceil(cost_seconds / (step_seconds * every_n_steps * max_overhead))
    return min(max(1 << max(factor - 1, 0).bit_length(), 1), HIGHEST_STRETCH)
