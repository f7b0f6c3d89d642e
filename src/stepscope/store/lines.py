"""The lines of the program in which a rank spent its time, as ``LineHook`` recorded them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from statistics import median
from typing import Any, NamedTuple, Protocol

from stepscope.text import duration

LEAST_APART = 0.1
"""Share of a rank's step in a line, beyond that of the others, that is named."""


class CodeLine(NamedTuple):
    """A line of a program.

    Attributes:
        file: Its path.
        line: Its number, from 1.
        function: The function that it is in.
        text: Its source, cut; empty if it is not known.
    """

    file: str
    line: int
    function: str
    text: str

    @property
    def place(self) -> str:
        """The file's name and the number."""
        return f"{PurePath(self.file).name}:{self.line}"

    def __str__(self) -> str:
        return f"{self.place}  {self.text}" if self.text else f"{self.place} in {self.function}"


@dataclass(frozen=True)
class LineWindow:
    """A stretch of the training.

    Attributes:
        first_step: Number of the step at its beginning ...
        last_step: ... and at its end.
        steps: Steps that ended in it.
        seconds: Its time.
        spent_s: Seconds of the lines that took most of it.
    """

    first_step: int
    last_step: int
    steps: int
    seconds: float
    spent_s: Mapping[CodeLine, float]


class Growth(NamedTuple):
    """The line that grew most when the steps became slower.

    Attributes:
        line: The line.
        before_s: Its seconds a step before.
        after_s: Its seconds a step since.
    """

    line: CodeLine
    before_s: float
    after_s: float

    def __str__(self) -> str:
        return (
            f"most of it is {self.line}: {duration(self.before_s)} of a step before, "
            f"{duration(self.after_s)} since"
        )


class Recorded(Protocol):
    """A rank, as ``store.ranks.Rank``."""

    @property
    def attempts(self) -> tuple[int, ...]:
        """Numbers of the attempts that it took part in."""

    @property
    def facts(self) -> dict[str, Any]:
        """Everything it says about itself."""


def windows_of_run(ranks: Iterable[Recorded], attempt: int | None = None) -> list[LineWindow]:
    """Return the windows of the first rank that recorded any.

    Args:
        ranks: Of a run.
        attempt: Only of ranks whose newest attempt is this one.
    """
    own = (rank for rank in ranks if attempt in (None, max(rank.attempts, default=0)))
    return next(filter(None, (windows_of(rank.facts) for rank in own)), [])


def windows_of(facts: Mapping[str, Any]) -> list[LineWindow]:
    """Return the windows in the facts of a rank; none if nothing was recorded or the facts are damaged."""
    with suppress(KeyError, TypeError, ValueError, IndexError):
        recorded = facts["lines"]
        code = [
            CodeLine(str(file), int(at), str(name), str(text)) for file, at, name, text in recorded["code"]
        ]
        return [
            LineWindow(
                int(first), int(last), int(steps), float(seconds), {code[at]: float(s) for at, s in spent}
            )
            for first, last, steps, seconds, spent in recorded["windows"]
        ]
    return []


def spent_s(windows: Sequence[LineWindow]) -> dict[CodeLine, float]:
    """Return the seconds of each line over windows, the most first."""
    sums: dict[CodeLine, float] = {}
    for window in windows:
        for line, seconds in window.spent_s.items():
            sums[line] = sums.get(line, 0.0) + seconds
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def growth(windows: Sequence[LineWindow], since: int) -> Growth | None:
    """Return the line that explains most of what the steps take longer since a step.

    Windows that lie on both sides count for none. None if there is no step on one side, the steps do not take
    longer, or no line explains half of it.
    """
    before = [window for window in windows if window.last_step < since]
    after = [window for window in windows if window.first_step >= since]
    count_before, count_after = (sum(window.steps for window in side) for side in (before, after))
    if not count_before or not count_after:
        return None
    earlier, later = spent_s(before), spent_s(after)
    grown = {
        line: seconds / count_after - earlier.get(line, 0.0) / count_before for line, seconds in later.items()
    }
    whole_before = sum(window.seconds for window in before) / count_before
    longer = sum(window.seconds for window in after) / count_after - whole_before
    line = max(grown, key=lambda line: grown[line], default=None)
    if line is None or longer <= 0 or grown[line] < longer / 2:
        return None
    return Growth(line, earlier.get(line, 0.0) / count_before, later[line] / count_after)


def apart(windows: Mapping[int, Sequence[LineWindow]]) -> dict[int, tuple[str, str]]:
    """Return the line in which a rank spends most more than the others do, and that in a sentence.

    Only of ranks that spend at least a tenth of their steps there beyond what the median of the others does:
    a rank that waits for others spends that time in the line that waits.

    Args:
        windows: Of each rank.
    """
    steps = {rank: sum(window.steps for window in own) for rank, own in windows.items()}
    each_step = {
        rank: {line: seconds / steps[rank] for line, seconds in spent_s(own).items()}
        for rank, own in windows.items()
        if steps[rank]
    }
    slow_lines: dict[int, tuple[str, str]] = {}
    for rank, own in each_step.items():
        others = [costs for other, costs in each_step.items() if other != rank]
        if not others:
            continue
        usual = {line: median(costs.get(line, 0.0) for costs in others) for line in own}
        line = max(own, key=lambda line: own[line] - usual[line], default=None)
        whole = sum(window.seconds for window in windows[rank]) / steps[rank]
        if line is not None and own[line] - usual[line] >= LEAST_APART * whole:
            less = f"the others {duration(usual[line])}" if usual[line] else "the others none"
            text = f"rank {rank} spends {duration(own[line])} of a step at {line}, and {less}"
            slow_lines[rank] = line.place, text
    return slow_lines


def placed(findings: Iterable[Any], windows: Sequence[LineWindow]) -> Iterator[Any]:
    """Yield findings; those on steps that became slower have the line of the program that grew, if one did.

    Args:
        findings: Of one attempt: ``health.Finding`` or ``WrittenFinding``.
        windows: Of the same attempt.
    """
    from stepscope.health.rules import SlowerSteps  # with all rules, which other readers of lines do not need

    for finding in findings:
        slower = finding.rule == SlowerSteps.id and not finding.stack
        since = finding.step if finding.since_step is None else finding.since_step
        grown = growth(windows, since) if slower else None
        if grown is None:
            yield finding
        else:
            yield replace(finding, stack=(grown.line.place,), causes=(*finding.causes, str(grown)))
