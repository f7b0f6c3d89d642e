"""Report of the rules on a run, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from stepscope.analyze.health.batch_size import BatchSize
from stepscope.analyze.health.forecast import Forecast
from stepscope.health import RULES, SEVERITIES, Abstention, Finding, Verdict
from stepscope.health.coverage import Covered, Outcome, coverage, outcome
from stepscope.health.finding import batch_line
from stepscope.text import counted, number

ADD: dict[str, tuple[str, ...]] = {
    "ss.GradientHook()": ("gradient_norm", "layer_gradient", "update_ratio", "gradient_nonfinite"),
    "ss.ActivationHook()": ("dead", "saturated", "activation_std", "activation_nonfinite"),
    "ss.SystemHook()": ("gpu", "cpu", "io_wait", "memory"),
    "run.steps(loader)": ("step_time", "data_wait"),
    "an evaluation loss, as eval/loss": (),
    "the learning rate": ("learning_rate",),
}
"""Ways to record the roles that rules look at."""
EVALUATED = {"overfitting", "overtraining"}
KINDS = ("not recorded", "too few points", "not judged")


def lines_of_lacking(
    abstained: Sequence[Abstention], recorded: frozenset[str] = frozenset(), hooks: Sequence[str] = ()
) -> Iterator[str]:
    """Return the lines about what could not be judged; nothing if everything could.

    Args:
        abstained: Rules that could not judge.
        recorded: Roles of the series that were recorded.
        hooks: Names of the hooks of the run.
    """
    if not abstained:
        return
    yield f"could not tell: {counted(len(abstained), 'rule')}"
    left = list(abstained)
    for kind in KINDS:
        rules = [one for one in left if one.missing.startswith(kind)]
        left = [one for one in left if one not in rules]
        if rules and kind == "not judged":
            yield from (f"       {kind}: {'; '.join(dict.fromkeys(names_by_reason(rules)))}",)
        elif rules:
            yield f"       {kind}: {', '.join(one.rule for one in rules)}"
    yield from (f"       {one.rule}: {one.missing}" for one in left)
    wanted = list(dict.fromkeys(added(abstained, recorded, hooks)))
    if wanted:
        yield f"       to judge more, record {', '.join(wanted)}; --json says what each rule needs"
    roles = {hook: ADD.get(f"ss.{hook}()", ()) for hook in hooks}
    silent = [hook for hook, records in roles.items() if records and not recorded.intersection(records)]
    if silent:
        yield f"       attached, but recorded nothing: {', '.join(silent)}"


def names_by_reason(rules: Sequence[Abstention]) -> Iterator[str]:
    """Return each reason with the rules to which it applies."""
    for reason in dict.fromkeys(one.missing for one in rules):
        names = ", ".join(one.rule for one in rules if one.missing == reason)
        yield f"{names} ({reason.removeprefix('not judged: ')})"


def added(abstained: Sequence[Abstention], recorded: frozenset[str], hooks: Sequence[str]) -> Iterator[str]:
    """Return ways to record the missing data, in the order of the table, without those that the run has."""
    lacking = {one.rule for one in abstained if one.missing.startswith("not recorded")}
    roles = {role for rule in lacking - EVALUATED if rule in RULES for role in RULES[rule].roles}
    for what, records in ADD.items():
        there = recorded.intersection(records) or what in {f"ss.{hook}()" for hook in hooks}
        if not there and (roles.intersection(records) or (not records and lacking & EVALUATED)):
            yield what


SHOWN = 5
"""Places of one rule that are listed; the rest is a number."""


@dataclass(frozen=True)
class HealthReport:
    """The verdict on one run.

    Attributes:
        run: Its name.
        attempt: The attempt that was judged.
        source: "rules" if they were applied now, "run" if the run wrote it while it trained.
        forecast: Where the training loss will end, by tag; of a run that is not done.
        batch_size: What the gradient noise scale says, if it was recorded.
        recorded: Roles of the series that were recorded.
        hooks: Names of the hooks of the run.
        state: Of the run; empty if it does not matter.
    """

    run: str
    attempt: int
    verdict: Verdict
    source: str = "rules"
    forecast: Mapping[str, Forecast] = field(default_factory=dict)
    batch_size: BatchSize | None = None
    recorded: frozenset[str] = frozenset()
    hooks: tuple[str, ...] = ()
    state: str = ""

    @property
    def coverage(self) -> list[Covered]:
        """The questions with their answers."""
        verdict = self.verdict
        return coverage(verdict.findings, verdict.passed, verdict.abstained)

    @property
    def outcome(self) -> str:
        """The verdict with its reasons."""
        return self._outcome.text

    @property
    def short(self) -> str:
        """The verdict in a few words."""
        return self._outcome.short

    @property
    def _outcome(self) -> Outcome:
        return outcome(self.coverage, self.verdict.findings, state=self.state)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        verdict = self.verdict
        return {
            "run": self.run,
            "attempt": self.attempt,
            "source": self.source,
            "verdict": self.outcome,
            "coverage": [asdict(answer) for answer in self.coverage],
            "findings": [finding.as_dict() for finding in verdict.findings],
            "abstained": [asdict(abstention) for abstention in verdict.abstained],
            "passed": verdict.passed,
            "more": verdict.more,
            "batch_size": asdict(self.batch_size) if self.batch_size else None,
            "forecast": {
                tag: {"text": prediction.text(tag), **asdict(prediction)}
                for tag, prediction in self.forecast.items()
            },
        }

    @property
    def headline(self) -> str:
        """The findings by severity, or the verdict, and how much it rests on."""
        verdict = self.verdict
        counts = {
            severity: len({finding.rule for finding in verdict.findings if finding.severity == severity})
            for severity in SEVERITIES
        }
        listing = ", ".join(f"{count} {severity}" for severity, count in counts.items() if count)
        passed = len(verdict.passed)
        checks = f"{counted(passed, 'check passes', 'checks pass')}, {len(verdict.abstained)} not judged"
        return f"{listing or self.outcome}; {checks}"

    @property
    def covered(self) -> str:
        """The answers to the questions on one line."""
        return ", ".join(f"{answer.question}: {answer.answer}" for answer in self.coverage)

    def text(self, *, see: str = "") -> str:
        """Return the verdict for people: findings of one rule together.

        Args:
            see: The command that shows the evidence. If given, a finding has at most four lines, and rules
                that could not judge are left out.
        """
        verdict = self.verdict
        lines = [f"{self.run}, attempt {self.attempt}: {self.headline}", f"       {self.covered}"]
        order = {
            rule: at for at, rule in enumerate(dict.fromkeys(finding.rule for finding in verdict.findings))
        }
        findings = sorted(verdict.findings, key=lambda finding: order[finding.rule])
        for rule, group in groupby(findings, key=lambda finding: finding.rule):
            places, more = list(group), verdict.more.get(rule, 0)
            lines += brief_lines(places, more, see) if see else lines_of(rule, places, more)
        lines += [f"forecast: {prediction.text(tag)}" for tag, prediction in self.forecast.items()]
        lines += [self.batch_size.text] if self.batch_size else []
        lines += () if see else lines_of_lacking(verdict.abstained, self.recorded, self.hooks)
        return "\n".join(lines) + "\n"


def brief_lines(findings: Sequence[Finding], more: int, see: str) -> list[str]:
    """Return the findings of one rule in four lines: what, since when and where, what to do, what shows it.

    Args:
        findings: At least one.
        more: How many more of the rule there are.
        see: The command that shows the evidence.
    """
    first = findings[0]
    others = len(findings) - 1 + more
    also = f"; and {others:,} more" if others else f"; also in {len(first.also)} more" if first.also else ""
    return [
        f"{first.severity:<7}{first.rule}: {first.summary}",
        f"       {place(first, numbers=False)}{also}",
        f"       do: {first.action}",
        f"       see: {see}",
    ]


def lines_of(rule: str, findings: list[Finding], more: int) -> list[str]:
    """Return the lines of all findings of one rule, the first in full."""
    first = findings[0]
    lines = [f"{first.severity:<7}{rule}: {first.summary}"]
    lines += [f"       {place(finding)}" for finding in findings[:SHOWN]]
    left = len(findings) - SHOWN + more
    if left > 0:
        lines.append(f"       and {left:,} more")
    if first.also:
        shown = ", ".join(first.also[:SHOWN]) + (", …" if len(first.also) > SHOWN else "")
        lines.append(f"       also in {len(first.also)} more: {shown}")
    limits = ", ".join(f"{name} {number(value)}" for name, value in first.threshold.items())
    lines += [f"       threshold: {limits}"] if limits else []
    lines += [f"       at {line}" for line in first.stack[-3:]]
    lines += [f"       {line}" for line in (*first.causes, *map(batch_line, first.batches))]
    return [*lines, f"       do: {first.action}", *(f"       {line}" for line in first.rewind)]


def place(finding: Finding, *, numbers: bool = True) -> str:
    """Return since when and where a finding holds, and its numbers."""
    values = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in finding.values.items())
    until = "still open" if finding.closed_step is None else f"over by step {finding.closed_step:,}"
    rank = "" if finding.rank is None else f", rank {finding.rank}"
    run = f"{finding.run}: " if finding.run else ""
    line = f", at {finding.stack[-1]}" if finding.stack else ""
    where = f"{run}{finding.tag}{rank}, since step {finding.since:,}, {until}{line}"
    return f"{where}: {values}" if numbers and values else where
