"""Rows summed by a common key, over all steps and per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.attribute.spans import Ints
from stepscope.trace.distinct import distinct, numbered
from stepscope.trace.model import Trace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PerStep:
    """How much of something a step holds, over the steps that hold any of it.

    The denominator is stated because it is not always the number of steps: work of every tenth step has
    its median over those.
    """

    steps: int
    """Steps in which it ran; each rank's step counts."""
    of_steps: int
    """Steps recorded. 0 if no steps were recorded, and the other values are then those of all that was."""
    min_ns: int
    median_ns: float
    max_ns: int


@dataclass(frozen=True, slots=True)
class Groups:
    """Numbers from 0 up for the distinct values of a key."""

    key: Ints
    """The distinct values, ascending."""
    of: Ints
    """Which of them each row has."""

    @classmethod
    def by(cls, key: Ints) -> Groups:
        """Group rows by any column of numbers."""
        return cls(*numbered(key))

    @classmethod
    def by_pair(cls, one: Ints, two: Ints) -> Groups:
        """Group rows by two columns of numbers from 0 up; the key is ``one << 32 | two``."""
        return cls.by(np.asarray(one, np.int64) << 32 | np.asarray(two, np.int64))

    def __len__(self) -> int:
        return len(self.key)

    def count(self) -> Ints:
        """Return how many rows each group has."""
        return np.bincount(self.of, minlength=len(self))

    def sum(self, value: Ints) -> Ints:
        """Return the sum of each group; exact below 2**53."""
        return np.bincount(self.of, weights=value, minlength=len(self)).astype(np.int64)

    def least(self, value: Ints) -> Ints:
        """Return the smallest value of each group."""
        out = np.full(len(self), np.iinfo(np.int64).max)
        np.minimum.at(out, self.of, value)
        return out

    def most(self, value: Ints) -> Ints:
        """Return the largest value of each group."""
        out = np.full(len(self), np.iinfo(np.int64).min)
        np.maximum.at(out, self.of, value)
        return out

    def per_step(self, trace: Trace, rows: Ints, value: Ints) -> list[PerStep]:
        """Return each group's value per step.

        Args:
            trace: The rows' trace.
            rows: The grouped rows.
            value: Nanoseconds of each of these rows.
        """
        time, ran, steps = step_matrix(trace, rows, self, value)
        return [per_step_of(time[g][ran[g]], steps) for g in range(len(self))]


def per_step_of(time: Floats, of_steps: int) -> PerStep:
    """Summarise the steps that hold something."""
    if not len(time):
        return PerStep(0, of_steps, 0, 0.0, 0)
    return PerStep(len(time), of_steps, int(time.min()), float(np.median(time)), int(time.max()))


def step_matrix(
    trace: Trace, rows: Ints, groups: Groups, value: Ints
) -> tuple[Floats, npt.NDArray[np.bool_], int]:
    """Sum values by group and step.

    Returns:
        f8[groups, steps] sums, whether each group ran in each step, and the number of recorded steps. Rows
        outside every step are left out; if no steps were recorded, everything is one column and the number
        is 0.
    """
    steps = trace.steps
    if not len(steps):
        time = _sums(groups.of, value, len(groups))
        return time[:, None], np.ones((len(groups), 1), bool), 0
    # (rank, number) as one sorted key; a number that a rank recorded twice is one step.
    known = distinct(_key(steps.rank, steps.number))
    mine = trace.step[rows] >= 0
    column = np.searchsorted(known, _key(trace.rank[rows[mine]], trace.step[rows[mine]]))
    cell = groups.of[mine] * len(known) + np.minimum(column, len(known) - 1)
    shape = (len(groups), len(known))
    size = shape[0] * shape[1]
    time = _sums(cell, value[mine], size).reshape(shape)
    return time, np.bincount(cell, minlength=size).reshape(shape) > 0, len(known)


def _key(rank: Ints, number: Ints) -> npt.NDArray[np.int64]:
    return (np.asarray(rank, np.int64) << 40) + np.asarray(number, np.int64)


def _sums(place: Ints, value: Ints, size: int) -> Floats:
    total: Floats = np.bincount(place, weights=value, minlength=size).astype(np.float64)
    return total
