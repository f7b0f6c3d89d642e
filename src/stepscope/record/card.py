"""The card of a run: on a few lines, its end, its speed, and where its time went.

``Tally`` sums up while the run records, on the writer's thread, so that the card is there at once at the end.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Protocol

from stepscope.health.finding import urgency
from stepscope.names.own import BACKWARD_LOSS
from stepscope.record import messages
from stepscope.record.waits import CPU_WAIT, waited_s
from stepscope.text import counted, duration, number, printable, scrub_text, share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.events.telemetry import TelemetryRow
    from stepscope.health.coverage import Covered
    from stepscope.names.meanings import Meanings

MAX_LINES = 20
MAX_FINDINGS = 3
MAX_PLACES, LEAST_PLACE = 2, 0.1
"""Lines of the program that are named, and the share of the time that one takes at least, or that threads
wait for a processor.
"""
OF_TIMES = ("steady", "cost")
"""The questions that only times of steps answer."""
DATA_WAIT = "the wait for data"
"""Beginning of the sentences that say why it is unknown."""
AS_THEY_ARE = ("run", "lines", "more")
"""Rows that are not folded: a path and a command are copied, and code is read, from one line."""
WIDTH = 110
"""Columns of a line if the terminal does not say how many it has."""
MAX_TIMES = 4096
"""Step times kept for the median; of more, every second, fourth … one is kept."""
MAX_TAGS = 512
"""Series whose best value is kept."""
RUN, SAID, PYTHON, LEFT = "run-", "said", "python-", "left-"
"""Files in the session's folder: each names a run, has sentences for the card, is of one Python process
by its number, or has the code with which the process of a run left without the end of its interpreter.
"""
BEFORE, OUTSIDE = "before the first step", "outside steps"
REST, UNDIVIDED = "rest of the step", "not divided"
SESSION = "STEPSCOPE_RUN_SESSION"
"""Variable that names the folder in which processes under ``stepscope run`` note their runs."""
OWNER = "STEPSCOPE_CARD"
"""Variable that names the process that prints the card, for the processes that it starts."""


class Found(Protocol):
    """A finding, live or read from a run."""

    @property
    def severity(self) -> str:
        """As of a finding of health."""

    @property
    def summary(self) -> str:
        """One sentence."""

    @property
    def action(self) -> str:
        """The remedy."""

    @property
    def stack(self) -> Sequence[str]:
        """The place in the program, innermost call last."""


@dataclass(frozen=True)
class Best:
    """The best value of a series.

    Attributes:
        tag: The series.
        value: Its best value.
        step: The step of it.
    """

    tag: str
    value: float
    step: int


@dataclass(frozen=True)
class Card:
    """The contents of a card.

    Attributes:
        run: The run's directory or address.
        status: How it ended: "finished", "failed", "stopped", "killed".
        reason: Why, if that is known.
        duration_s: From the beginning of the run to its end.
        steps: Steps that ended.
        median_s: Median of their times; None if there are none.
        slowest_s: The longest of them.
        slowest_step: Its number.
        parts_s: Seconds of the duration by stage; they sum to it.
        findings: The findings, the most severe first.
        best: The best values.
        unknown: Sentences on facts that could not be known.
        command: Shows more.
        lines_s: Seconds of the duration by line of the program, the most first.
        stack: Of the exception that ended it; empty if none did.
        health: The verdict of the health rules; empty if nobody judged.
        covered: The questions that it answers.
        waited_s: Seconds for which its threads waited for a processor, summed.
        cut: Whether its process ended before all was written: up to a second of steps and values is lost.
    """

    run: str
    status: str
    reason: str | None
    duration_s: float
    steps: int
    median_s: float | None
    slowest_s: float
    slowest_step: int
    parts_s: Mapping[str, float]
    findings: Sequence[Found]
    best: Sequence[Best]
    unknown: Sequence[str]
    command: str
    lines_s: Mapping[str, float] = field(default_factory=dict)
    stack: str = ""
    health: str = ""
    covered: Sequence[Covered] = ()
    waited_s: float = 0.0
    cut: bool = False

    def lines(self, width: int = WIDTH) -> list[str]:
        """Return the card as at most ``MAX_LINES`` lines.

        Args:
            width: Columns of a line. Longer sentences are folded while there are lines left, then cut.
        """
        why = f": {' '.join(scrub_text(self.reason).split())}" if self.reason else ""
        rows = [
            ("run", printable(self.run)),
            ("state", f"{self.status} after {duration(self.duration_s)}{why}"),
        ]
        if frames := _FRAMES.findall(self.stack):
            rows.append(("", f"raised at {printable(':'.join(frames[-1]))}"))
        if self.median_s is None:
            none = "none was written before it ended" if self.cut else "none was counted"
            rows.append(("steps", none))
        else:
            rows.append(("steps", self._speed()))
        if self.steps:
            rows += _folded(_shares(self.parts_s, self.duration_s), width)
        rows += self._places()
        if self.duration_s > 0 and self.waited_s >= LEAST_PLACE * self.duration_s:
            rows.append(("waited", self._waits()))
        if self.health:
            rows.append(("health", self.health))
        for at, finding in enumerate(self.findings[:MAX_FINDINGS], 1):
            closed = getattr(finding, "closed_step", None)
            over = "" if closed is None else f"; over since step {closed:,}"
            rows.append((finding.severity, finding.summary + over))
            remedy = " · ".join(
                part for part in (finding.stack[-1] if finding.stack else "", finding.action) if part
            )
            rows += [("", remedy)] if remedy else []
            if at == MAX_FINDINGS and len(self.findings) > at:
                rows.append(("", counted(len(self.findings) - at, "more finding")))
        for best in self.best:
            rows.append(("best", f"{best.tag} {number(best.value)} at step {best.step:,}"))
        import textwrap  # what prints no card needs none of it

        room = MAX_LINES - len(rows) - 1
        open_ = [
            f"{rule.question}: {rule.why}"
            for rule in self.covered
            if rule.answer == "not judged"
            and rule.question not in self._no_news()
            and rule.why not in self.health
        ]
        rows += [("unknown", text) for text in [*self.unknown, *open_][:room]]
        rows.append(("more", self.command))
        head = max(len(name) for name, _ in rows)
        room, lines, row = MAX_LINES - len(rows), list[str](), ""
        for name, text in rows:
            row = name or row
            first, *others = [text] if row in AS_THEY_ARE else textwrap.wrap(text, width - head - 2) or [""]
            if len(others) > room:
                first, others = text, []
            room -= len(others)
            lines += [f"{name:<{head}}  {first}", *(f"{'':<{head}}  {other}" for other in others)]
        return [_cut(line.rstrip(), width) for line in lines]

    def _no_news(self) -> tuple[str, ...]:
        """Return the questions that are open for a reason that the card gives already."""
        if self.median_s is None:
            return OF_TIMES
        return ("cost",) if any(text.startswith(DATA_WAIT) for text in self.unknown) else ()

    def _places(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of the program that took most of the time."""
        for at, (line, seconds) in enumerate(itertools.islice(self.lines_s.items(), MAX_PLACES)):
            ratio = seconds / self.duration_s if self.duration_s > 0 else 0.0
            if ratio >= LEAST_PLACE:
                yield "" if at else "lines", f"{share(ratio)} {line}"

    def _waits(self) -> str:
        count = number(self.waited_s / self.duration_s)
        threads = f"{count} {'thread' if count == '1' else 'threads'} at a time"
        why = "other programs, a limit, or too many threads"
        return f"{duration(self.waited_s)} for a processor, {threads}: {why}"

    def _speed(self) -> str:
        within = sum(seconds for name, seconds in self.parts_s.items() if name not in (BEFORE, OUTSIDE))
        rate = self.steps / within if within > 0 else 0.0
        pace = f"{number(rate)} steps/s" if rate >= 1 or not rate else f"{duration(1 / rate)} a step"
        return (
            f"{self.steps:,} · {pace} · median {duration(self.median_s)} · "
            f"slowest {duration(self.slowest_s)} at step {self.slowest_step:,}"
        )


_FRAMES = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 2, 0)] + " …"


def _shares(parts: Mapping[str, float], whole: float) -> list[str]:
    """Return the parts as whole percents that sum to 100."""
    total = max(whole, sum(parts.values()))
    if total <= 0:
        return []
    exact = {name: 100 * seconds / total for name, seconds in parts.items()}
    percent = {name: int(value) for name, value in exact.items()}
    missing = 100 - sum(percent.values())
    for name in sorted(exact, key=lambda name: percent[name] - exact[name])[: max(missing, 0)]:
        percent[name] += 1
    return [f"{name} {percent[name] or '<1'} %" for name, seconds in parts.items() if seconds > 0]


def _folded(parts: list[str], width: int) -> list[tuple[str, str]]:
    """Return parts of the time as rows, as many to a row as fit."""
    rows: list[str] = []
    for part in parts:
        if rows and len(rows[-1]) + len(part) + 12 <= width:
            rows[-1] += f" · {part}"
        else:
            rows.append(part)
    return [("" if at else "time", row) for at, row in enumerate(rows)]


class StepSums:
    """Sums over the steps of a run.

    Attributes:
        steps: Steps that ended.
        seconds: Their times together.
        parts_s: Seconds by stage, without the steps whose stages are not known.
        slowest_s: The longest of them.
        slowest_step: Its number.
        data_known: Whether the wait for data was measured in any step.
        begun: When the first of them began, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.steps, self.seconds, self.begun = 0, 0.0, math.inf
        self.parts_s: dict[str, float] = {}
        self.slowest_s, self.slowest_step = 0.0, 0
        self.data_known = False
        self._times: list[float] = []
        self._stride = 1

    def add(
        self, step: int, wall: float, seconds: float, waited: float, stages: Iterable[tuple[str, float]]
    ) -> None:
        """Take a step.

        Args:
            step: Its number.
            wall: When it ended, in seconds since the epoch.
            seconds: Its time.
            waited: Its wait for data, NaN if that is not known.
            stages: Names and seconds of its marked stages.
        """
        if not seconds >= 0:
            return
        if self.steps % self._stride == 0:
            self._times.append(seconds)
            if len(self._times) >= MAX_TIMES:
                del self._times[1::2]
                self._stride *= 2
        if not self.steps:
            self.begun = wall - seconds
        self.steps += 1
        self.seconds += seconds
        if seconds > self.slowest_s:
            self.slowest_s, self.slowest_step = seconds, step
        left, known = seconds, False
        if waited >= 0:
            self.data_known = True
            left -= self._take("data", min(waited, left))
        for name, spent in stages:
            if spent > 0:
                known = True
                left -= self._take(name, min(spent, left))
        self._take(REST if known else UNDIVIDED, max(left, 0.0))

    def add_columns(
        self,
        steps: NDArray[np.int64],
        walls: NDArray[np.float64],
        seconds: NDArray[np.float64],
        waited: NDArray[np.float64],
        stages: Mapping[str, NDArray[np.float64]],
    ) -> None:
        """Take many steps at once, as ``add`` does one after another.

        Args:
            steps: Their numbers.
            walls: When they ended, in seconds since the epoch.
            seconds: Their times.
            waited: Their waits for data, NaN if they are not known.
            stages: Seconds of their marked stages, NaN if there are none.
        """
        import numpy as np

        ended = seconds >= 0
        steps, walls, seconds, waited = steps[ended], walls[ended], seconds[ended], waited[ended]
        if not len(steps):
            return
        if not self.steps:
            self.begun = float(walls[0] - seconds[0])
        slowest = int(seconds.argmax())
        if seconds[slowest] > self.slowest_s:
            self.slowest_s, self.slowest_step = float(seconds[slowest]), int(steps[slowest])
        self._times += seconds[:: len(seconds) // MAX_TIMES + 1].tolist()
        self.steps += len(steps)
        self.seconds += float(seconds.sum())
        left, known = seconds, np.zeros(len(seconds), bool)
        for name, spent in {"data": waited, **{name: stage[ended] for name, stage in stages.items()}}.items():
            there = spent >= 0 if name == "data" else spent > 0
            if there.any():
                part = np.where(there, np.minimum(spent, left), 0.0)
                left = left - part
                self._take(name, float(part.sum()))
                if name == "data":
                    self.data_known = True
                else:
                    known |= there
        left = np.maximum(left, 0.0)
        for name, where in ((REST, known), (UNDIVIDED, ~known)):
            if where.any():
                self._take(name, float(left[where].sum()))

    def _take(self, name: str, seconds: float) -> float:
        self.parts_s[name] = self.parts_s.get(name, 0.0) + seconds
        return seconds

    @property
    def median_s(self) -> float | None:
        """Median of the times of steps, None without steps."""
        times = sorted(self._times)
        return times[len(times) // 2] if times else None

    def parts_of(self, duration_s: float, started: float) -> dict[str, float]:
        """Return seconds by stage; the rest of the duration is before the first step or outside the steps.

        Args:
            duration_s: From the beginning to the end.
            started: The beginning, in seconds since the epoch.
        """
        last = [name for name in (UNDIVIDED, REST) if name in self.parts_s]
        first = [name for name in self.parts_s if name not in last]
        outside = max(duration_s - self.seconds, 0.0)
        before = min(max(self.begun - started, 0.0), outside) if self.steps else 0.0
        parts = {name: self.parts_s[name] for name in (*first, *reversed(last))}
        return parts | {BEFORE: before, OUTSIDE: outside - before}

    @property
    def unknown(self) -> list[str]:
        """Sentences on the stages that could not be known."""
        if not self.steps:
            return ["the steps: loop over run.steps(loader), or mark each with run.step()"]
        missing = []
        if not self.data_known:
            missing.append(f"{DATA_WAIT}: loop over run.steps(loader)")
        if not self.parts_s.keys() - {"data", UNDIVIDED, REST}:
            missing.append("the stages of the steps: watch(model, optimizer, run)")
        return missing


class Tally:
    """Sums of a run for its card; on the writer's thread.

    Args:
        started: When the run began, in seconds since the epoch.

    Attributes:
        steps: Sums over the steps.
        waited_s: Seconds for which its threads waited for a processor.
    """

    def __init__(self, started: float) -> None:
        self.steps = StepSums()
        self.waited_s = 0.0
        self._waited_until = started
        self._extremes: dict[str, tuple[Best, Best, int]] = {}

    def add_rows(self, rows: Iterable[tuple[int, TelemetryRow]], names: Sequence[str]) -> None:
        """Take steps as the telemetry writes them.

        Args:
            rows: Numbers and facts of steps.
            names: Of the stages, by number.
        """
        for step, row in rows:
            if row.ended:
                stages = zip(names[1:], row.spent[1:], strict=False)
                self.steps.add(step, row.wall, row.seconds, row.waited, stages)

    def take(
        self, tag: str, steps: NDArray[np.int64], values: NDArray[np.float64], walls: NDArray[np.float64]
    ) -> None:
        """Take numbers as ``Run.listen`` gives them."""
        import numpy as np

        if tag == CPU_WAIT:
            self.waited_s += waited_s(values.tolist(), walls.tolist(), self._waited_until)
            self._waited_until = float(walls[-1])
        known = self._extremes.get(tag)
        if known is None and (len(self._extremes) >= MAX_TAGS or not np.isfinite(values).any()):
            return
        finite = np.isfinite(values)
        steps, values = steps[finite], values[finite]
        if not len(values):
            return
        low, high = int(values.argmin()), int(values.argmax())
        least = Best(tag, float(values[low]), int(steps[low]))
        most = Best(tag, float(values[high]), int(steps[high]))
        if known is not None:
            least = min(known[0], least, key=lambda best: best.value)
            most = max(known[1], most, key=lambda best: best.value)
        self._extremes[tag] = least, most, len(values) + (known[2] if known else 0)

    def best(self, log_dir: str) -> list[Best]:
        """Return the best values of the reward, the metric and the loss by which the run is judged."""
        from stepscope.names.meanings import meanings_at  # its tables take some milliseconds to compile

        return best_of(self._extremes, meanings_at(log_dir))


def best_of(extremes: Mapping[str, tuple[Best, Best, int]], meanings: Meanings) -> list[Best]:
    """Return the best value of one reward, one metric and one loss, of the evaluation if there is one.

    A series whose values are all the same has no best one.

    Args:
        extremes: Of each series the least and the largest value, and how many there are.
        meanings: Of the tags.
    """
    judged: dict[str, list[tuple[int, Best]]] = {"reward": [], "metric": [], "loss": []}
    for at, (tag, (least, most, count)) in enumerate(extremes.items()):
        meaning = meanings.role(tag)
        is_constant = count > 1 and least.value == most.value
        if tag == BACKWARD_LOSS or meaning is None or meaning.role not in judged or is_constant:
            continue
        lower = meanings.lower_is_better(tag)
        if lower is not None:
            # A test is made of what an evaluation chose.
            rank = 2 if meaning.split in (None, "train") else int(meaning.split == "test")
            judged[meaning.role].append((at + rank * len(extremes), least if lower else most))
    return [min(points, key=lambda point: point[0])[1] for points in judged.values() if points]


def by_cost(findings: Iterable[Any]) -> list[Any]:
    """Return findings in the order in which they are shown everywhere; equals keep theirs.

    One that came back counts once, when it was most severe.
    """
    worst: dict[Any, Any] = {}
    for finding in sorted(findings, key=urgency):
        worst.setdefault(getattr(finding, "key", id(finding)), finding)
    return list(worst.values())


session_folder = ""
"""The folder of the session, for a program that has changed its environment since it was started."""


def announce(directory: str) -> None:
    """Note a run for ``stepscope run``, if that started the program."""
    session = session_folder or os.environ.get(SESSION)
    if session:
        with suppress(OSError):
            # A process keeps its number when it runs another program.
            name = f"{RUN}{os.getpid()}-{time.monotonic_ns()}.json"
            with open(os.path.join(session, name), "w", encoding="utf-8") as file:  # noqa: PTH118,PTH123
                json.dump({"directory": os.path.abspath(directory)}, file)  # noqa: PTH100


def claim() -> bool:
    """Return whether this process may print cards: none that started it does."""
    owner = os.environ.setdefault(OWNER, str(os.getpid()))
    return owner == str(os.getpid())


def show(card: Card, stream: IO[str] | None = None) -> None:
    """Write a card on a stream, unless that would wait for somebody to read it."""
    stream = sys.stderr if stream is None else stream
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        width = WIDTH
    messages.write("\n".join(card.lines(max(width, 40))), stream)


def is_terminal(stream: IO[str] | None) -> bool:
    """Return whether a stream is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except Exception:  # noqa: BLE001  a stream of the user's own
        return False


def command_for(log_dir: str) -> str:
    """Return the command that shows a run."""
    import shlex  # what prints no card needs none of it

    return f"stepscope serve {shlex.quote(os.path.dirname(os.path.abspath(log_dir)) or log_dir)}"  # noqa: PTH100,PTH120
