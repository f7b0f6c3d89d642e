"""Findings of a run about its own health while it was recorded: the JSON under ``stepscope/finding``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from stepscope.cell import card_html
from stepscope.errors import EventFileError
from stepscope.files import fitting
from stepscope.health.finding import Finding

TAG = "stepscope/finding"
MAX_FINDINGS = 2_000
"""Events of one run that are read, the newest."""


class FindingValues(Protocol):
    """Values read one by one."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int, /) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class WrittenFinding(Finding):
    """A fault that a run noticed, as the run wrote it.

    Attributes:
        run: Empty: the run that wrote it.
        number: Findings of the rule before it; unknown in older files.
        attempt: Number of the run's attempt, from 1.
    """

    run: str = ""
    number: int | None = None  # type: ignore[assignment]
    attempt: int = 1

    def _repr_html_(self) -> str:
        over = f", over by {self.closed_step:,}" if self.closed_step is not None else ""
        facts = [
            ("since step", f"{self.since:,}{over}"), ("series", self.tag or None), ("layer", self.layer),
            ("what to do", self.action or None),
        ]  # fmt: skip
        return card_html(f"{self.severity}: {self.title}", facts, text=self.summary)


def parse_finding(facts: Any, attempt: int) -> WrittenFinding | None:
    """Return the finding in the JSON of one event, None if it is not a finding."""
    if not isinstance(facts, dict):
        return None

    known = fitting(WrittenFinding, facts)
    if "rule" not in known or "step" not in known:
        return None
    if not known.get("title"):
        known["title"] = known["rule"]
    # Values that are not finite are written as words.
    numbers = {name: facts[name] for name in ("values", "threshold") if isinstance(facts.get(name), dict)}
    missing = {"severity": "info", "summary": "", "tag": "", "layer": None, "rank": None, "wall": 0.0}
    first = {"first_step": known["step"]}
    return WrittenFinding(**{**missing, **first, **known, **numbers, "run": "", "attempt": attempt})


def read_findings(values: FindingValues, attempt: int) -> Iterator[WrittenFinding]:
    """Return the findings among the newest values of a series, leaving out unreadable ones."""
    for at in range(max(0, len(values) - MAX_FINDINGS), len(values)):
        with suppress(EventFileError, OSError):
            finding = parse_finding(values[at], attempt)
            if finding is not None:
                yield finding


def newest(findings: Iterable[WrittenFinding]) -> list[WrittenFinding]:
    """Return the latest state of each finding, in the order in which they opened."""
    by_name: dict[tuple[object, ...], WrittenFinding] = {}
    for finding in findings:
        named = finding.tag, finding.layer, finding.rank, finding.step, finding.summary
        by_name[
            finding.attempt, finding.rule, named if finding.number is None else (finding.number, finding.wall)
        ] = finding
    return list(by_name.values())
