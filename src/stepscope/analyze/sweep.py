"""A sweep: its configurations, each the mean of its seeds, and which of them can be told from the best.

Runs that differ in nothing but their seeds are observations of one configuration. A setting is a seed if its
name says so (:func:`stepscope.names.settings.is_seed`), or if it only numbers or names the runs: no two runs
share its value, it is an integer or a text, and without it runs repeat each other. Fractions are never seeds:
a rate that is drawn at random is a setting. In a grid each setting differs alone between some runs, so that
this makes none a seed. Runs without recorded settings are each a configuration of their own: nothing says
that they repeat.

The best mean is compared with every other by Welch's test (1947) at 5 % on both sides. Choosing the best
first needs no further correction (Gutmann and Maymin, Annals of Statistics 15, 1987). A configuration with a
single run is taken to be spread as the one that it is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.analyze.judgement import welch_margin
from stepscope.names.settings import is_seed

LEAST_RUNS = 8
"""Fewer runs show neither an importance nor which setting only names them."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The configurations of some runs.

    Attributes:
        members: The runs of each, by their places; in the order of their first runs.
        keys: Settings that differ and that are no seeds.
        seeds: The settings that were left out as seeds, each with the reason.
    """

    members: list[list[int]]
    keys: list[str]
    seeds: dict[str, str]


def configurations(configs: Sequence[Mapping[str, Any]]) -> Grouping:
    """Group runs by the settings that are no seeds.

    Args:
        configs: Flat settings of each run.
    """
    recorded = [config for config in configs if config]
    keys = [
        key
        for key in dict.fromkeys(key for config in recorded for key in config)
        if len({_text(config, key) for config in recorded}) > 1
    ]
    seeds = {key: "its name says so" for key in keys if is_seed(key)}
    rest = [key for key in keys if key not in seeds]
    if len(recorded) >= LEAST_RUNS:
        own = [key for key in rest if _numbers_runs(recorded, key)]
        shared = [key for key in rest if key not in own]
        if own and shared and all(len(runs) > 1 for runs in _grouped(recorded, shared)):
            seeds |= dict.fromkeys(own, "it only numbers or names the runs")
            rest = shared
    return Grouping(_grouped(configs, rest), rest, seeds)


def _text(config: Mapping[str, Any], key: str) -> str:
    return repr(config[key]) if key in config else "not set"


def _numbers_runs(configs: Sequence[Mapping[str, Any]], key: str) -> bool:
    """Return whether every run has a value of its own, an integer or a text."""
    values = [config.get(key) for config in configs]
    if any(value is None or isinstance(value, (float, bool)) for value in values):
        return False
    return len({repr(value) for value in values}) == len(values)


def _grouped(configs: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> list[list[int]]:
    members: dict[object, list[int]] = {}
    for at, config in enumerate(configs):
        name: object = tuple(_text(config, key) for key in keys) if config else at
        members.setdefault(name, []).append(at)
    return list(members.values())


@dataclass(slots=True)
class Configuration:
    """One configuration and the values of its runs.

    Attributes:
        runs: Places of its runs.
        values: The finite values.
        bad: Runs whose value is not finite.
        missing: Runs without a value.
        tied: Whether it cannot be told from the best.
    """

    runs: list[int]
    values: list[float] = field(default_factory=list)
    bad: int = 0
    missing: int = 0
    tied: bool = False

    @property
    def mean(self) -> float | None:
        """The mean of its finite values."""
        return float(np.mean(self.values)) if self.values else None

    @property
    def spread(self) -> float | None:
        """The sample's standard deviation; None with fewer than two values."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else None


def ranked(
    members: Sequence[list[int]], values: Sequence[float | None], lower: bool | None
) -> list[Configuration]:
    """Return configurations, the best first: those with runs that are not finite come after all others.

    Args:
        members: The runs of each.
        values: The value of each run; None: it has none.
        lower: Whether less is better; None: neither end is, and the least come first.
    """
    rows = []
    for runs in members:
        row = Configuration(runs)
        for at in runs:
            value = values[at]
            if value is None:
                row.missing += 1
            elif np.isfinite(value):
                row.values.append(value)
            else:
                row.bad += 1
        rows.append(row)
    sign = -1.0 if lower is False else 1.0

    def place(row: Configuration) -> tuple[bool, bool, float]:
        mean = row.mean
        return mean is None, row.bad > 0, sign * (0.0 if mean is None else mean)

    rows.sort(key=place)
    if lower is not None and rows and rows[0].values and not rows[0].bad:
        best = rows[0]
        for row in rows:
            row.tied = row is best or (bool(row.values) and not row.bad and not apart(best, row))
    return rows


def apart(a: Configuration, b: Configuration) -> bool:
    """Return whether two means differ beyond the chance between runs; of two single runs nothing tells."""
    margin = welch_margin(a.values, b.values)
    return margin is not None and abs(float(np.mean(a.values)) - float(np.mean(b.values))) > margin


def standing(rows: Sequence[Configuration], names: Sequence[str], lower: bool | None) -> str:
    """Return a sentence on whether one configuration is best.

    Args:
        rows: As :func:`ranked` gives them.
        names: The name of each.
        lower: As there.
    """
    if lower is None:
        return "Whether low or high values are better is not known, so none is best"
    tied = [name for row, name in zip(rows, names, strict=True) if row.tied]
    valued = [row for row in rows if row.values]
    if not valued:
        return "No run has a finite value"
    if not tied:
        return "Every configuration has runs that are not finite: none is best"
    if len(valued) == 1:
        return f"Only {tied[0]} has finite values"
    if all(len(row.values) == 1 for row in valued):
        return "No winner can be told: each configuration ran once, so nothing shows how much seeds differ"
    if len(tied) == 1:
        return f"Best: {tied[0]}. It differs from every other by more than chance between seeds"
    first = all(row.tied for row in rows[: len(tied)])
    those = f"the first {len(tied)}" if first else f"{len(tied)} configurations"
    between = f"between {tied[0]} and {tied[1]}" if len(tied) == 2 else f"among {those}"
    single = [len(row.values) == 1 for row in rows if row.tied]
    if all(single):
        return f"No winner {between} can be told: each ran once, so nothing shows how much seeds differ"
    other = "these values differ no more" + ("" if len(tied) == 2 else f" from that of {tied[0]}")
    once = ", or ran once as it did" if single[0] and sum(single) > 1 else ""
    return f"No winner {between}: {other} than seeds do by chance{once}"
