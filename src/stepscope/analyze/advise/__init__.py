"""Rules that say what is slow or sick in a profile, each with its evidence, threshold and remedy.

One module per rule, named in :data:`RULES`. A rule that lacks data abstains and says what it lacked; no
finding therefore means "looked, and found nothing".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from stepscope.analyze.advise import (
    communication,
    copies,
    dtypes,
    expensive,
    host,
    input,  # noqa: A004
    kernels,
    launch,
    memory,
    operation,
    python,
    steps,
    syncs,
    utilization,
)
from stepscope.analyze.advise.finding import SEVERITIES, Abstain, Abstention, Check, Facts, Finding

RULES: dict[str, Check] = {
    "accelerator-utilization": utilization.check,
    "operation": operation.check,
    "expensive-operation": expensive.check,
    "input-bound": input.check,
    "communication-bound": communication.check,
    "host-bound": host.check,
    "launch-bound": launch.check,
    "small-kernels": kernels.check,
    "sync-points": syncs.check,
    "dtype-hints": dtypes.check,
    "memory-near-limit": memory.check,
    "pageable-copies": copies.check,
    "step-variation": steps.check,
    "python-overhead": python.check,
}
"""Every rule by its id. The first three are tfprof's."""


@dataclass(frozen=True)
class Advice:
    """All findings, the severest first, and the rules that could not tell."""

    findings: list[Finding]
    abstained: list[Abstention]

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON types."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "abstained": [asdict(abstention) for abstention in self.abstained],
        }

    @property
    def text(self) -> str:
        """The advice for people."""
        lines = []
        for finding in self.findings:
            limits = ", ".join(f"{name} {value:g}" for name, value in finding.threshold.items())
            lines += [f"{finding.severity:<7}{finding.rule}: {finding.summary}"]
            lines += [f"       evidence: {line}" for line in finding.evidence_lines]
            lines += [f"       threshold: {limits}"] if limits else []
            lines += [f"       do: {finding.action}"]
        if not self.findings:
            lines.append("nothing found")
        if self.abstained:
            lines += ["", "could not tell:"]
            lines += [f"       {one.rule}: {one.missing}" for one in self.abstained]
        return "\n".join(lines) + "\n"


def advise(facts: Facts) -> Advice:
    """Apply every rule."""
    findings: list[Finding] = []
    abstained: list[Abstention] = []
    for rule, check in RULES.items():
        try:
            findings += check(facts)
        except Abstain as missing:  # noqa: PERF203
            abstained.append(Abstention(rule, str(missing)))
    order = list(RULES)
    findings.sort(key=lambda one: (SEVERITIES.index(one.severity), order.index(one.rule)))
    return Advice(findings, abstained)


__all__ = ["RULES", "Abstention", "Advice", "Facts", "Finding", "advise"]
