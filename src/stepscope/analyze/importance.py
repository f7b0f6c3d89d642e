"""How much of a metric goes with each setting of a sweep, and how much of that chance alone would give.

The unit is the configuration: the seeds of one are averaged, because runs that differ in seeds alone are no
independent evidence about a setting. Configurations are ranked by the metric, so that one far away counts
no more than any other. A setting splits them into groups: its values if they are few, else about equally
many each in the order of its numbers, so that a best value in the middle is seen too. The share is that of
the ranks' variance that lies between groups, adjusted for their number: 1 - (1 - η²)(n - 1)/(n - k) (Kelley
1935). Chance is the share below which the largest of all settings stays in 19 of 20 random orders of the
metric (Westfall and Young 1993), so that many settings make no setting important.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyze.rank_test import doubled_ranks
from stepscope.analyze.sweep import LEAST_RUNS, Grouping, configurations

Floats = npt.NDArray[np.float64]
MOST_VALUES = 5
"""Numbers with more values than this are put into groups."""
MOST_GROUPS = 5
ORDERS = 999


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """The configurations with one value, or range of values, of a setting.

    Attributes:
        label: The value or range.
        count: Configurations in it.
        median: Their median of the metric.
    """

    label: str
    count: int
    median: float


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance of one setting.

    Attributes:
        key: Its name.
        share: Adjusted share of the ranks' variance; below 0: less than chance gives on average; None: it
            cannot be told.
        told: Whether the share is beyond that of chance.
        correlation: Spearman's rank correlation; None if its values are not numbers.
        groups: The least median first.
        alike: Another setting that splits the configurations alike, so that the two cannot be told apart.
        reason: Why there is no share; empty if there is one.
    """

    key: str
    share: float | None
    told: bool
    correlation: float | None
    groups: tuple[SettingGroup, ...]
    alike: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Importances:
    """The importance of all settings, the most important first, and the share that chance reaches.

    Attributes:
        units: Configurations with a finite value.
        runs: Their runs with one.
    """

    settings: tuple[Importance, ...]
    chance: float | None
    units: int
    runs: int


def importances(
    configs: Sequence[Mapping[str, Any]], metric: Sequence[float], grouping: Grouping | None = None
) -> Importances:
    """Return the importance of each setting for a metric.

    Args:
        configs: Flat settings of each run.
        metric: A value of each run; those that are not finite are left out.
        grouping: The configurations of these runs; None: they are found.
    """
    grouping = grouping or configurations(configs)
    finite = [[at for at in runs if np.isfinite(metric[at])] for runs in grouping.members]
    members = [runs for runs in finite if runs]
    values = np.array([np.mean([metric[at] for at in runs]) for runs in members])
    ranks = _ranks(values)
    splits = {
        key: _split([configs[runs[0]].get(key, "not set") for runs in members]) for key in grouping.keys
    }
    lacking = "all alike" if len(set(values.tolist())) < 2 else ""
    if len(values) < LEAST_RUNS:
        lacking = f"fewer than {LEAST_RUNS} configurations"
    usable = [split for split in splits.values() if not split.reason]
    chance = _chance(ranks, usable) if usable and not lacking else None
    alike: dict[tuple[int, ...], list[str]] = {}
    for key, split in splits.items():
        alike.setdefault(_in_order(split.groups), []).append(key)
    rows = [
        Importance(key, None, False, None, (), reason=f"a seed: {why}") for key, why in grouping.seeds.items()
    ]
    for key, split in splits.items():
        if split.reason:
            rows.append(Importance(key, None, False, None, (), reason=lacking or split.reason))
            continue
        part = correlation = None
        if not lacking:
            shares = _shares(ranks[None, :], split)
            part = None if shares is None else float(shares[0])
            if split.numbers is not None:
                correlation = float(np.corrcoef(_ranks(split.numbers), ranks)[0, 1])
        groups = [
            SettingGroup(label, int((split.groups == at).sum()), float(np.median(values[split.groups == at])))
            for at, label in enumerate(split.labels)
        ]
        others = (other for other in alike[_in_order(split.groups)] if other != key)
        rows.append(
            Importance(
                key,
                part,
                part is not None and chance is not None and part > chance,
                correlation,
                tuple(sorted(groups, key=lambda group: group.median)),
                next(others, None),
                lacking,
            )
        )
    rows.sort(key=lambda one: -np.inf if one.share is None else one.share, reverse=True)
    return Importances(tuple(rows), chance, len(values), sum(map(len, members)))


def _in_order(groups: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """Return the groups numbered as they first occur, so that splits into the same groups are equal."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(group, len(numbers)) for group in groups.tolist())


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
        return _Split(np.zeros(len(values), np.int64), distinct, numbers, "the same in all configurations")
    if numbers is not None and len(distinct) > MOST_VALUES:
        return _binned(numbers)
    groups = np.array([distinct.index(text) for text in texts])
    lone = "nearly every configuration has its own value" if len(distinct) > len(values) / 2 else ""
    return _Split(groups, distinct, numbers, lone)


def _binned(numbers: Floats) -> _Split:
    """Put about equally many into each group, by their numbers; equal numbers stay together."""
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


def _shares(orders: Floats, split: _Split) -> Floats | None:
    """Return the adjusted share in each order of the ranks; None if there are too many groups for one.

    Args:
        orders: f8[orders, configurations], each with the same ranks.
        split: Of the configurations.
    """
    size, count = orders.shape[1], len(split.labels)
    if size <= count:
        return None
    centred = orders - (size - 1) / 2
    member = np.eye(count)[split.groups]
    between = ((centred @ member) ** 2 / np.maximum(1, member.sum(axis=0))).sum(axis=1)
    return np.asarray(1 - (1 - between / (centred[0] ** 2).sum()) * (size - 1) / (size - count))


def _chance(ranks: Floats, splits: Sequence[_Split]) -> float:
    """Return the largest share of all settings in 19 of 20 random orders, the same ones every time."""
    orders = np.random.default_rng(1).permuted(np.tile(ranks, (ORDERS, 1)), axis=1)
    largest = np.zeros(ORDERS)
    for split in splits:
        shares = _shares(orders, split)
        if shares is not None:
            largest = np.maximum(largest, shares)
    return float(np.sort(largest)[int(np.ceil(0.95 * ORDERS)) - 1])
