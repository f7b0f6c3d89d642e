"""A sweep: its configurations, each the mean of its seeds, and which of them can be told from the best.

Runs that differ in nothing but their seeds are observations of one configuration. A setting is a seed if its
name says so (:func:`stepscope.names.settings.is_seed`), or if it only numbers or names the runs: no two runs
share its value, it is an integer or a text, and without it runs repeat each other. Fractions are never seeds:
a rate that is drawn at random is a setting. In a grid each setting differs alone between some runs, so that
this makes none a seed. Runs without recorded settings are each a configuration of their own: nothing says
that they repeat.

The configuration that comes first is judged against every other as any two sides of runs are
(:mod:`stepscope.analyze.judgement`), so that no sweep denies a comparison. Choosing the best first needs no
further correction (Gutmann and Maymin, Annals of Statistics 15, 1987).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.analyze.judgement import Curve, Judgement, judge
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
        judgement: Of the first configuration, as A, and this one; None: it is the first, or not compared.
    """

    runs: list[int]
    values: list[float] = field(default_factory=list)
    bad: int = 0
    missing: int = 0
    judgement: Judgement | None = None

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

    return sorted(rows, key=place)


def judge_rows(
    rows: Sequence[Configuration], curves: Sequence[Curve | None], lower: bool, **how: bool
) -> None:
    """Judge the first configuration against every other that has values, or loses its runs.

    Args:
        rows: As :func:`ranked` gives them.
        curves: Of each run.
        lower: Whether less is better.
        how: As :func:`~stepscope.analyze.judgement.judge` takes it.
    """

    def side(row: Configuration) -> list[Curve]:
        return [one for at in row.runs if (one := curves[at]) is not None]

    if rows and rows[0].values:
        first = side(rows[0])
        for row in rows[1:]:
            if row.values or row.bad:
                row.judgement = judge(first, side(row), lower=lower, **how)


def standing(rows: Sequence[Configuration], names: Sequence[str], lower: bool | None) -> str:
    """Return a sentence on whether one configuration is best.

    Args:
        rows: As :func:`judge_rows` leaves them.
        names: The name of each.
        lower: As there; None: neither end is better.
    """
    if lower is None:
        return "Whether low or high values are better is not known, so none is best"
    if not rows or not rows[0].values:
        return "No run has a finite value"
    first, others = names[0], [(row.judgement, name) for row, name in zip(rows, names, strict=True)][1:]
    judged = [(one, name) for one, name in others if one is not None]
    if not judged:
        return f"Only {first} has finite values"
    lost = "Every configuration has runs that are not finite. " if rows[0].bad else ""
    ahead = next((name for one, name in judged if one.verdict == "better"), None)
    if ahead is not None:
        return f"{lost}No winner: {ahead} is better than {first} over the steps that the two share"
    tied = [(one, name) for one, name in judged if one.verdict != "worse"]
    if not tied:
        valued = "every other" if len(judged) == len(others) else "every other with a value"
        every = valued if len(others) > 1 else judged[0][1]
        if all(one.chance == "runs" for one, _ in judged):
            return f"{lost}Best: {first}. It is better than {every}, by more than chance between runs"
        once = "both ran once" if len(judged) == 1 else "some ran once"
        return f"{lost}First: {first}. It is better than {every}, but {once}, so other seeds may differ"
    if len(tied) == 1:
        return f"{lost}No winner between {first} and {tied[0][1]}: {tied[0][0].word}, {tied[0][0].why}"
    words = " or ".join(dict.fromkeys(one.word for one, _ in tied))
    return f"{lost}No winner between {first} and {len(tied):,} others: {words}"
