"""How much of a metric goes with each setting of the runs, and how much of that chance alone would give.

Runs are ranked by the metric, so that one run far away counts no more than any other. A setting splits the
runs into groups: its values if they are few, else about equally many runs each in the order of its numbers,
so that a best value in the middle is seen too. The share is that of the ranks' variance that lies between
groups, adjusted for their number: 1 - (1 - η²)(n - 1)/(n - k) (Kelley 1935). Chance is the share below which
the largest of all settings stays in 19 of 20 random orders of the metric (Westfall and Young 1993), so that
many settings make no setting important.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.rank_test import doubled_ranks

Floats = npt.NDArray[np.float64]
LEAST_RUNS = 8
"""Fewer runs say nothing."""
MOST_VALUES = 5
"""Numbers with more values than this are put into groups."""
MOST_GROUPS = 5
ORDERS = 999


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance of one setting.

    Attributes:
        key: Its name.
        share: Adjusted share of the ranks' variance; below 0: less than chance gives on average; None: it
            cannot be told.
        told: Whether the share is beyond that of chance.
        correlation: Spearman's rank correlation; None if its values are not numbers.
        groups: Value or range, runs, and median of the metric, the least median first.
        reason: Why there is no share; empty if there is one.
    """

    key: str
    share: float | None
    told: bool
    correlation: float | None
    groups: tuple[tuple[str, int, float], ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Importances:
    """The importance of all settings, the most important first, and the share that chance reaches."""

    settings: tuple[Importance, ...]
    chance: float | None
    runs: int


def importances(configs: Sequence[Mapping[str, Any]], metric: Sequence[float]) -> Importances:
    """Return the importance of each setting for a metric.

    Args:
        configs: Flat settings of each run.
        metric: A finite value of each run.
    """
    values = np.asarray(metric, float)
    ranks = _ranks(values)
    keys = list(dict.fromkeys(key for each in configs for key in each))
    splits = [_split([each.get(key, "not set") for each in configs]) for key in keys]
    enough = len(values) >= LEAST_RUNS and len(set(values.tolist())) > 1
    usable = [split for split in splits if not split.reason]
    chance = _chance(ranks, usable) if enough and usable else None
    found = []
    for key, split in zip(keys, splits, strict=True):
        part = None if split.reason or not enough else _share(ranks, split.groups, len(split.labels))
        correlation = None
        if split.numbers is not None and enough and not split.reason:
            correlation = float(np.corrcoef(_ranks(split.numbers), ranks)[0, 1])
        groups = tuple(
            (label, int((split.groups == at).sum()), float(np.median(values[split.groups == at])))
            for at, label in enumerate(split.labels)
        )
        reason = split.reason or ("" if enough else f"fewer than {LEAST_RUNS} runs, or all alike")
        found.append(
            Importance(
                key,
                part,
                part is not None and chance is not None and part > chance,
                correlation,
                () if split.reason else tuple(sorted(groups, key=lambda group: group[2])),
                reason,
            )
        )
    found.sort(key=lambda one: -np.inf if one.share is None else one.share, reverse=True)
    return Importances(tuple(found), chance, len(values))


@dataclass(frozen=True, slots=True)
class _Split:
    groups: npt.NDArray[np.int64]
    labels: list[str]
    numbers: Floats | None
    reason: str = ""


def _split(values: Sequence[Any]) -> _Split:
    texts = [str(value) for value in values]
    distinct = list(dict.fromkeys(texts))
    numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    numbers = np.asarray(values, float) if numeric and np.isfinite(np.asarray(values, float)).all() else None
    if len(distinct) < 2:
        return _Split(np.zeros(len(values), np.int64), distinct, numbers, "the same in all runs")
    if numbers is not None and len(distinct) > MOST_VALUES:
        return _binned(numbers)
    groups = np.array([distinct.index(text) for text in texts])
    lone = "nearly every run has its own value" if len(distinct) > len(values) / 2 else ""
    return _Split(groups, distinct, numbers, lone)


def _binned(numbers: Floats) -> _Split:
    """Put about equally many runs into each group, by their numbers; equal numbers stay together."""
    count = max(2, min(MOST_GROUPS, round(len(numbers) ** 0.5)))
    raw = np.minimum(count - 1, (_ranks(numbers) * count / len(numbers)).astype(int))
    _, groups = np.unique(raw, return_inverse=True)
    labels = []
    for at in range(int(groups.max()) + 1):
        own = numbers[groups == at]
        low, high = f"{own.min():.3g}", f"{own.max():.3g}"
        labels.append(low if low == high else f"{low} to {high}")
    return _Split(groups, labels, numbers)


def _ranks(values: Floats) -> Floats:
    """Return ranks from 0; equal values share the mean of theirs."""
    return doubled_ranks(values) / 2 - 1


def _share(ranks: Floats, groups: npt.NDArray[np.int64], count: int) -> float | None:
    size = len(ranks)
    if size <= count:
        return None
    centred = ranks - (size - 1) / 2
    sums, sizes = np.bincount(groups, centred, count), np.bincount(groups, minlength=count)
    between = float((sums**2 / np.maximum(1, sizes)).sum())
    return 1 - (1 - between / float((centred**2).sum())) * (size - 1) / (size - count)


def _chance(ranks: Floats, splits: Sequence[_Split]) -> float:
    """Return the largest share of all settings in 19 of 20 random orders, the same ones every time."""
    random = np.random.default_rng(1)
    size = len(ranks)
    orders = random.permuted(np.tile(ranks, (ORDERS, 1)), axis=1) - (size - 1) / 2
    total = float(((ranks - (size - 1) / 2) ** 2).sum())
    largest = np.zeros(ORDERS)
    for split in splits:
        count = len(split.labels)
        if size <= count:
            continue
        member = np.eye(count)[split.groups]
        sums = orders @ member
        between = (sums**2 / np.maximum(1, member.sum(axis=0))).sum(axis=1)
        largest = np.maximum(largest, 1 - (1 - between / total) * (size - 1) / (size - count))
    return float(np.sort(largest)[int(np.ceil(0.95 * ORDERS)) - 1])
