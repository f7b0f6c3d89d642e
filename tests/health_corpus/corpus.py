"""Reads the corpus and says how right the rules are: false alarms, recall, delay."""

import gzip
import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.analyze.health.judge import AttemptSeries, judge
from stepscope.events import EventFile
from stepscope.health import RULES, Finding, Verdict
from stepscope.health.changes import RecordedSeries

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Training:
    """One training of the corpus, as the manifest has it.

    Attributes:
        planted: The rule that has to fire, from which step to which, and what else may; None: it is healthy.
    """

    name: str
    task: str
    split: str
    steps: int
    rhythm: str
    planted: dict[str, Any] | None
    where: Path = HERE / "runs"

    @property
    def attempt(self) -> AttemptSeries:
        """All that it logged."""
        return AttemptSeries(1, list(points_of(self.name, self.where)))


def trainings(split: str | None = None) -> list[Training]:
    """Return the trainings, or those of a split: ``tune``, ``judge`` or ``fresh``."""
    every = [Training(**facts) for facts in json.loads((HERE / "manifest.json").read_text())]
    return [each for each in every if split in (None, each.split)]


@cache
def points_of(name: str, where: Path = HERE / "runs") -> tuple[RecordedSeries, ...]:
    """Return the series of a training."""
    found = []
    for path in sorted(where.glob(f"{name}.*gz")):
        part = path.name.removeprefix(f"{name}.").removesuffix("tfevents.gz").rstrip(".")
        with tempfile.TemporaryDirectory() as directory:
            plain = Path(directory) / "events.out.tfevents.0.corpus"
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            batch = EventFile(plain).read()
        for each in batch.scalars:
            columns = np.array(each.step), np.array(each.value), np.array(each.wall)
            found.append(
                RecordedSeries(each.tag, *columns, None, part, "eval" if part == "validation" else None)
            )
    return tuple(found)


@dataclass
class Score:
    """How right the rules are on some trainings.

    Attributes:
        healthy: Number of healthy trainings.
        planted: Number of others.
        false: Findings about a healthy training, or before anything was planted, by training.
        missed: Trainings whose planted condition was not found within its window.
        delay: Share of the window after which each planted one was found.
        pairs: Pairs of a healthy training and a rule.
    """

    healthy: int = 0
    planted: int = 0
    judged: int = 0
    false: dict[str, list[Finding]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    delay: list[float] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    wanted: Counter[str] = field(default_factory=Counter)

    @property
    def high(self) -> list[Finding]:
        """False findings that claim what a person would stop a run for."""
        return [each for found in self.false.values() for each in found if each.severity == "high"]

    @property
    def pairs(self) -> int:
        """Pairs of training and rule with a false finding."""
        return len({(name, each.rule) for name, found in self.false.items() for each in found})

    @property
    def recall(self) -> float:
        """Share of the planted conditions that were found within their windows."""
        return 1 - len(self.missed) / max(self.planted, 1)

    def add(self, training: Training, verdict: Verdict) -> None:
        """Take in what the rules said of a training."""
        truth = training.planted
        if truth is None:
            self.healthy += 1
            wrong = verdict.findings
            self.judged += len(verdict.passed) + len({each.rule for each in verdict.findings})
        else:
            self.planted += 1
            expected = {truth["rule"], *truth["also"]}
            wrong = [each for each in verdict.findings if each.rule not in expected]
            hits = [
                e
                for e in verdict.findings
                if e.rule == truth["rule"] and truth["first"] <= e.step <= truth["last"]
            ]
            self.wanted[truth["rule"]] += 1
            if hits:
                self.found[truth["rule"]] += 1
                begin, end = truth["first"], truth["last"]
                self.delay.append((min(each.step for each in hits) - begin) / max(end - begin, 1))
            else:
                self.missed.append(training.name)
        if wrong:
            self.false[training.name] = list(wrong)


def score(of: Iterable[Training]) -> Score:
    """Apply the rules to trainings."""
    result = Score()
    for training in of:
        result.add(training, judge(training.attempt))
    return result


def wilson(count: int, total: int) -> tuple[float, float]:
    """Return the interval of 95 % of a share (Wilson, 1927)."""
    if not total:
        return 0.0, 1.0
    z, p = 1.96, count / total
    middle, half = p + z * z / (2 * total), z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total))
    low, high = (middle - half) / (1 + z * z / total), (middle + half) / (1 + z * z / total)
    return max(low, 0.0), min(high, 1.0)


def table(result: Score) -> Iterator[str]:
    """Return the figures of a split as lines."""
    runs = [name for name in result.false if not name.startswith("planted-")]
    low, high = wilson(len(runs), result.healthy)
    yield (
        f"false: {len(runs)} of {result.healthy} healthy runs ({low:.1%} to {high:.1%}), {result.pairs} of "
        f"{result.healthy * len(RULES):,} run x rule pairs ({result.judged:,} judged), "
        f"{len(result.high)} of them high"
    )
    low, high = wilson(result.planted - len(result.missed), result.planted)
    delay = (
        f"{np.median(result.delay):.0%}, 95 % by {np.quantile(result.delay, 0.95):.0%}"
        if result.delay
        else "-"
    )
    share = f"{result.recall:.1%} of {result.planted} planted ({low:.1%} to {high:.1%})"
    yield f"recall: {share}; delay {delay} of the window"
    for rule in RULES:
        wrong = sum(rule in {each.rule for each in one} for one in result.false.values())
        if wrong or result.wanted[rule]:
            found = f"found {result.found[rule]:>2} of {result.wanted[rule]:>2}"
            yield f"  {rule:<22} {found}   false in {wrong} runs"
    for name, findings in result.false.items():
        for each in findings:
            place = f"{each.severity} {each.rule}, step {each.step} of {each.tag}"
            yield f"  false: {name}: {place}: {each.summary}"
    for name in result.missed:
        yield f"  missed: {name}"
