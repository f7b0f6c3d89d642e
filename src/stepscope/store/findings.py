"""Findings of a run about its own health while it was recorded: the JSON under ``stepscope/finding``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from stepscope.errors import EventFileError

TAG = "stepscope/finding"
MOST = 2_000
"""Events of one run that are read, the newest."""


class FindingValues(Protocol):
    """Values read one by one."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class WrittenFinding:
    """A fault that a run noticed, as the run wrote it. A field that was not written is None.

    Attributes:
        severity: "high", "medium", "low" or "info".
        first_step: First step of the window that the rule looked at.
        step: The step at which it was noticed.
        wall: When, seconds since the epoch.
        closed_step: The step at which it was over; None: it was not.
        since_step: The step since which it holds, if the rule knows that better than by ``step``.
        stack: Stack of the training thread, for a stall.
        also: Further layers in which the same was found.
        causes: Its beginning and the first growing series, as sentences.
        batches: The batches of the steps in question, each with its ``step``.
        rewind: How to go back to before it, as sentences.
        number: Number of earlier findings of the rule; unknown in older files.
        attempt: Number of the run's attempt, from 1.
    """

    rule: str
    severity: str
    title: str
    summary: str
    tag: str
    layer: str | None
    rank: int | None
    first_step: int
    step: int
    wall: float
    values: dict[str, Any] = field(default_factory=dict)
    threshold: dict[str, Any] = field(default_factory=dict)
    action: str = ""
    closed_step: int | None = None
    closed_wall: float | None = None
    since_step: int | None = None
    stack: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    batches: tuple[dict[str, Any], ...] = ()
    rewind: tuple[str, ...] = ()
    number: int | None = None
    attempt: int = 1


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
    first = get("first_step", int)
    return WrittenFinding(
        rule=rule,
        severity=get("severity", str) or "info",
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
        batches=tuple(each for each in get("batches", list) or () if isinstance(each, dict)),
        rewind=texts(get("rewind", list)),
        number=get("number", int),
        attempt=attempt,
    )


def texts(values: Any) -> tuple[str, ...]:
    """Return the texts of a JSON list."""
    return tuple(str(each) for each in values or ())


def read_findings(values: FindingValues, attempt: int) -> Iterator[WrittenFinding]:
    """Return the findings among the newest values of a series, leaving out unreadable ones."""
    for at in range(max(0, len(values) - MOST), len(values)):
        with suppress(EventFileError, OSError):
            found = parse_finding(values[at], attempt)
            if found is not None:
                yield found


def newest(findings: Iterable[WrittenFinding]) -> list[WrittenFinding]:
    """Return the latest state of each finding, in the order in which they opened."""
    found: dict[tuple[object, ...], WrittenFinding] = {}
    for each in findings:
        named = each.tag, each.layer, each.rank, each.step, each.summary
        found[each.attempt, each.rule, named if each.number is None else (each.number, each.wall)] = each
    return list(found.values())
