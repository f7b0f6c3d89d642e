"""Rules over the facts of single series: when they look, and at which place a finding opens."""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from typing import NamedTuple

from stepscope.health.batch import Chunk
from stepscope.health.facts import Facts
from stepscope.health.rule import At, PerStream, StreamWatch
from stepscope.health.series import Stream

OFTEN = 64
"""Points up to which a rule looks at each of them: evaluations are few."""
GROWTH = 1.25
"""Factor by which a longer series grows from one look to the next: what is noticed later than by a quarter of
the time that it took to happen is noticed in time."""


class Seen(NamedTuple):
    """A rule's view of the facts of a series.

    Attributes:
        text: One sentence with the number that matters.
        values: The numbers that show it.
        since_step: The step since which it holds.
    """

    text: str
    values: dict[str, float]
    since_step: int


class FactRule(PerStream):
    """A rule that compares facts of a series; it looks at counts of points that no portion changes."""

    @abstractmethod
    def see(self, facts: Facts, stream: Stream) -> Seen | None:
        """Return what is wrong; None if nothing is."""

    def ended(self, facts: Facts, stream: Stream) -> None:
        """Judge a series at the end of what is recorded."""

    def watch(self, stream: Stream) -> StreamWatch:
        return _FactWatch(self)

    def finish(self) -> None:
        for watch in self._watches.values():
            if isinstance(watch, _FactWatch):
                watch.look()
                watch.end()


class _FactWatch(StreamWatch):
    def __init__(self, rule: FactRule) -> None:
        self._rule, self._facts, self._next = rule, Facts(), 1
        self._newest: Chunk | None = None

    def take(self, chunk: Chunk) -> None:
        done = 0
        while done < len(chunk):
            part = chunk.part(slice(done, done + self._next - self._facts.count))
            self._facts.take(part.steps, part.values, part.walls)
            self._newest = part.part(slice(-1, None))
            done += len(part)
            if self._facts.count == self._next:
                self._next = max(self._next + 1, ceil(self._next * GROWTH) if self._next >= OFTEN else 0)
                self.look()

    def end(self) -> None:
        """Judge the end of what is recorded."""
        if self._newest is not None:
            self._rule.ended(self._facts, self._newest.stream)

    def look(self) -> None:
        """Open a finding, or close it, by the facts so far."""
        if self._newest is None:
            return
        seen = self._rule.see(self._facts, self._newest.stream)
        at = At.row(self._newest, 0)
        if seen is None:
            self._rule.close(at)
        else:
            self._rule.open(at, seen.text, seen.values, since_step=min(seen.since_step, at.step))
