"""Findings of a run about its own health while it was recorded: the JSON under ``stepscope/finding``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from stepscope.cell import card_html
from stepscope.errors import EventFileError
from stepscope.health.finding import SEVERITIES, Finding

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

    def get(name: str, *types: type) -> Any:
        value = facts.get(name)
        return value if isinstance(value, types) and not isinstance(value, bool) else None

    rule, step = get("rule", str), get("step", int)
    if rule is None or step is None:
        return None
    first, severity = get("first_step", int), get("severity", str)
    return WrittenFinding(
        rule=rule,
        severity=severity if severity in SEVERITIES else "info",
        title=get("title", str) or rule,
        summary=get("summary", str) or "",
        tag=get("tag", str) or "",
        layer=get("layer", str),
        rank=get("rank", int),
        first_step=step if first is None else first,
        step=step,
        wall=float(get("wall", int, float) or 0.0),
        values=get("values", dict) or {},
        threshold=get("threshold", dict) or {},
        action=get("action", str) or "",
        closed_step=get("closed_step", int),
        closed_wall=get("closed_wall", int, float),
        since_step=get("since_step", int),
        stack=texts(get("stack", list)),
        also=texts(get("also", list)),
        causes=texts(get("causes", list)),
        batches=tuple(batch for batch in get("batches", list) or () if isinstance(batch, dict)),
        rewind=texts(get("rewind", list)),
        stage=get("stage", str) or "",
        number=get("number", int),
        attempt=attempt,
    )


def texts(values: Any) -> tuple[str, ...]:
    """Return the texts of a JSON list."""
    return tuple(str(value) for value in values or ())


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
