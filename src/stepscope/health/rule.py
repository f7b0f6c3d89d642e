"""What every rule is: an object that takes points of series and opens and closes findings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from stepscope.errors import UsageError
from stepscope.health.batch import Batch, Chunk
from stepscope.health.finding import Finding, Severity
from stepscope.health.gate import Gate
from stepscope.health.series import ROLES, Stream

MOST_FINDINGS = 20
"""Of one rule in one series; further ones are only counted."""


def thresholds(**limits: float) -> Mapping[str, float]:
    """Return the thresholds of a rule."""
    return MappingProxyType(limits)


@dataclass(frozen=True)
class At:
    """Where in a run something was noticed.

    Attributes:
        first_step: Where the window of steps begins that was looked at.
    """

    stream: Stream
    step: int
    wall: float
    first_step: int

    @classmethod
    def row(cls, chunk: Chunk, index: int, first_step: int | None = None) -> At:
        """Return the place of one point."""
        step = int(chunk.steps[index])
        return cls(
            chunk.stream,
            step,
            float(chunk.walls[index]),
            step if first_step is None else min(first_step, step),
        )


class Rule(ABC):
    """One rule over one run.

    What it finds depends only on the points and their order in each series, not on the portions in which
    they come: the same code judges a run that is being recorded and one that is read.

    Args:
        limits: Thresholds in place of the defaults.

    Attributes:
        found: Every finding, in the order of opening.
        changed: Findings that opened or closed since somebody emptied this.
        more: Findings beyond the most that are kept.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Severity] = "medium"
    formula: ClassVar[str]
    """What is compared with what, for the docs."""
    source: ClassVar[str]
    """Where the formula and its thresholds come from."""
    window: ClassVar[str]
    """How soon it fires."""
    action: ClassVar[str]
    """What to do."""
    roles: ClassVar[tuple[str, ...]]
    """What it looks at."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Roles without which it cannot tell; by default any one of ``roles`` is enough."""
    defaults: ClassVar[Mapping[str, float]] = thresholds()

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        unknown = sorted(set(limits or {}) - set(self.defaults))
        if unknown:
            raise UsageError(
                f"rule {self.id!r} has no threshold {unknown[0]!r}",
                hint=f"it has {', '.join(self.defaults) or 'none'}",
            )
        self.limits = {**self.defaults, **{name: float(value) for name, value in (limits or {}).items()}}
        self.found: list[Finding] = []
        self.changed: list[Finding] = []
        self.more = 0
        self._open: dict[tuple[Stream, str], int] = {}
        self._opened: dict[Stream, int] = {}
        self._seen: dict[str, int] = {}
        self._judged = False

    def take(self, batch: Batch) -> None:
        """Take the points of a stretch of time."""
        for chunk in batch.of(self.roles):
            role = chunk.stream.role
            self._seen[role] = self._seen.get(role, 0) + len(chunk)
        self.look(batch)

    @abstractmethod
    def look(self, batch: Batch) -> None:
        """Judge the points of a stretch of time."""

    def finish(self) -> None:  # noqa: B027  most rules have nothing left to say
        """Judge what waited for more points; the run is over."""

    def limit(self, name: str) -> int:
        """Return a threshold that counts something."""
        return int(self.limits[name])

    def judged(self) -> None:
        """Note that there was enough to judge by."""
        self._judged = True

    @property
    def missing(self) -> str | None:
        """What it lacked to judge by, None where it did not lack anything."""
        if self._judged:
            return None
        lacking = [role for role in self.needs if role not in self._seen]
        if lacking:
            return "not recorded: " + "; ".join(ROLES[role] for role in lacking)
        if not self._seen:
            return "not recorded: " + " or ".join(ROLES[role] for role in self.roles)
        counts = {role: self._seen[role] for role in self.roles if role in self._seen}
        seen = ", ".join(f"{count:,} of {role.replace('_', ' ')}" for role, count in counts.items())
        return f"too few points: {seen}; {self.fewest}"

    @property
    def fewest(self) -> str:
        """How much it needs, in words."""
        return f"it fires {self.window}"

    def open(
        self,
        at: At,
        summary: str,
        values: Mapping[str, float],
        *,
        severity: Severity | None = None,
        about: str = "",
        since_step: int | None = None,
    ) -> None:
        """Open a finding, unless one about the same is open.

        Args:
            at: Where.
            summary: One sentence with the number that matters.
            values: What it was seen by.
            severity: By default the rule's.
            about: Tells apart what one rule may find of one stream.
            since_step: From which on it holds, where that can be told.
        """
        if (at.stream, about) in self._open:
            return
        count = self._opened[at.stream] = self._opened.get(at.stream, 0) + 1
        if count > MOST_FINDINGS:
            self.more += 1
            return
        stream = at.stream
        finding = Finding(
            rule=self.id,
            severity=severity or self.severity,
            title=self.title,
            summary=summary,
            tag=stream.tag,
            run=stream.run,
            layer=stream.layer,
            rank=stream.rank,
            first_step=at.first_step,
            step=at.step,
            wall=at.wall,
            since_step=since_step,
            values={name: float(value) for name, value in values.items()},
            threshold=dict(self.limits),
            action=self.action,
        )
        self._open[stream, about] = len(self.found)
        self.found.append(finding)
        self.changed.append(finding)

    def close(self, at: At, *, about: str = "") -> None:
        """Close the finding about something, if one is open."""
        place = self._open.pop((at.stream, about), None)
        if place is not None:
            closed = replace(self.found[place], closed_step=at.step, closed_wall=at.wall)
            self.found[place] = closed
            self.changed.append(closed)


class Watch(ABC):
    """What a rule keeps of one stream."""

    @abstractmethod
    def take(self, chunk: Chunk) -> None:
        """Judge points."""


class PerStream(Rule):
    """A rule that looks at each series by itself."""

    splits: ClassVar[tuple[str | None, ...] | None] = None
    """Which parts of the data it looks at; None: all."""

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._watches: dict[Stream, Watch] = {}

    @abstractmethod
    def watch(self, stream: Stream) -> Watch:
        """Return what judges a series."""

    def look(self, batch: Batch) -> None:
        """Hand every series to its watch."""
        for chunk in batch.of(self.roles):
            stream = chunk.stream
            if self.splits is not None and stream.split not in self.splits:
                continue
            watch = self._watches.get(stream)
            if watch is None:
                watch = self._watches[stream] = self.watch(stream)
            watch.take(chunk)


class Threshold(Watch):
    """Opens where values pass a limit often enough; the simplest watch.

    Args:
        rule: Whose findings these are.
        bad: Values to an array of bool; never called without values.
        say: A value to the sentence.
        name: Of the value in the evidence.
        gate: When to open and close.
        skip: Points that are not judged at the beginning.
    """

    def __init__(
        self, rule: Rule, bad: Any, say: Any, *, name: str, gate: Gate, severity: Any = None, skip: int = 0
    ) -> None:
        self._rule, self._bad, self._say, self._name, self._gate = rule, bad, say, name, gate
        self._severity, self._skip = severity, skip
        self._steps: list[int] = []

    def take(self, chunk: Chunk) -> None:
        """Judge points."""
        if self._skip:
            left = min(self._skip, len(chunk))
            self._skip -= left
            chunk = chunk.part(slice(left, None))
        if not len(chunk):
            return
        rule, opens = self._rule, self._gate.opens
        rule.judged()
        before, self._steps = self._steps, [*self._steps, *chunk.steps[-opens:].tolist()][-opens:]
        for index, change in self._gate.run(self._bad(chunk.values)):
            if change == "close":
                rule.close(At.row(chunk, index))
                continue
            steps = [*before, *chunk.steps[: index + 1].tolist()]
            value = float(chunk.values[index])
            at = At.row(chunk, index, min(steps[-opens:]))
            severity = self._severity(value) if self._severity else None
            rule.open(at, self._say(value), {self._name: value}, severity=severity)


def finite(chunk: Chunk) -> Chunk:
    """Return the points whose value is finite."""
    good = np.isfinite(chunk.values)
    return (
        chunk if good.all() else Chunk(chunk.stream, chunk.steps[good], chunk.values[good], chunk.walls[good])
    )
