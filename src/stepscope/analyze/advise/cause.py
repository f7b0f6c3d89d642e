"""A cause as a row, and the one engine that judges every row.

A row selects time on each rank, and has its sentence, its remedies and the condition under which it would be
withdrawn. The engine does the rest: the worst rank, the limits, the finding with its gain and its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stepscope.analyze.advise.finding import (
    MOST_PLACES,
    WORTH,
    Abstain,
    Case,
    Facts,
    Finding,
    events_of,
    lines_told,
    place_of,
)
from stepscope.analyze.advise.remedy import framework_of, open_line, with_line
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.device import rows_spans
from stepscope.attribute.origin import SourceLine
from stepscope.attribute.source_lines import Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.health.worth import severity_of

MADE, ANEW, SET_UP = "made", "made anew", "set up"
"""Ways to say what happened in the line to change, if another one takes the time."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One row.

    Attributes:
        rule: Its id.
        cases: Returns the cause on each rank, None if it was not found. Without the data it raises
            :class:`Abstain`.
        say: Returns the sentence, up to the time that the change leaves.
        remedies: By framework, "" for any other; or a function of the case.
        withdrawn: The condition under which it would no longer be reported.
        left: Returns the end of the sentence, the time that the change leaves.
        command: Returns the command that shows it; by default that for its line, and the remedy then says how
            to record the line.
        least: Least gain as a share of the steps.
        limits: Further limits that the evidence passed.
        sure: Whether the named change saves this time. If that depends on what a profile does not hold, the
            finding is worth knowing, ``info``, and its gain is a bound: what the change could save.
        bound: Whether the change may leave some of this time, so that its gain is a bound, too.
        made: ``MADE`` or ``SET_UP`` if the line to change is that which made what is called, or set it up;
            ``ANEW`` if that happens in the steps; empty if it is the call itself. It may depend on the case.
        always: What is said even if its time is not in the profile; empty if nothing is.
        width: How much else it may include: 0 if it says what the time was for. A finding that says how time
            passed is wider, the more ways it includes; one below 0 also says why the work is needless.
        idles: Whether it is a reason why an accelerator stands still.
        waits: Whether it looks at waits: if only others could judge, much may still be to gain.
    """

    rule: str
    cases: Callable[[Facts], Iterable[Case | None]]
    say: Callable[[Case], str]
    remedies: Mapping[str, str] | Callable[[Facts, Case], str]
    withdrawn: str
    left: Callable[[Case], str] = lambda case: f"without it {case.left_text()}"
    command: Callable[[Facts, Case], str] | None = None
    least: float = WORTH
    limits: Mapping[str, float] = field(default_factory=dict)
    sure: Callable[[Case], bool] = lambda case: True
    bound: bool = False
    made: str | Callable[[Case], str] = ""
    always: str = ""
    width: int = 0
    idles: bool = False
    waits: bool = True

    def check(self, facts: Facts) -> Iterator[Finding]:
        """Judge the cause on all ranks."""
        cases = list(self.cases(facts))
        findings = list(self.judged(facts, cases, of=len(facts.waited)))
        unseen = next((case for case in cases if case is not None and self.always and not findings), None)
        yield from findings if unseen is None else (self._unmeasured(facts, unseen),)

    def judged(self, facts: Facts, cases: Iterable[Case | None], *, of: int) -> Iterator[Finding]:
        """Yield one finding of all ranks on which it is worth anything, described by the worst of them.

        Args:
            facts: The facts.
            cases: The cause on each rank.
            of: Number of ranks examined.
        """
        worth_it = [case for case in cases if case is not None and case.ratio >= self.least]
        if not worth_it:
            return
        ordered = sorted(worth_it, key=lambda case: -case.ratio)
        sure = self.sure(ordered[0])
        worst = ordered[0].bounded(self.bound or not sure)
        waited, worth = worst.waited, worst.worth
        evidence = {"rank": waited.rank, **worst.evidence, **self._made(worst)[0]}
        if waited.marked:
            evidence["steps"] = waited.count
        evidence["step_ns"] = round(waited.own_ns / waited.count)
        if waited.own_ns < waited.wall_ns:
            evidence["queued_ns"] = round((waited.wall_ns - waited.own_ns) / waited.count)
        # Where one rank of several is judged alone, the sentence says which.
        label = waited.label
        if of > 1:
            label = f"rank {waited.rank}, the worst of {len(ordered)} of {of}: "
            evidence |= {"affected": len(ordered), "of": of}
            evidence["next"] = [
                {"rank": case.waited.rank, "gain_ratio": case.ratio} for case in ordered[1 : 1 + MOST_PLACES]
            ]
        short = label + self.say(worst)
        yield Finding(
            worst.rule or self.rule,
            severity_of(worst.ratio) if sure else "info",
            f"{short}; {self.left(worst)}",
            evidence,
            {"gain_ratio": self.least, **self.limits},
            cost_ns=round(worth.cost_ns / waited.count),
            cost_ratio=worst.cost_ratio,
            gain_ns=round(worth.gain_ns / waited.count),
            gain_ratio=worst.ratio,
            gain_from=worth.how,
            gain_range_ns=worth.spread_ns,
            chain=list(worst.chain),
            short=short,
            spans=worst.spans,
            **self._change(facts, worst),
        )

    def _change(self, facts: Facts, case: Case) -> dict[str, Any]:
        """Return what to do, where, and what shows it."""
        waited, remedies = case.waited, self.remedies
        if callable(remedies):
            action = remedies(facts, case)
        else:
            action = remedies.get(framework_of(facts.timeline), remedies.get("", ""))
        by_line = self.command is None
        made, line = self._made(case)
        for one in made.get("made", ()):
            action += f"; {one['name']}"
        return {
            "action": with_line(facts, case, action) if by_line else action,
            "place": place_of(waited, line),
            "events": events_of(waited.trace, case.rows if len(case.rows) else waited.step_rows),
            "command": open_line(facts, case) if self.command is None else self.command(facts, case),
            "withdrawn": self.withdrawn,
        }

    def _made(self, case: Case) -> tuple[dict[str, Any], Share | None]:
        """Return where what the line calls was made or set up, as evidence, and the line to change.

        If it calls several objects, the line to change is not known to be that of one of them.
        """
        way = self.made(case) if callable(self.made) else self.made
        line, sampled = case.line, case.waited.sampled
        if not way or line is None or sampled is None:
            return {}, line
        makers, lines = [], list[SourceLine]()
        for one in sampled.made(line.line, line.calls):
            done, places = (SET_UP, one.set_up) if way == SET_UP and one.set_up else (MADE, one.places)
            if way == ANEW and one.again:
                done, places = "set up again", one.again
            known = [place for text in places if (place := sampled.line_of(text)) is not None]
            if way == ANEW:  # what a module makes while it is loaded is made once
                known = [place for place in known if place.function != "<module>"]
            if known:
                makers.append({"name": f"{one.name} is {done} in {' and '.join(map(str, known))}"})
                lines.append(known[0])
        changed = replace(line, line=lines[0]) if len(lines) == 1 else line
        return ({"made": makers} if makers else {}), changed

    def _unmeasured(self, facts: Facts, case: Case) -> Finding:
        evidence = {**case.evidence, "rank": case.waited.rank}
        summary = f"{self.always}; its cost is not in the profile"
        return Finding(self.rule, "info", summary, evidence, {}, **self._change(facts, case))


@dataclass(frozen=True)
class Selection:
    """The time of a rank that a cause accounts for.

    Attributes:
        spans: Time of the training thread that the mend would take away.
        evidence: Numbers and names for the sentence, JSON types.
        rows: The events behind it.
        whole: Whether work of a device or of other threads in that time would go, too.
        of_rows: Whether the line to change is that of ``rows`` rather than the one that takes the time.
        line: The line to change, if it is known otherwise.
        device: Work of devices that would go as well.
        waits: Whether it is the time of waits, so that none are taken off it.
    """

    spans: Spans
    evidence: dict[str, Any] = field(default_factory=dict)
    rows: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    whole: bool = False
    of_rows: bool = False
    line: Share | None = None
    device: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    waits: bool = False


def on_each(find: Callable[[Waited], Case | Selection | None]) -> Callable[[Facts], list[Case | None]]:
    """Return the cases of all ranks; it abstains if every rank lacks the data."""

    def cases(facts: Facts) -> list[Case | None]:
        judged: list[Case | None] = []
        missing = []
        for waited in facts.waited:
            try:
                one = find(waited)
            except Abstain as lacks:
                missing.append(lacks)
                continue
            judged.append(_replayed(waited, one) if isinstance(one, Selection) else one)
        if missing and not judged:
            raise missing[0]
        return judged

    return cases


def _replayed(waited: Waited, selected: Selection) -> Case:
    """Return the case of a selection: the steps replayed without it, and its lines."""
    spans, rows = selected.spans, selected.rows
    device = selected.device if len(selected.device) else None
    if selected.whole:
        worth = waited.whole(spans, queued=not selected.waits)
    else:
        worth = waited.worth(host={waited.lane: spans}, device=device, queued=not selected.waits)
    lines: list[Share] = []
    if selected.of_rows:
        lines = waited.lines(rows_spans(waited.trace, np.unique(rows)))
    lines = lines or waited.origin_lines(rows, lambda some: rows_spans(waited.trace, some))
    lines = lines or waited.lines(spans)
    evidence = {**selected.evidence, "lines": lines_told(lines, spans.measure_ns)}
    line = selected.line or (lines[0] if lines else None)
    return Case(waited, worth, evidence, line, rows, spans=spans)
