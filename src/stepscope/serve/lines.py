"""From the lines that a chart asks for to the series that are drawn, with notes on missing ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepscope.errors import ExpressionError, UnknownRunError, UnknownTagError, UsageError
from stepscope.serve.types import ChartRequest, LineRequest, Mistake, Note
from stepscope.store.derive import derive
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.store import Log, Series

MOST_NOTES = 20


@dataclass
class FoundSeries:
    """The series that a chart is drawn from.

    Attributes:
        series: One per line, writer and attempt.
        groups: The group of each, empty if it has none.
        others: For each the series of the tag that is the x axis.
    """

    series: list[Series] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    others: list[list[Series]] = field(default_factory=list)
    missing: list[LineRequest] = field(default_factory=list)
    mistake: Mistake | None = None
    noted: dict[tuple[str, str], int] = field(default_factory=dict)

    def note(self, text: str, hint: str) -> None:
        """Count one more line with this note."""
        self.noted[text, hint] = self.noted.get((text, hint), 0) + 1

    @property
    def notes(self) -> list[Note]:
        """The notes, most frequent first; the last counts those that do not fit."""
        sorted_notes = sorted(self.noted.items(), key=lambda item: -item[1])
        notes = [Note(text, hint, lines) for (text, hint), lines in sorted_notes]
        rest = notes[MOST_NOTES:]
        more = [Note(counted(len(rest), "other note"), "", sum(note.lines for note in rest))] if rest else []
        return notes[:MOST_NOTES] + more


def find(chart: ChartRequest, log: Log | None) -> FoundSeries:
    """Look up the lines of a chart; missing ones cause no failure."""
    lookup = FoundSeries()
    for line in chart.lines:
        series = _series(log, line, lookup)
        if not series:
            lookup.missing.append(line)
        lookup.series += series
        lookup.groups += [line.group or ""] * len(series)
        if chart.x == "tag":
            other = other_series(log, line.run, chart.x_tag or "") if series else []
            lookup.others += [other] * len(series)
    return lookup


def _series(log: Log | None, line: LineRequest, lookup: FoundSeries) -> list[Series]:
    if log is None:
        return []
    try:
        if not line.expression:
            return log.run(line.run).columns(line.tag)
        derived = derive(log.run(line.run), line.tag)
    except ExpressionError as error:
        lookup.mistake = lookup.mistake or mistake(line.tag, error)
    except UnknownTagError as error:
        if line.expression:
            lookup.note(error.message, error.hint)
    except UsageError as error:
        lookup.note(error.message, error.hint)
    except UnknownRunError:
        pass
    else:
        if derived.note:
            lookup.note(derived.note, "hold(tag) stands for its newest value at or before each step")
        return derived.series
    return []


def other_series(log: Log | None, run: str, tag: str) -> list[Series]:
    """Return the series of the x axis for a run; none if it has no such tag."""
    if log is None:
        return []
    try:
        return log.run(run).find(tag)
    except (UnknownRunError, UnknownTagError):
        return []


def mistake(text: str, error: ExpressionError) -> Mistake:
    """Return the error in an expression as the page shows it."""
    return Mistake(text, error.message, error.hint, error.start, error.end)
