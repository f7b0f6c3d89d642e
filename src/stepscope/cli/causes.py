"""Causes from the newest profile of a run, for the card and for ``stepscope advise``."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope.health.finding import Finding
from stepscope.serve.findings import in_profile
from stepscope.store.captures import newest_of_run, summary_of

LOOK_SECS = 0.05
"""Pause between two looks for an analysis that is awaited."""


@dataclass(frozen=True)
class Cause:
    """A finding of the newest profile of a run."""

    rule: str
    severity: str
    summary: str
    action: str
    stack: tuple[str, ...]


@dataclass(frozen=True)
class Causes:
    """The findings of the newest profile of a run that are more than a note.

    Attributes:
        path: Of the profile.
        lacking: Why there is none; empty if there is one.
        advice: All findings as JSON types.
    """

    path: str
    found: Sequence[Cause] = ()
    lacking: str = ""
    advice: Sequence[dict[str, Any]] = ()

    @property
    def lines(self) -> list[str]:
        """The findings for people, and the command that shows more."""
        see = f"see: stepscope advise {shlex.quote(self.path)} -v"
        if not self.found:
            return [f"the causes: {self.lacking}", f"       {see}"]
        lines = []
        for cause in self.found:
            place = "".join(f"{line} · " for line in cause.stack)
            lines += [
                f"{cause.severity:<7}{cause.rule}: {cause.summary}", f"       do: {place}{cause.action}"
            ]  # fmt: skip
        return [*lines, f"       {see}"]

    def untold(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings of a run without those that a cause of the profile repeats."""
        rules = {cause.rule for cause in self.found if cause.severity != "info"}
        return [finding for finding in findings if rules.isdisjoint(in_profile(finding))]


def causes_of(directory: Path, *, patience_s: float = 0.0) -> Causes | None:
    """Return the causes in the newest profile of a run; None if it has no profile.

    The profile is analysed by a process of its own, which the end of the program may leave at work.

    Args:
        directory: Of the run.
        patience_s: How long to wait for that process.
    """
    newest, _ = newest_of_run(directory)
    if newest is None:
        return None
    facts = newest.facts
    path = str(directory / facts["path"])
    until = time.monotonic() + patience_s
    while (summary := summary_of(facts, directory)) is None and time.monotonic() < until:
        time.sleep(LOOK_SECS)
    if summary is None:
        return Causes(path, lacking="the profile is not analysed yet")
    advice = [finding for finding in summary.get("advice") or () if isinstance(finding, dict)]
    found = [
        Cause(
            str(finding["rule"]),
            str(finding["severity"]),
            str(finding["summary"]),
            str(finding["action"]),
            _place_of(finding),
        )
        for finding in advice
        if finding.get("gain_ratio") is not None or finding.get("severity") != "info"
    ]
    lacking = "" if found else str(summary.get("verdict") or "the profile names none")
    return Causes(path, found, lacking, advice)


def _place_of(finding: dict[str, Any]) -> tuple[str, ...]:
    place = finding.get("place") or {}
    file, line = place.get("file"), place.get("line")
    return (f"{Path(str(file)).name}:{line}",) if file and line else ()
