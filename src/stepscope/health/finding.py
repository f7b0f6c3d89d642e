"""The answers of a rule: a finding with its evidence, or an abstention that names the missing data."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Severity = Literal["high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")


@dataclass(frozen=True)
class Finding:
    """Something wrong with a training run, from when it was noticed until it was over.

    Attributes:
        rule: Its id, such as ``loss-spike``.
        severity: One of :data:`SEVERITIES`.
        title: The rule in words.
        summary: One sentence with the number that matters.
        tag: The series that shows it.
        run: The run or part of it that the series belongs to; empty if there is only one.
        layer: The layer or tensor, None if it concerns no single one.
        rank: The rank that recorded it, None if that is not known.
        first_step: Beginning of the window of steps that the rule looked at.
        step: The step at which it was noticed.
        wall: When that was, seconds since the epoch.
        values: The numbers that show it.
        threshold: The limits that they passed.
        action: The remedy.
        closed_step: The step at which it was over, None while it is not.
        closed_wall: When that was.
        since_step: The step since which it holds, if the rule can tell that better than by ``step``.
        stack: The place of the training thread, innermost call last; only for a stall seen live.
        also: Further layers in which the same was found while it was open.
        causes: Further recorded evidence, as sentences: its beginning, the first growing series.
        batches: The batches of the steps in question, each with its ``step``; only the run knows it.
        rewind: How to go back to before it, as sentences; only the run knows the checkpoints.
        stage: Part of a step in which ranks wait for others, of a finding about ranks.
        number: Findings of the rule before it; rule, number and ``wall`` stay the same while it changes.
    """

    rule: str
    severity: Severity
    title: str
    summary: str
    tag: str
    run: str
    layer: str | None
    rank: int | None
    first_step: int
    step: int
    wall: float
    values: dict[str, float] = field(default_factory=dict)
    threshold: dict[str, float] = field(default_factory=dict)
    action: str = ""
    closed_step: int | None = None
    closed_wall: float | None = None
    since_step: int | None = None
    stack: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    batches: tuple[dict[str, Any], ...] = ()
    rewind: tuple[str, ...] = ()
    stage: str = ""
    number: int = 0

    @property
    def key(self) -> str:
        """The subject; a finding that closes has the key and the step of the one that opened."""
        place = [self.run, self.tag, "" if self.rank is None else f"rank {self.rank}"]
        return " ".join([self.rule, *(part for part in place if part)])

    @property
    def since(self) -> int:
        """The step since which it holds, as far as is known."""
        return self.step if self.since_step is None else self.since_step

    @property
    def is_open(self) -> bool:
        """True if it was not over when the run was last seen."""
        return self.closed_step is None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON types; a number that is not finite becomes text, as TensorBoard writes it."""
        return {name: plain(value) for name, value in asdict(self).items()}


NONFINITE = ("nonfinite-activation", "nonfinite-gradient", "nonfinite-loss")
"""Rules on values that are not finite, in the order in which they occur within a step."""


def as_shown(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings as they are shown: the most severe first, open ones before closed ones, then by time.

    Within these, values that are not finite come first, whenever they began: a training whose loss is NaN
    learns nothing any more, and what else is wrong with it cannot be judged before that is mended. NaNs of
    one step are listed in the order of the computation: the layer says more than the loss.
    """
    listed = list(findings)
    began: dict[tuple[str, int], float] = {}
    for finding in listed:
        if finding.rule in NONFINITE:
            began[finding.run, finding.step] = min(
                finding.wall, began.get((finding.run, finding.step), math.inf)
            )

    def place(finding: Finding) -> tuple[int, bool, bool, float, int, str]:
        wall, order = finding.wall, 0
        if finding.rule in NONFINITE:
            wall, order = began[finding.run, finding.step], NONFINITE.index(finding.rule)
        return *urgency(finding), finding.rule not in NONFINITE, wall, order, finding.key

    return sorted(listed, key=place)


def urgency(finding: Any) -> tuple[int, bool]:
    """Return a key for sorting: the most severe findings first, open ones before closed ones.

    Args:
        finding: Of a run, or an advice of a profile, which is never over.
    """
    known = finding.severity in SEVERITIES
    severity = SEVERITIES.index(finding.severity) if known else len(SEVERITIES)
    return severity, not getattr(finding, "is_open", True)


def led(findings: Iterable[Finding], explains: Mapping[str, Collection[str]]) -> list[Finding]:
    """Return findings, of which those that another one explains are for information and name it.

    Args:
        findings: Of one attempt.
        explains: For each rule those whose findings are its consequences: what begins once it holds.
    """
    leads = list(findings)
    shown = []
    for finding in leads:
        causes = [
            (lead.rule, f"a consequence of {lead.rule}, which began at step {lead.since:,}")
            for lead in leads
            if finding.rule in explains.get(lead.rule, ())
            and lead.run == finding.run
            and lead.since <= finding.step
            and (lead.closed_step is None or lead.closed_step >= finding.since)
        ]
        if causes:
            # The remedy of a symptom would be wrong: stopping early does not mend labels.
            lead, cause = causes[0]
            finding = replace(finding, severity="info", action=f"see {lead}", causes=(*finding.causes, cause))
        shown.append(finding)
    return shown


@dataclass(frozen=True)
class Abstention:
    """A rule that could not tell, and the data that it needs."""

    rule: str
    title: str
    missing: str


def plain(value: Any) -> Any:
    """Return a value as JSON can carry it: numbers that are not finite are TensorBoard's words for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


SHOWN = 8
"""Most indices of a batch that a sentence shows."""


def batch_line(batch: Mapping[str, Any]) -> str:
    """Return a sentence on the batch of a step."""
    fields = []
    for name, value in batch.items():
        if name == "step":
            continue
        if isinstance(value, list | tuple):
            more = f", … ({len(value):,} in all)" if len(value) > SHOWN else ""
            value = ", ".join(map(str, value[:SHOWN])) + more
        fields.append(f"{name.replace('_', ' ')} {value}")
    return f"batch of step {batch.get('step')}: {'; '.join(fields)}"
