"""The metrics of single batches, and their loss, which is derived from the mean that Keras reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepscope.record import Run

SCHEDULE_EVERY = 10
"""Recorded batches between two reads of a schedule, which computes the learning rate on the device."""


class BatchLoss:
    """Takes the running mean apart: if m(n) is the mean of n batches, batch n has n·m(n) - (n-1)·m(n-1).

    That holds for batches of one size. The last batch of an epoch may be smaller, so each loss is given only
    when another batch has followed. Values stay where they are, on the device. They are differences of
    float32: after n batches the error is about 1e-7 · n of the mean.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin an epoch: the mean starts over."""
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


class BatchMetrics:
    """Records the metrics of batches at an interval.

    Args:
        every: How many; 0 for none.
        batch_loss: Whether also the loss of the batches themselves.

    Attributes:
        recorded: The step that was recorded last; 0 before the first.
    """

    def __init__(self, every: int, *, batch_loss: bool) -> None:
        self._every, self._loss = every, BatchLoss() if batch_loss else None
        self.recorded = 0

    def begin(self) -> None:
        """Begin an epoch."""
        if self._loss is not None:
            self._loss.begin()

    def record(self, run: Run, step: int, batches: int, per_call: int, logs: Any) -> bool:
        """Record what a call of the training function gave, where it is one of those that are recorded.

        Args:
            run: The run.
            step: The step of the call.
            batches: How many there were in this epoch, those of this call included.
            per_call: Batches of this call.
            logs: Their metrics.

        Returns:
            Whether the schedule of the learning rate is to be asked, too.
        """
        if not self._every or step // self._every == (step - per_call) // self._every:
            return False
        self.recorded, metrics = step, dict(numbers(logs))
        run.scalars({f"train/{name}": value for name, value in metrics.items()}, step)
        mean = metrics.get("loss")
        if self._loss is not None and mean is not None:
            before = self._loss.next(step, batches, mean)
            if before is not None:
                run.scalar("train/batch_loss", before[1], before[0])
        return step // self._every % SCHEDULE_EVERY == 0


def numbers(logs: Any) -> list[tuple[str, Any]]:
    """Return the metrics of a batch, an epoch or an evaluation; of a metric with parts, each by its name."""
    found: list[tuple[str, Any]] = []
    for name, value in logs.items() if isinstance(logs, Mapping) else ():
        if isinstance(value, Mapping):
            found += [(f"{name}/{part}", number) for part, number in numbers(value)]
        else:
            found.append((str(name), value))
    return found
