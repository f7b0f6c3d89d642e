"""All rules over one run: takes points of named series as they come, and returns findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UsageError
from stepscope.health.alert import Alert, Own, alert_of
from stepscope.health.batch import Chunk, StreamBatch, rising_times
from stepscope.health.behaviour import taken_for
from stepscope.health.context import Context
from stepscope.health.finding import NONFINITE, Abstention, Finding, as_shown, led
from stepscope.health.looks import Row, RunFacts
from stepscope.health.origins import SPIKES, Origins
from stepscope.health.practice import practices_of
from stepscope.health.rule import Rule
from stepscope.health.rules import RULES
from stepscope.health.series import Stream, stream_of
from stepscope.names.meanings import NAMED, Meanings
from stepscope.names.splits import JudgedSplit

Choice = Mapping[str, "bool | Mapping[str, float]"]
"""Settings of rules by a rule's id: off, or thresholds."""
EXPLAINED = (*NONFINITE, *SPIKES)
Array = NDArray[Any]
Part = tuple[Array, Array, Array]
"""Steps, values and times."""


@dataclass(frozen=True)
class Verdict:
    """The verdict of the rules on a run.

    Attributes:
        findings: The severest first, then the open ones, then by time.
        abstained: Rules that could not tell.
        passed: Ids of the rules that could judge and found nothing.
        more: Findings beyond the most that a rule keeps, by rule.
    """

    findings: list[Finding] = field(default_factory=list)
    abstained: list[Abstention] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    more: dict[str, int] = field(default_factory=dict)


class Monitor:
    """The rules of one attempt of one run.

    Points may come in portions of any size. They are judged in the order of their time, up to the time until
    which ``advance`` says that all have come, so the findings do not depend on the portions.

    Args:
        rules: Rules to switch off (``{"plateau": False}``) and thresholds (``{"loss-spike": {"z": 8}}``).
        meanings: The meanings of tags.
        alerts: Rules of the user's own.
        single: Whether to judge values as they will be read from the file, with 32 bits.

    Raises:
        UsageError: No such rule or threshold.
    """

    def __init__(
        self,
        rules: Choice | None = None,
        meanings: Meanings = NAMED,
        *,
        single: bool = False,
        alerts: Iterable[str | Alert] = (),
    ) -> None:
        self._single = single
        self.rules = chosen(rules or {})
        self._followed: set[str] = set()
        self.meanings = meanings
        self._streams: dict[tuple[str, int | None, str, JudgedSplit | None], Stream | None] = {}
        self._waiting: dict[Stream, list[Part]] = {}
        self._begun: dict[Stream, tuple[float, int]] = {}
        """Time of the first point of each series, and its place among those that began then."""
        self._latest: dict[Stream, float] = {}
        self._wanted = {"metric", "other", "second_moment", "cpu_wait"}.union(
            *(rule.roles for rule in self.rules)
        )
        self.context, self.origins = Context(), Origins()
        rows = [rule for rule in self.rules if isinstance(rule, Row)]
        self._facts = RunFacts(rows, self.context.restarts, taken_for)
        for rule in self.rules:
            rule.context = self.context
        for alert in alerts:
            self.add(alert)
        self.newest = float("-inf")
        """Time of the newest point so far."""

    def add(self, alert: str | Alert) -> None:
        """Also judge by a rule of the user's from now on.

        Raises:
            ExpressionError: The text is not a condition.
        """
        rule = Own(alert_of(alert))
        names = {rule.id for rule in self.rules}
        if rule.id in names:
            raise UsageError(f"two rules are called {rule.id!r}", hint='Alert(…, name="another")')
        rule.context = self.context
        self.rules.append(rule)
        self._followed |= rule.tags

    @property
    def failures(self) -> list[str]:
        """Errors that the user's functions raised."""
        return [rule.failure for rule in self.rules if isinstance(rule, Own) and rule.failure]

    def configured(self, config: Mapping[str, Any]) -> None:
        """Note the recorded configuration of the run: advice leaves out what it does already."""
        self.context.practices = practices_of(config)

    def take(
        self,
        tag: str,
        steps: Array,
        values: Array,
        walls: Array,
        *,
        rank: int | None = None,
        run: str = "",
        split: JudgedSplit | None = None,
    ) -> None:
        """Take points of one series, in recorded order.

        Args:
            tag: Its name.
            steps: Integers.
            values: Numbers, not finite ones too.
            walls: Seconds since the epoch.
            rank: That recorded them, if there are several.
            run: That the series belongs to, if there are several.
            split: Of the run, for a tag that does not say.
        """
        if not len(steps):
            return
        place = tag, rank, run, split
        if place not in self._streams:
            self._streams[place] = stream_of(
                tag, rank=rank, run=run, split=split, meanings=self.meanings, first=float(values[0])
            )
            self.context.hear(tag, float(walls[0]) if np.isfinite(walls[0]) else float("-inf"))
        stream = self._streams[place]
        if stream is None:
            return
        self.newest = max(self.newest, float(walls[-1]))  # not so with NaN, which is not greater
        if stream.role in self._wanted or tag in self._followed:
            # No more than this for each portion: there are many small ones, on a thread that must be quick.
            self._waiting.setdefault(stream, []).append((steps, values, walls))

    def advance(self, wall: float) -> None:
        """Judge everything before a time; all of it must have come.

        A point of that stretch that comes later is judged then, as if it had been recorded then.
        """
        with np.errstate(all="ignore"):  # any number may come; infinities are judged, not warned about
            self._judge(wall)

    def _judge(self, wall: float) -> None:
        chunks = []
        for stream, parts in self._waiting.items():
            if parts:
                chunk, parts[:] = self._cut(stream, parts, wall)
                if len(chunk):
                    chunks.append(chunk)
        if chunks:
            for chunk in chunks:
                if chunk.stream not in self._begun:
                    self._begun[chunk.stream] = float(chunk.walls[0]), len(self._begun)
            batch = StreamBatch(sorted(chunks, key=lambda chunk: self._begun[chunk.stream]))
            self.context.take(batch)
            known = {rule.id: len(rule.found) for rule in self.rules if rule.id in EXPLAINED}
            self._facts.take(batch)
            for rule in self.rules:
                rule.take(batch)
            for rule in self.rules:
                if rule.id in known:
                    self.origins.open(rule.found[known[rule.id] :])
            self.origins.take(batch)
            self._explain(again=self.origins.more)

    def _explain(self, *, again: bool) -> None:
        """Add to findings how they began, as far as that is known: samples of their steps may still come.

        Args:
            again: Whether to look at all findings; otherwise at those that are new or changed.
        """
        for rule in self.rules:
            if rule.id not in EXPLAINED:
                continue
            changed = {finding.number for finding in rule.changed}
            for number in range(len(rule.found)) if again else sorted(changed):
                causes = self.origins.causes(rule.found[number])
                explained = replace(rule.found[number], causes=causes)
                if explained == rule.found[number]:
                    continue
                rule.found[number] = explained
                rule.changed[:] = [
                    replace(finding, causes=causes) if finding.number == number else finding
                    for finding in rule.changed
                ]
                if number not in changed:
                    rule.changed.append(explained)

    def _cut(self, stream: Stream, parts: list[Part], wall: float) -> tuple[Chunk, list[Part]]:
        """Return the points before a time as a chunk, and the others."""
        columns = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        steps, values, walls = columns
        times = rising_times(np.asarray(walls, np.float64), self._latest.get(stream, float("-inf")))
        end = int(np.searchsorted(times, wall))
        judged = np.asarray(values[:end], np.float64)
        if self._single:
            judged = as_single(judged)
        if stream.scale != 1.0:
            judged = judged * stream.scale
        if end:
            self._latest[stream] = float(times[end - 1])
        chunk = Chunk(stream, np.asarray(steps[:end], np.int64), judged, times[:end])
        return chunk, [(steps[end:], values[end:], times[end:])] if end < len(steps) else []

    def finish(self) -> None:
        """Judge everything; the run is over."""
        self.advance(float("inf"))
        with np.errstate(all="ignore"):
            self._facts.finish()
            for rule in self.rules:
                rule.finish()
            self._explain(again=True)

    def news(self) -> list[Finding]:
        """Return the findings that opened, changed or closed since the last call, in their latest state."""
        news: list[Finding] = []
        for rule in self.rules:
            places: dict[int, int] = {}
            for finding in rule.changed:
                if finding.is_open and finding.number in places:  # brought up to date, or open again
                    news[places[finding.number]] = finding
                    continue
                places[finding.number] = len(news)
                news.append(finding)
            rule.changed.clear()
        return sorted(
            news, key=lambda finding: finding.wall if finding.is_open else finding.closed_wall or 0.0
        )

    @property
    def verdict(self) -> Verdict:
        """The verdict so far."""
        every = (finding for rule in self.rules for finding in rule.found)
        findings = as_shown(led(every, {rule.id: rule.explains for rule in self.rules}))
        lacking = [(rule, rule.missing) for rule in self.rules if not rule.found]
        return Verdict(
            findings,
            [Abstention(rule.id, rule.title, missing) for rule, missing in lacking if missing],
            [rule.id for rule, missing in lacking if not missing],
            {rule.id: rule.more for rule in self.rules if rule.more},
        )


def as_single(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers as an event file holds them: with 32 bits, unless they do not fit."""
    short = values.astype(np.float32).astype(np.float64)
    if np.isfinite(short).all():
        return short
    return np.where(np.isfinite(values) & ~np.isfinite(short), values, short)


def chosen(choice: Choice) -> list[Rule]:
    """Return new rules as a user chose them.

    Raises:
        UsageError: No such rule, or no such threshold.
    """
    unknown = sorted(set(choice) - set(RULES))
    if unknown:
        raise UsageError(f"no health rule {unknown[0]!r}", hint=f"the rules: {', '.join(RULES)}")
    rules = []
    for name, kind in RULES.items():
        setting = choice.get(name, True)
        if setting is not False:
            rules.append(kind(setting if isinstance(setting, Mapping) else None))
    return rules
