"""Which lines of the program a training spends its time in, by looking some times a second.

A profile tells more, but of a few steps. A look costs some microseconds, so looking goes on through the whole
training. The lines are known without a profile then, and so is the line that grew when steps became slower.
"""

from __future__ import annotations

import linecache
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

from stepscope.capture.places import installed
from stepscope.record.hooks import Hook
from stepscope.text import scrub_text

if TYPE_CHECKING:
    from stepscope.record.clock import Deadline

INTERVAL_SECS = 0.05
"""Twenty looks a second: the 1,200 of a minute tell a share of 10 % to within 2 %."""
LOOKS = 200
"""Looks of a window at first: ten seconds."""
MOST_WINDOWS = 32
"""Windows kept; of more, two become one each, so that a long training keeps its whole course."""
MOST_LINES = 12
"""Lines that a window names in the facts: a line of less than 1/12 of the time is none to begin with."""
MOST_TEXT = 80
"""Characters of a line's source that are kept."""

Line = tuple[str, int, str]
"""File, number from 1, function."""
_looking: dict[int, LineHook] = {}
"""The hooks that look, by the thread that they look at."""


def looks_at(thread: int) -> dict[str, Any]:
    """Return how often a thread was looked at so far, and the share of its time by lines, as frames."""
    hook = _looking.get(thread)
    return {} if hook is None else hook.looks()


@dataclass
class Window:
    """A stretch of the training.

    Attributes:
        first_step: Number of the step at its beginning ...
        last_step: ... and at its end.
        steps: Steps that ended in it.
        looks: How often the thread was looked at.
        spent_s: Seconds by line; None stands for no line of the program's own.
    """

    first_step: int
    last_step: int = 0
    steps: int = 0
    looks: int = 0
    spent_s: dict[Line | None, float] = field(default_factory=dict)

    def join(self, later: Window) -> None:
        """Take in the window that follows."""
        self.last_step = later.last_step
        self.steps += later.steps
        self.looks += later.looks
        for line, seconds in later.spent_s.items():
            self.spent_s[line] = self.spent_s.get(line, 0.0) + seconds


class LineHook(Hook):
    """Records in which lines of the program the training thread spends its time, by looking now and then.

    A thread of its own looks for the innermost call of the training thread that is not of an installed
    package. The times of its looks are random, so that they cannot fall into step with the training. The time
    since the look before counts for the line. The facts are in the file of this rank: the card of ``stepscope
    run`` names the first lines, and ``stepscope ask explain_step`` lists them, with what grew since a step.

    A look needs the interpreter lock. A line that holds it for long is seen when it lets go, and all of that
    time counts for it.

    Args:
        interval_s: Mean time between two looks, in seconds.
    """

    ranks = "all"

    def __init__(self, interval_s: float = INTERVAL_SECS) -> None:
        self._interval_s = interval_s
        self._random = random.Random()  # noqa: S311  its own: the program's seeds stay what they are
        self._windows: list[Window] = []
        self._looks = LOOKS
        self._halt = threading.Event()
        self._lock = threading.Lock()
        self._own: dict[str, bool] = {}
        self._done = 0

    def begin(self, run: Any) -> None:
        """Begin to look at the calling thread."""
        self._steps, self._target = run.step_counter, threading.get_ident()
        run.rank_facts(self.facts)
        _looking[self._target] = self
        threading.Thread(target=self._loop, name="stepscope-lines", daemon=True).start()

    def end(self, run: Any, status: str, deadline: Deadline) -> None:
        """Look no more."""
        self._halt.set()
        if _looking.get(self._target) is self:
            del _looking[self._target]

    def _loop(self) -> None:
        before = time.perf_counter()
        while not self._halt.wait(self._interval_s * self._random.uniform(0.5, 1.5)):
            frame = sys._current_frames().get(self._target)
            if frame is None:  # the thread has ended
                return
            line = self._line_of(frame)
            del frame  # which would keep the program's values alive
            now = time.perf_counter()
            self._take(line, now - before)
            before = now

    def _line_of(self, frame: FrameType | None) -> Line | None:
        """Return the line of the innermost call that is the program's own."""
        while frame is not None:
            code = frame.f_code
            file = code.co_filename
            own = self._own.get(file)
            if own is None:
                own = self._own[file] = not file.startswith(installed())
            if own:
                return file, frame.f_lineno or code.co_firstlineno, code.co_name
            frame = frame.f_back
        return None

    def _take(self, line: Line | None, seconds: float) -> None:
        step, done = self._steps.current or 0, self._steps.done
        with self._lock:
            window = self._windows[-1] if self._windows else None
            if window is None or window.looks >= self._looks:
                if len(self._windows) >= MOST_WINDOWS:
                    self._thin()
                window = Window(step)
                self._windows.append(window)
            window.spent_s[line] = window.spent_s.get(line, 0.0) + seconds
            window.looks += 1
            window.last_step = step
            window.steps += done - self._done
            self._done = done

    def _thin(self) -> None:
        pairs = zip(self._windows[::2], self._windows[1::2], strict=True)
        for earlier, later in pairs:
            earlier.join(later)
        self._windows = self._windows[::2]
        self._looks *= 2

    def looks(self) -> dict[str, Any]:
        """Return the number of looks, and the share of the time in each line of the program."""
        with self._lock:
            whole = Window(0)
            for window in self._windows:
                whole.join(window)
        seconds = sum(whole.spent_s.values())
        lines = ((f"{line[0]}({line[1]}): {line[2]}", spent) for line, spent in whole.spent_s.items() if line)
        return {"looks": whole.looks, "shares": {text: spent / seconds for text, spent in lines if seconds}}

    def facts(self) -> dict[str, Any]:
        """Return what was seen so far, as JSON types.

        ``lines`` has ``code``: of each line its file, number, function and text; and ``windows``: of each its
        first step, last step, number of steps, seconds, and pairs of a line and its seconds.
        """
        with self._lock:
            windows = [(window, dict(window.spent_s)) for window in self._windows]
        numbers: dict[Line, int] = {}
        rows: list[list[Any]] = []
        for window, spent in windows:
            own = sorted(
                ((seconds, line) for line, seconds in spent.items() if line is not None), reverse=True
            )
            pairs = [
                [numbers.setdefault(line, len(numbers)), round(spent_s, 3)]
                for spent_s, line in own[:MOST_LINES]
            ]
            whole = round(sum(spent.values()), 3)
            rows.append([window.first_step, window.last_step, window.steps, whole, pairs])
        code = [[*line, scrub_text(linecache.getline(*line[:2]).strip())[:MOST_TEXT]] for line in numbers]
        return {"lines": {"code": code, "windows": rows}} if rows else {}
