"""Rules that find the waits of a profile's steps, their cost, and a remedy.

One check per rule, listed in ``rules.py``. A rule that lacks data abstains and names the missing data, so no
finding means "looked, and found nothing". Findings that explain each other are one, with a chain.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stepscope.analyze.advise import communication, steps
from stepscope.analyze.advise.expensive import largest_parts
from stepscope.analyze.advise.finding import SEVERITIES, WORTH, Abstain, Abstention, Facts, Finding
from stepscope.analyze.advise.rules import RULES
from stepscope.health.worth import is_worth
from stepscope.text import number
from stepscope.trace.model import Trace
from stepscope.trace.ranks import overlapping

_HOST = ("host-bound", "launch-bound", "python-overhead")
_IDLING = (
    *_HOST,
    "input-bound",
    "preprocessing",
    "compilation",
    "checkpoint",
    "logging",
    "evaluation",
    "blocking-call",
    "host-callback",
    "between-steps",
    "sync-points",
    "communication-bound",
    "slow-rank",
)
"""Findings that say why an accelerator was idle."""
_PART_OF_HOST = ("small-kernels", "eager-operations", "sync-points", "unfused-optimizer")
"""Findings that explain why the host is late: the larger one has the others in its chain."""
_NO_WAIT = {
    "expensive-operation",
    "operation",
    "memory-near-limit",
    "hang",
    "step-variation",
    "accelerator-utilization",
    "busy-machine",
    "between-steps",
}
"""Rules that do not look at waits: if only they could judge, much may still be to
gain.
"""
_VARYING = {
    "loading": "input-bound",
    "compiling": "compilation",
    "saving": "checkpoint",
    "logging": "logging",
    "preprocessing": "preprocessing",
    "evaluating": "evaluation",
}


@dataclass(frozen=True)
class Advice:
    """All findings, the largest gain first, and the rules that could not judge.

    Attributes:
        findings: Those with a gain by its size, then the others by severity.
        abstained: Rules that lacked data.
        judged: Rules that could judge.
        caveats: Reasons why the profile cannot be judged fully, such as a truncated file.
    """

    findings: list[Finding]
    abstained: list[Abstention]
    judged: list[str] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """One sentence over all findings."""
        gains = [one for one in self.findings if one.gain_ratio is not None or one.severity != "info"]
        if self.caveats:
            return f"not judged: {self.caveats[0]}"
        if gains:
            more = f"; {len(gains) - 1} more" if len(gains) > 1 else ""
            return f"{_short(gains[0])}{more}"
        if not self.judged:
            return "nothing could be judged"
        if not set(self.judged) - _NO_WAIT:
            return f"what the steps waited for could not be judged; judged: {', '.join(self.judged)}"
        # Whether work is needed is not in a trace, so that nothing found does not mean nothing to gain.
        parts = [part for one in self.findings for part in largest_parts(one)]
        largest = f"; of the step, {', '.join(parts)}" if parts else ""
        return f"no known cause above {WORTH:.0%} of a step{largest}"

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON types."""
        return {
            "findings": [asdict(finding) for finding in self.findings],
            "abstained": [asdict(abstention) for abstention in self.abstained],
            "judged": list(self.judged),
            "caveats": list(self.caveats),
            "verdict": self.verdict,
        }

    @property
    def brief(self) -> str:
        """The advice for people: the first cause with its remedy, then the others in a line each."""
        gains = [one for one in self.findings if one.gain_ratio is not None or one.severity != "info"]
        first = gains[0] if gains and not self.caveats else None
        lines = [self.verdict] if first is None else _brief(first)
        others = [f"{one.severity:<7}{one.rule}: {one.summary}" for one in self.findings if one is not first]
        return "\n".join([*lines, *([""] if others else []), *others]) + "\n"

    @property
    def text(self) -> str:
        """The advice for people, with its evidence."""
        lines = [self.verdict, ""]
        for finding in self.findings:
            lines += _lines(finding)
        if self.abstained:
            lines += [f"could not be judged: {_together(self.abstained)}"]
        return "\n".join(lines).rstrip("\n") + "\n"


def _together(abstained: list[Abstention]) -> str:
    """Return the rules that could not judge, grouped by the missing recording."""
    rules: dict[str, list[str]] = {}
    for one in abstained:
        rules.setdefault(one.missing, []).append(one.rule)
    return "; ".join(f"{', '.join(names)} ({missing})" for missing, names in rules.items())


def _brief(finding: Finding) -> list[str]:
    lines = [finding.summary, f"  do: {finding.action}"]
    lines += [f"  gain: {finding.estimate_text}"] if finding.gain_text else []
    return lines + ([f"  see: {finding.command}"] if finding.command else [])


def _lines(finding: Finding) -> list[str]:
    limits = ", ".join(f"{name} {number(value)}" for name, value in finding.threshold.items())
    lines = [f"{finding.severity:<7}{finding.rule}: {finding.summary}"]
    lines += [f"       costs: {finding.gain_text}"] if finding.gain_text else []
    lines += [f"       because: {' <- '.join(finding.chain)}"] if finding.chain else []
    lines += [f"       evidence: {line}" for line in finding.evidence_lines]
    lines += [f"       threshold: {limits}"] if limits else []
    lines += [f"       do: {finding.action}"]
    lines += [f"       see: {finding.command}"] if finding.command else []
    lines += [f"       withdrawn when: {finding.withdrawn}"] if finding.withdrawn else []
    return lines


def advise(facts: Facts) -> Advice:
    """Apply every rule."""
    findings: list[Finding] = []
    abstained: list[Abstention] = []
    judged: list[str] = []
    cut = _unfit(facts.trace) if facts.trace is not None else ""
    late = None if cut else late_rank(facts)
    if late is not None:
        # The others wait for this one: what it waits for is what all of them wait for.
        facts = replace(facts, ranks=(int(late.place["rank"]),))
    for rule, (check, *_) in RULES.items():
        if check is None:
            continue
        try:
            if cut:
                raise Abstain(cut)
            if rule == "slow-rank" and late is not None:
                findings.append(late)
            else:
                findings += check(facts)
            judged.append(rule)
        except Abstain as missing:
            abstained.append(Abstention(rule, str(missing)))
    return Advice(ordered(joined(worthwhile(facts, findings))), abstained, judged, [cut] if cut else [])


def worthwhile(facts: Facts, findings: list[Finding]) -> list[Finding]:
    """Leave out findings that gain too little of the time from step to step, which may be much longer.

    Gains are of one step.
    """
    try:
        periods = {waited.rank: waited.period_ns for waited in facts.waited}
    except Abstain:
        return findings
    return [
        one
        for one in findings
        if one.gain_ns is None
        or is_worth(1e-9 * one.gain_ns, 1e-9 * periods.get(one.place.get("rank", -1), 0), ratio=WORTH)
    ]


def late_rank(facts: Facts) -> Finding | None:
    """Return the finding of a rank that the others wait for, None if there is none or it is unknown."""
    try:
        return next(iter(communication.slow_rank(facts)), None)
    except Abstain:
        return None


def cut_short(trace: Trace) -> str:
    """Return why a profile is incomplete, ``""`` if it is complete.

    The removed part is not known: devices' work is often written after the host's, so that shares of time,
    who waited for whom, and the recorded kinds may each differ in the whole file.
    """
    telling = [note for note in trace.notes if "cut short" in note or "ends too early" in note]
    if trace.dropped.get("cut_short") or telling:
        return (
            "the file is cut short, and what is missing could change every judgement; record or copy it again"
        )
    return ""


def _unfit(trace: Trace) -> str:
    """Return why nothing in a trace can be judged, ``""`` if it can be."""
    doubt = overlapping(trace)
    return cut_short(trace) or (f"{doubt}; name one of them" if doubt else "")


def joined(findings: list[Finding]) -> list[Finding]:
    """Join findings that explain each other: the cause stays, with the others in its chain."""
    explained = max((one.cost_ratio or 0.0 for one in findings if one.rule in _IDLING), default=0.0)
    findings = [
        one
        for one in findings
        if one.rule != "accelerator-utilization" or explained < 0.5 * (1 - one.evidence["utilization_ratio"])
    ]
    hosts = [one for one in findings if one.rule in _HOST and one.gain_ns is not None]
    for whole in hosts:
        parts = [one for one in findings if one.rule in _PART_OF_HOST]
        findings = [one for one in findings if one is not whole and one not in parts]
        findings.append(_with(whole, parts))
    late = next((one for one in findings if one.rule == "slow-rank"), None)
    if late is not None:
        findings = _under(late, findings)
    findings = _optimizer(_eager(findings))
    return _long_step([one for one in findings if not _explained(one, findings)])


def _optimizer(findings: list[Finding]) -> list[Finding]:
    """Join the optimizer's small operators with all small ones: whichever explains most of them stays."""
    small = next((one for one in findings if one.rule == "small-kernels"), None)
    part = next((one for one in findings if one.rule == "unfused-optimizer"), None)
    if small is None or part is None or "between_ns" not in small.evidence:  # with a device they are apart
        return findings
    kept, other = (part, small) if _most_of(part, small) else (small, part)
    joined = replace(kept, chain=[*kept.chain, _short(other)])
    return [joined if one is kept else one for one in findings if one is not other]


def _most_of(part: Finding, whole: Finding) -> bool:
    return (part.gain_ns or 0) >= 0.5 * (whole.gain_ns or 0)


def _eager(findings: list[Finding]) -> list[Finding]:
    """Join the small operators of a function with the finding that it dispatches them one by one."""
    eager = next((one for one in findings if one.rule == "eager-operations"), None)
    small = next((one for one in findings if one.rule == "small-kernels"), None)
    if eager is None or small is None or not _same_function(eager, small):
        return findings
    joined = replace(eager, chain=[*eager.chain, _short(small)])
    return [joined if one is eager else one for one in findings if one is not small]


def _same_function(one: Finding, other: Finding) -> bool:
    where = [(each.place.get("file"), each.place.get("function")) for each in (one, other)]
    return where[0] == where[1] != (None, None)


def _under(late: Finding, findings: list[Finding]) -> list[Finding]:
    """Put the late rank's own waits into its finding's chain; its communication is not a cause."""
    rest = [
        one for one in findings if one is not late and one.rule not in ("communication-bound", "slow-rank")
    ]
    own = [one for one in rest if one.gain_ns is not None and one.place.get("rank") == late.place["rank"]]
    first = max(own, key=lambda one: one.gain_ns or 0, default=None)
    return [*rest, replace(late, chain=[*late.chain, _short(first)]) if first else late]


def _with(whole: Finding, parts: list[Finding]) -> Finding:
    """Return the finding that stays: a part that alone explains most of the host's time, or the whole."""
    chain, alone = [*whole.chain], "device_idle_ratio" not in whole.evidence
    better = [
        one
        for one in parts
        if (one.gain_ns or 0) >= _share_of(one, whole) * (whole.gain_ns or 1)
        and (one.rule != "small-kernels" or alone)
    ]
    if better:
        kept = max(better, key=lambda one: one.gain_ns or 0)
        return replace(kept, chain=[*kept.chain, _short(whole)])
    chain += [_short(one) for one in sorted(parts, key=lambda one: -(one.gain_ns or 0))]
    return replace(whole, chain=chain)


def _share_of(part: Finding, whole: Finding) -> float:
    """Return the share of the host's time that a part must explain to be the cause.

    The Python between small operators or reads of one function is their calling: a quarter is enough there,
    unless a line leads that runs none of them.
    """
    same = _same_function(part, whole) and _runs_line_of(part, whole)
    return 0.25 if part.rule in ("small-kernels", "eager-operations", "sync-points") and same else 0.5


def _runs_line_of(part: Finding, whole: Finding) -> bool:
    place = f"{whole.place.get('file')}:{whole.place.get('line')} {whole.place.get('function')}"
    lines = [line["name"] for line in part.evidence.get("lines", ())]
    return not lines or place in lines


def _short(one: Finding) -> str:
    return one.summary.split("; without it")[0]


def _explained(one: Finding, findings: list[Finding]) -> bool:
    """Return whether a step is long only because of another finding's cause."""
    if one.rule != "step-variation":
        return False
    cause = _VARYING.get(str(one.evidence.get("activity", "")))
    return any(other.rule == cause for other in findings)


def _long_step(findings: list[Finding]) -> list[Finding]:
    """Join the cause of a long step with the finding about its line."""
    varied = next((one for one in findings if one.rule == "step-variation"), None)
    about = next((one for one in findings if varied is not None and _same_place(varied, one)), None)
    if varied is None or about is None:
        return findings
    joined = replace(about, chain=[*about.chain, _short(varied)])
    return [joined if one is about else one for one in findings if one is not varied]


def _same_place(one: Finding, other: Finding) -> bool:
    """Return whether another finding is about the same line, and about most of the time."""
    if one is other or "line" not in one.place:
        return False
    same = all(one.place[key] == other.place.get(key) for key in ("file", "line"))
    return same and (other.gain_ns or 0) >= steps.EXPLAINED * (one.gain_ns or 0)


def ordered(findings: list[Finding]) -> list[Finding]:
    """Return findings by their gain, followed by those without a gain by severity."""
    rules = list(RULES)

    def key(one: Finding) -> tuple[float, int, int]:
        worth = one.gain_ratio if one.gain_ratio is not None else -1.0
        # What the other findings are about, where there is one; and what ends a run.
        urgent = one.rule == "slow-rank" or (one.rule == "memory-near-limit" and one.severity == "high")
        return (-2.0 if urgent else -worth, SEVERITIES.index(one.severity), rules.index(one.rule))

    return sorted(findings, key=key)


__all__ = ["RULES", "Abstain", "Abstention", "Advice", "Facts", "Finding", "advise"]
