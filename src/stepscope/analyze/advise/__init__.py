"""Rules that find the waits of a profile's steps, their cost, and a remedy.

One check per rule, listed in ``rules.py``. A rule that lacks data abstains and names the missing data, so no
finding means "looked, and found nothing". Findings that explain each other are one, with a chain.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stepscope.analyze.advise import communication
from stepscope.analyze.advise.expensive import largest_parts, largest_ratio
from stepscope.analyze.advise.finding import SEVERITIES, WORTH, Abstain, Abstention, Facts, Finding
from stepscope.analyze.advise.host import HOST
from stepscope.analyze.advise.kernels import SMALL
from stepscope.analyze.advise.rules import RULES
from stepscope.health.worth import is_worth
from stepscope.text import number
from stepscope.trace.model import Trace
from stepscope.trace.ranks import overlapping

HALF = 0.5
"""Share of a finding's time from which on another one is about the same time."""


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
        gains, first = self._gains, self._first
        if self.caveats:
            return f"not judged: {self.caveats[0]}"
        if first is not None:
            more = f"; {len(gains) - 1} more" if len(gains) > 1 else ""
            return f"{_short(first)}{more}"
        if not self.judged:
            return "nothing could be judged"
        if not any(RULES[rule].waits for rule in self.judged):
            return f"what the steps waited for could not be judged; judged: {', '.join(self.judged)}"
        # Whether work is needed is not in a trace, so that nothing found does not mean nothing to gain.
        parts = [part for one in self.findings for part in largest_parts(one)]
        largest = f"; of the step, {', '.join(parts)}" if parts else ""
        return f"{'no sure cause' if gains else f'no known cause above {WORTH:.0%} of a step'}{largest}"

    @property
    def _gains(self) -> list[Finding]:
        return [one for one in self.findings if one.gain_ratio is not None or one.severity != "info"]

    @property
    def _first(self) -> Finding | None:
        """The first finding, if it is a gain and nothing keeps the profile from being judged."""
        gains = self._gains
        return gains[0] if gains and gains[0] is self.findings[0] and not self.caveats else None

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON types."""
        return {
            "findings": [finding.as_dict() for finding in self.findings],
            "abstained": [asdict(abstention) for abstention in self.abstained],
            "judged": list(self.judged),
            "caveats": list(self.caveats),
            "verdict": self.verdict,
        }

    @property
    def brief(self) -> str:
        """The advice for people: the first cause with its remedy, then the others in a line each."""
        first = self._first
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
    """Join findings about the same time: the narrowest that covers it stays, with the others in its chain.

    A finding whose rule is wider gives way to a narrower one that accounts for half of its time
    or more. Otherwise it stays, and those narrower ones that say only how its time passed are in its chain.
    """
    late = next((one for one in findings if one.rule == "slow-rank"), None)
    if late is not None:
        findings = _under(late, findings)
    for width in sorted({rule.width for rule in RULES.values()}, reverse=True):
        for wide in [one for one in findings if _width(one) == width]:
            narrow = [
                one
                for one in findings
                if _width(one) < width and one.place.get("rank") == wide.place.get("rank")
            ]
            covering = [one for one in narrow if _covers(one, wide)]
            if covering:
                stays = min(covering, key=lambda one: (_width(one), -(one.gain_ns or 0)))
                gone = [wide]
            else:
                stays = wide
                gone = [one for one in narrow if _width(one) > 0 and _within(one, wide)]
                gone.sort(key=lambda one: -(one.gain_ns or 0))
            chained = replace(stays, chain=[*stays.chain, *(_short(one) for one in gone)])
            findings = [
                chained if one is stays else one for one in findings if not any(one is it for it in gone)
            ]
    return findings


def _width(one: Finding) -> int:
    return RULES[one.rule].width


def _covers(one: Finding, wide: Finding) -> bool:
    """Return whether a finding accounts for half of a wider one's time or more, and of its gain.

    One that is not sure hides none that is. Of two that are not, that which says what the time may be for
    hides none that gains more, in steps that gain little, too; in which way it passes is known.
    """
    least = HALF * (wide.gain_ns or 0)
    if one.severity == "info" and (wide.severity != "info" or _width(one) <= 0):
        least = (wide.severity == "info" and wide.gain_range_ns[0]) or wide.gain_ns or 0
    if (one.gain_ns or 0) < least:
        return False
    if wide.rule == "accelerator-utilization":
        idle = 1 - wide.evidence["utilization_ratio"]
        return RULES[one.rule].idles and (one.cost_ratio or 0.0) >= HALF * idle
    if one.spans is None or wide.spans is None:
        # Kernels are not the time in which the device waits for the host.
        part = _width(one) not in (0, SMALL.width) and _width(wide) == HOST.width
        return part and bool(one.gain_ns) and (one.gain_ns or 0) >= HALF * (wide.gain_ns or 0)
    if _width(wide) < 0 and "line" in one.place and one.place == wide.place:
        return True  # which of a line's equal calls are meant differs
    return one.spans.intersect(wide.spans).measure_ns >= HALF * wide.spans.measure_ns > 0


def _within(one: Finding, wide: Finding) -> bool:
    """Return whether half of a finding's time or more belongs to a wider one."""
    if one.spans is None or wide.spans is None:
        return _width(wide) == HOST.width
    return one.spans.intersect(wide.spans).measure_ns >= HALF * one.spans.measure_ns


def _under(late: Finding, findings: list[Finding]) -> list[Finding]:
    """Put the late rank's own waits into its finding's chain; its communication is not a cause."""
    rest = [
        one for one in findings if one is not late and one.rule not in ("communication-bound", "slow-rank")
    ]
    own = [one for one in rest if one.gain_ns is not None and one.place.get("rank") == late.place["rank"]]
    first = max(own, key=lambda one: one.gain_ns or 0, default=None)
    return [*rest, replace(late, chain=[*late.chain, _short(first)]) if first else late]


def _short(one: Finding) -> str:
    return one.short or one.summary


def ordered(findings: list[Finding]) -> list[Finding]:
    """Return findings by their gain, followed by those without a gain by severity.

    A change that is not sure to help could save anything between nothing and the gain: half of it counts. If
    no finding is sure, the largest operation counts a quarter of its time: half may be needed, half of the
    rest be saved.
    """
    rules, sure = list(RULES), any(one.severity != "info" for one in findings)

    def key(one: Finding) -> tuple[float, int, int]:
        worth = one.gain_ratio if one.gain_ratio is not None else -1.0
        worth *= HALF if one.severity == "info" and worth > 0 else 1
        if one.rule == "expensive-operation" and not sure:
            worth = HALF * HALF * largest_ratio(one)
        # What the other findings are about, where there is one; and what ends a run.
        urgent = one.rule == "slow-rank" or (one.rule == "memory-near-limit" and one.severity == "high")
        return (-2.0 if urgent else -worth, SEVERITIES.index(one.severity), rules.index(one.rule))

    return sorted(findings, key=key)


__all__ = ["RULES", "Abstain", "Abstention", "Advice", "Facts", "Finding", "advise"]
