"""Evaluation losses, each with the training loss of the same time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, nan
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stepscope.health.batch import StreamBatch
from stepscope.health.rule import At, Rule
from stepscope.health.series import Stream


@dataclass
class Mark:
    """How far the training had come at the last evaluation of one series."""

    step: int
    total: float = 0.0
    points: int = 0
    train: float = nan
    beginnings: int = 0


class Evaluated(Rule):
    """A rule that compares each evaluation loss with the mean of the training losses since the one before.

    Of several training losses the first one counts; every evaluation loss is judged separately.
    """

    roles: ClassVar[tuple[str, ...]] = ("loss",)

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._training: Stream | None = None
        self._total, self._points = 0.0, 0
        self._marks: dict[Stream, Mark] = {}
        self._parts: set[str] = set()

    @abstractmethod
    def evaluation(self, at: At, value: float, train: float) -> None:
        """Judge one evaluation; ``train`` is NaN before any training loss."""

    @abstractmethod
    def forget(self, stream: Stream) -> None:
        """Judge a series as if it had just begun, because another fold, stage or task has."""

    def look(self, batch: StreamBatch) -> None:
        """Walk through training and evaluation in the order of time."""
        chunks = batch.of(("loss",))
        if (
            len(chunks) == 1
            and chunks[0].stream.split != "eval"
            and self._training in (None, chunks[0].stream)
        ):
            self._training = chunks[0].stream
            self._parts.add("train")
            self._train(chunks[0].values)
            return
        for stream, step, value, wall in batch.points(("loss",)):
            if stream.split == "eval":
                self._evaluate(stream, step, value, wall)
                continue
            if self._training is None:
                self._training = stream
                self._parts.add("train")
            if stream == self._training:
                self._train(np.array([value]))

    def _train(self, values: NDArray[np.float64]) -> None:
        # One after the other: another order of adding would make the sum depend on the portions.
        good = values[np.isfinite(values)]
        self._total = float(np.add.accumulate(np.concatenate([[self._total], good]))[-1])
        self._points += len(good)

    def _evaluate(self, stream: Stream, step: int, value: float, wall: float) -> None:
        self._parts.add("eval")
        mark = self._marks.setdefault(stream, Mark(step))
        beginnings = self.context.beginnings(stream, wall)
        if beginnings > mark.beginnings:
            mark.beginnings = beginnings
            self.close(At(stream, step, wall, step))
            self.forget(stream)
        if self._points > mark.points:
            mark.train = (self._total - mark.total) / (self._points - mark.points)
        mark.total, mark.points = self._total, self._points
        if isfinite(value) and isfinite(mark.train):
            self.evaluation(At(stream, step, wall, min(mark.step, step)), value, mark.train)
        mark.step = step

    @property
    def missing(self) -> str | None:
        """Both losses are needed."""
        if not self.found and not self._judged and self._parts != {"train", "eval"}:
            lacks = "an evaluation loss, as eval/loss" if "eval" not in self._parts else "a training loss"
            return f"not recorded: {lacks}"
        return super().missing
