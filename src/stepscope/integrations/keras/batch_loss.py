"""The loss of single batches, derived from the mean that Keras gives."""

from __future__ import annotations

from typing import Any


class BatchLoss:
    """Takes the running mean apart: with m the mean of n batches, batch n has n·m(n) - (n-1)·m(n-1).

    That holds for batches of one size. The last batch of an epoch may be smaller, so each loss is given only
    when another batch has followed. Values stay where they are, on the device. They are differences of
    float32: after n batches the error is about 1e-7 · n of the mean.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin an epoch: the mean begins anew."""
        self._batches, self._total = 0, 0.0
        self._waiting: tuple[int, Any] | None = None

    def next(self, step: int, batches: int, mean: Any) -> tuple[int, Any] | None:
        """Take the mean after a batch and return step and loss of what came before it.

        Args:
            step: The step of this batch.
            batches: How many there were in this epoch, this one included.
            mean: The mean of all of them. What is returned is a mean, too, where it is not given every time.
        """
        ready, total = self._waiting, mean * batches
        self._waiting = step, (total - self._total) / (batches - self._batches)
        self._batches, self._total = batches, total
        return ready
