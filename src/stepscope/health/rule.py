"""The interface of rules: objects that take points of series, and open and close findings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import ClassVar

from stepscope.errors import UsageError
from stepscope.health.batch import Chunk, StreamBatch
from stepscope.health.context import Context
from stepscope.health.finding import SEVERITIES, Finding, Severity
from stepscope.health.kind import KINDS
from stepscope.health.series import Stream
from stepscope.names.roles import ROLES

MOST_FINDINGS = 20
"""Most findings of one rule in one series; further ones are only counted."""
CLIPPED = ("clipped_norm", "clipped", "clipping")
"""Signs that a training clips its gradients: series that only such a one records, and its settings."""
MOST_LAYERS = 20
"""Further layers that a finding names."""


def thresholds(**limits: float) -> Mapping[str, float]:
    """Return the thresholds of a rule."""
    return MappingProxyType(limits)


@dataclass(frozen=True)
class At:
    """The place in a run where something was noticed.

    Attributes:
        first_step: Beginning of the window of steps that was looked at.
    """

    stream: Stream
    step: int
    wall: float
    first_step: int

    @classmethod
    def row(cls, chunk: Chunk, index: int) -> At:
        """Return the place of one point."""
        step = int(chunk.steps[index])
        return cls(chunk.stream, step, float(chunk.walls[index]), step)


class Rule(ABC):
    """One rule over one run.

    Its findings depend only on the points and their order in each series, not on the portions in which they
    come: the same code judges a run while it is recorded and afterwards. For the reference of rules, the
    docstring of each says the comparison that it makes, how soon it fires, the chance of a false alarm in a
    healthy run, by design, and the source of the formula and its thresholds.

    Args:
        limits: Thresholds in place of the defaults.

    Attributes:
        found: Every finding, in the order of opening.
        changed: Findings that opened or closed since this was last emptied.
        more: Findings beyond the most that are kept.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Severity] = "medium"
    action: ClassVar[str]
    """The recommended action."""
    applied: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """By role or practice, the part of the action that a run which records such a series or setting does."""
    roles: ClassVar[tuple[str, ...]]
    """The roles of the series that it looks at."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Roles without which it cannot tell; by default any one of ``roles`` is enough."""
    unfit: ClassVar[tuple[str, ...]] = ()
    """Kinds of training that it does not judge."""
    fewest: ClassVar[str] = ""
    """How much it needs before it can tell, in words."""
    explains: ClassVar[tuple[str, ...]] = ()
    """Rules whose findings are its consequences while it holds."""
    grouped: ClassVar[bool] = False
    """Whether layers of one run in which the same is found are one finding."""
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
        self.context = Context()
        self._reason = ""
        self._leaders: dict[tuple[str, int | None, str], tuple[Stream, set[Stream]]] = {}
        """The first layer in which something is found, and all in which it is, by run, rank and thing."""
        self._open: dict[tuple[Stream, str], int] = {}
        self._newest_of: dict[tuple[Stream, str], int] = {}
        """Place of the last finding about each series and thing, open or closed."""
        self._opened: dict[Stream, int] = {}
        self._seen: dict[str, dict[Stream, int]] = {}
        """Points of each series, by role."""
        self._judged = False

    def take(self, batch: StreamBatch) -> None:
        """Take the points of a stretch of time."""
        for chunk in batch.of(self.roles):
            role = chunk.stream.role
            if self.is_of(chunk.stream):
                points = self._seen.setdefault(role, {})
                points[chunk.stream] = points.get(chunk.stream, 0) + len(chunk)
        self.look(batch)

    @abstractmethod
    def look(self, batch: StreamBatch) -> None:
        """Judge the points of a stretch of time."""

    def finish(self) -> None:  # noqa: B027  most rules have nothing left to say
        """Judge the points that waited for more; the run is over."""

    def abstain(self, reason: str) -> None:
        """Note why it could not tell, unless it can later."""
        self._reason = reason

    def limit(self, name: str) -> int:
        """Return a threshold that counts something."""
        return int(self.limits[name])

    def judged(self) -> None:
        """Note that there was enough to judge by."""
        self._judged = True

    @property
    def missing(self) -> str | None:
        """The series that were missing for a judgement, None if nothing was missing."""
        unfit = self.context.unfit(self.unfit, inf)
        if unfit is not None:
            return f"not judged: {self.context.kinds[unfit][1]} indicates {KINDS[unfit]}"
        if self._judged:
            return None
        if self._reason:
            return self._reason
        lacking = self._lacking()
        if lacking:
            return f"not recorded: {lacking}"
        # Of the longest series: no rule judges the points of several together.
        counts = {role: max(self._seen[role].values()) for role in self.roles if role in self._seen}
        seen = ", ".join(f"{count:,} of {role.replace('_', ' ')}" for role, count in counts.items())
        return f"too few points: {seen}" + (f"; it needs {self.fewest}" if self.fewest else "")

    def _lacking(self) -> str:
        """Return the words for the roles that were not recorded; empty if there is enough to look at."""
        lacking = [self.words_of(role) for role in self.needs if role not in self._seen]
        if lacking:
            return "; ".join(lacking)
        return "" if self._seen else " or ".join(self.words_of(role) for role in self.roles)

    def is_of(self, stream: Stream) -> bool:
        """Return whether a series of its roles belongs to the part of the data that it judges."""
        return True

    def words_of(self, role: str) -> str:
        """Return the words for a role that was not recorded."""
        return ROLES[role]

    def open(
        self,
        at: At,
        summary: str,
        values: Mapping[str, float],
        severity: Severity | None = None,
        *,
        about: str = "",
        since_step: int | None = None,
        action: str | None = None,
    ) -> None:
        """Open a finding, unless one about the same is open.

        Args:
            at: Where.
            summary: One sentence with the number that matters.
            values: The numbers that show it.
            severity: By default the rule's.
            about: Distinguishes findings of one rule about one stream.
            since_step: The step since which it holds, if that can be told.
            action: By default the rule's.
        """
        if self.context.unfit(self.unfit, at.wall) is not None or not self._leads(at.stream, about):
            return
        stream = at.stream
        action = self.action if action is None else action
        for sign, part in self.applied.items():
            if sign in self.context.practices or self.context.records(sign, stream.run, at.wall):
                action = action.replace(part, "")
        if stream.scale < 0:
            summary = f"minus {stream.tag}, as a loss: {summary}"
        grade: Severity = severity or self.severity
        if stream.because:
            summary = f"{summary} ({stream.because})"
            grade = max(grade, "low", key=SEVERITIES.index)
        finding = Finding(
            rule=self.id,
            severity=grade,
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
            action=action,
            number=len(self.found),
        )
        if (stream, about) in self._open:
            self._renew(self._open[stream, about], finding)
            return
        place = self._newest_of.get((stream, about), -1)
        closed = self.found[place].closed_step if place >= 0 else None
        if closed is not None and since_step is not None and since_step < closed:
            # It has held all along: a stretch that seemed over has only become longer.
            self._open[stream, about] = place
            self._put(place, replace(self.found[place], closed_step=None, closed_wall=None))
            self._renew(place, finding)
            return
        count = self._opened[at.stream] = self._opened.get(at.stream, 0) + 1
        if count > MOST_FINDINGS:
            self.more += 1
            return
        self._open[stream, about] = self._newest_of[stream, about] = len(self.found)
        self.found.append(finding)
        self.changed.append(finding)

    def _renew(self, place: int, newest: Finding) -> None:  # noqa: B027  most rules tell what they saw at first
        """Take in what is told anew of an open finding."""

    def close(self, at: At, *, about: str = "") -> None:
        """Close the finding about something, if one is open."""
        stream = at.stream
        if self.grouped:
            group = stream.run, stream.rank, about
            first, layers = self._leaders.get(group, (stream, set()))
            if stream not in layers:
                return
            layers.remove(stream)
            if layers:
                return
            del self._leaders[group]
            stream = first
        place = self._open.pop((stream, about), None)
        if place is not None:
            self._put(place, replace(self.found[place], closed_step=at.step, closed_wall=at.wall))

    def _put(self, place: int, finding: Finding) -> None:
        """Put a finding in the place of an earlier state of it."""
        if finding != self.found[place]:
            self.found[place] = finding
            self.changed.append(finding)

    def _leads(self, stream: Stream, about: str) -> bool:
        """Return whether a series has a finding of its own; else it joins that of the first such layer."""
        if not self.grouped:
            return True
        first, layers = self._leaders.setdefault((stream.run, stream.rank, about), (stream, set()))
        layers.add(stream)
        place = self._open.get((first, about))
        if first is not stream and place is not None:
            self._put(place, self.joined(self.found[place], stream))
        return first is stream

    def joined(self, finding: Finding, stream: Stream) -> Finding:
        """Return a finding that also names a series in which the same was found: its layer."""
        layer = stream.layer
        return finding if layer is None or layer == finding.layer else with_also(finding, layer)


def with_also(finding: Finding, name: str) -> Finding:
    """Return a finding that also names a layer or series; it names at most :data:`MOST_LAYERS`."""
    if name in finding.also or len(finding.also) >= MOST_LAYERS:
        return finding
    return replace(finding, also=(*finding.also, name))
