"""What a rule can say: a finding with its evidence, or that it cannot tell and what it lacked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analyze.breakdown import Breakdown, breakdown
from stepscope.analyze.units import readable
from stepscope.analyze.views.measure import Measures, measure

if TYPE_CHECKING:
    from stepscope.trace.model import Trace
    from stepscope.trace.tfprof import Profile

SEVERITIES = ("high", "medium", "low", "info")


@dataclass(frozen=True)
class Finding:
    """Something slow or wrong.

    Attributes:
        rule: Its id, such as ``input-bound``.
        severity: One of :data:`SEVERITIES`.
        summary: One sentence with the number that matters.
        evidence: Numbers, and where: JSON types; times in ns, ratios 0 to 1.
        threshold: The limits that the evidence passed.
        action: What to do.
    """

    rule: str
    severity: str
    summary: str
    evidence: dict[str, Any]
    threshold: dict[str, float]
    action: str

    @property
    def evidence_lines(self) -> list[str]:
        """The evidence for people: numbers on one line, then each list."""
        plain = [
            readable(name, value) for name, value in self.evidence.items() if not isinstance(value, list)
        ]
        lines = [", ".join(plain)] if plain else []
        for name, value in self.evidence.items():
            if isinstance(value, list) and value:
                lines.append(f"{name.replace('_', ' ')}:")
                lines += [f"  {line}" for entry in value for line in _entry(entry).splitlines()]
        return lines


def _entry(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    # A name says what it is without being called "name".
    return ", ".join(str(value) if name == "name" else readable(name, value) for name, value in entry.items())


@dataclass(frozen=True)
class Abstention:
    """A rule that could not tell, and what it would have needed."""

    rule: str
    missing: str


class Abstain(Exception):  # noqa: N818  no error: a verdict that a rule leaves open
    """Raised by a rule that lacks data; the message says what is not there."""


@dataclass(frozen=True)
class Facts:
    """What the rules look at; what several of them need is computed once.

    Attributes:
        trace: The profile, where it has a timeline.
        profile: tfprof's own data, where the source is one of its.
    """

    trace: Trace | None = None
    profile: Profile | None = None
    limits: dict[str, float] = field(default_factory=dict)

    @cached_property
    def timeline(self) -> Trace:
        """The trace.

        Raises:
            Abstain: There is none, or nothing in it.
        """
        if self.trace is None or not len(self.trace):
            raise Abstain("no timeline of events")
        return self.trace

    @cached_property
    def measures(self) -> Measures:
        """What each event counts for."""
        return measure(self.timeline)

    @cached_property
    def breakdown(self) -> Breakdown:
        """Where each step's time went."""
        return breakdown(self.timeline)

    @cached_property
    def wall_ns(self) -> int:
        """Length of all steps of all ranks together."""
        total = sum(step.wall_ns for step in self.breakdown.steps)
        if not total:
            raise Abstain("no steps or events with a duration")
        return total

    @property
    def steps(self) -> int:
        """Number of steps times ranks."""
        return max(len(self.breakdown.steps), 1)

    def require(self, *features: str) -> Trace:
        """Return the trace if it recorded these features.

        Raises:
            Abstain: One was not; the message says why.
        """
        for feature in features:
            if feature not in self.timeline.recorded:
                from stepscope.trace.model import FEATURES

                reason = self.timeline.not_recorded.get(feature, "")
                raise Abstain(f"no {FEATURES[feature]}" + (f" ({reason})" if reason else ""))
        return self.timeline


Check = Callable[[Facts], Iterable[Finding]]
"""A rule: yields findings, or raises :class:`Abstain`."""


def graded(value: float, *, medium: float, high: float) -> str:
    """Return the severity of a value that passed the lower limit."""
    return "high" if value >= high else "medium" if value >= medium else "low"


def top(trace: Trace, rows: Any, amounts: Any, *, count: int = 3) -> list[tuple[str, float]]:
    """Return the names of these rows with the greatest sums of amounts, greatest first."""
    sums = np.bincount(trace.name[rows], weights=amounts, minlength=len(trace.strings))
    order = np.argsort(-sums, kind="stable")[:count]
    return [(str(trace.strings[int(number)]), float(sums[number])) for number in order if sums[number] > 0]


_MOST_PLACES = 8


@dataclass(frozen=True)
class Places:
    """The ranks or devices at which one rule fires, as one finding: a thousand ranks are one problem.

    Attributes:
        worst: Evidence of the worst one.
        label: Its name, empty where there is only one place in the profile.
        others: ``affected`` and ``of``, and the next places with the number that matters.
    """

    worst: dict[str, Any]
    label: str
    others: dict[str, Any]


def gathered(places: list[dict[str, Any]], key: str, *, of: int, least: bool = False) -> Places:
    """Gather the places at which a rule fires.

    Args:
        places: Evidence of each, with ``rank`` and perhaps ``device``; at least one.
        key: The number that matters.
        of: How many places were looked at.
        least: Whether the smallest number is the worst.
    """
    ordered = sorted(places, key=lambda place: place[key] if least else -place[key])
    names = [name for name in ("rank", "device") if name in ordered[0]]
    label = " ".join(f"{name} {ordered[0][name]}" for name in names) if of > 1 else ""
    others: dict[str, Any] = {}
    if of > 1:
        others = {"affected": len(ordered), "of": of}
        listed = ordered[1 : 1 + _MOST_PLACES]
        others["next"] = [{name: place[name] for name in (*names, key)} for place in listed]
    return Places(ordered[0], f"{label}, the worst of {len(ordered)}: " if label else "", others)
