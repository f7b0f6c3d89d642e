"""Hooks that say how training goes: LoggingHook on the console, StepCounterHook as series of its speed."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from stepscope.kernels.steps import LONGEST, Rest
from stepscope.record import messages
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks.timer import Timer, default_steps
from stepscope.record.protocol import Hook
from stepscope.record.steps import STEP_TIME, StepFollower
from stepscope.text import counted, duration, number

if TYPE_CHECKING:
    from stepscope.record.run import Run

MAX_TAGS = 6
# What hooks record by themselves; a line shows it only where it is asked for.
OURS = (
    "speed/",
    "system/",
    "stepscope/",
    "checkpoint/",
    "gradients/",
    "updates/",
    "weights/",
    "activations/",
    "global_step/",
)
_SLOW_DATA_RATIO = 0.05
_FLUSH_SECS = 1.0
Out = IO[str] | logging.Logger | Callable[[str], Any]


class LoggingHook(Hook):
    """Writes a line with the progress of the run, its speed, the time left, and values.

    ::

        step 1200/5000 24 % · train/loss 0.3412 · 12.3 steps/s · data 8 % · 5:09 left

    A line is written by a thread of the run once the values of its step are available, so neither a slow
    terminal nor a value on a device makes the training wait; if a value is still on its device, the last
    known one is shown. If tqdm has a bar on the screen, the line goes above it. The share of time
    spent waiting for data is shown from 5 % on.

    Args:
        every_n_steps: Number of steps between two lines; by default 100.
        every_secs: Seconds between two lines, instead.
        tags: Tags to show; by default the first six tags that are not recorded by hooks.
        to: A stream, a ``logging.Logger`` (level INFO) or a function that takes the line; by default
            ``sys.stderr``.
        at_end: Whether to write a last line when the run ends.

    Raises:
        UsageError: Both intervals are given, or one is out of range.
    """

    def __init__(
        self,
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        *,
        tags: Collection[str] | None = None,
        to: Out | None = None,
        at_end: bool = True,
    ) -> None:
        self._timer = Timer(default_steps(every_n_steps, every_secs), every_secs, first=False)
        self._tags = None if tags is None else tuple([tags] if isinstance(tags, str) else tags)
        self._write, self._at_end = writer(to), at_end
        self._values: dict[str, Latest] = {}
        self._due: list[tuple[int, str, str]] = []
        self._unread = 0
        self._window: tuple[int, float] | None = None
        self._steps, self._seconds, self._waited = 0, 0.0, 0.0
        self._began = 0.0
        self._rest: Rest = Rest()
        self._past: StepFollower
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to count and to listen."""
        self._run, self._began = run, run.clock.steady()
        self._timer.start(run.step_counter.next, run.clock.steady)
        self._past = StepFollower(run.step_counter)
        run.listen(self._take, self._wanted)

    def after_step(self, step: int) -> None:
        """Note how far the run is when it is time; the line follows."""
        now = self._run.clock.steady()
        for _, seconds, waited in self._past.take():
            if self._window is None:
                self._window = (0, now - seconds)
            self._steps += 1
            self._seconds += seconds
            self._waited += waited or 0.0
        due = self._timer.due(step + 1)
        self._timer.rest(self._rest, 1, LONGEST)
        if due:
            self._due.append((step, self._progress(step + 1), self._pace(step + 1, now)))
            self._window = (self._steps, now)
            self._seconds = self._waited = 0.0

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Write the last line."""
        if not self._at_end or run.last_step is None:
            return
        run.flush(timeout=deadline.left(_FLUSH_SECS))
        self._due.clear()
        step, took = run.last_step.step, f"{status} after {duration(run.clock.steady() - self._began)}"
        self._put(step, " · ".join([self._progress(run.step_counter.next), *self._shown(step), took]))

    def _progress(self, done: int) -> str:
        total = self._run.total_steps
        if not total:
            return f"step {done}"
        return f"step {done}/{total} {100 * done / total:.0f} %"

    def _pace(self, done: int, now: float) -> str:
        """Speed since the last line, share of data, time left."""
        steps, since = self._window or (0, now)
        parts = []
        if now > since:
            rate = (self._steps - steps) / (now - since)
            parts.append(f"{number(rate)} steps/s" if rate >= 1 else f"{number(1 / rate)} s/step")
            if self._seconds and self._waited / self._seconds >= _SLOW_DATA_RATIO:
                parts.append(f"data {100 * self._waited / self._seconds:.0f} %")
            total = self._run.total_steps
            if total and total > done:
                parts.append(f"{duration((total - done) / rate)} left")
        return " · ".join(parts)

    def _wanted(self, tag: str) -> bool:
        if tag == STEP_TIME or self._tags is not None:
            return tag == STEP_TIME or tag in (self._tags or ())
        return not tag.startswith(OURS)

    def _take(self, tag: str, steps: Any, values: Any, walls: Any) -> None:
        """Remember new values; write each line that they complete. On the thread that writes."""
        if tag != STEP_TIME or (self._tags and tag in self._tags):
            known = self._values.get(tag)
            self._values[tag] = Latest(None if known is None else known.last, steps, values)
        if tag == STEP_TIME:  # told after the values that were logged in its step
            last = int(steps[-1])
            while self._due and self._due[0][0] <= last:
                step, progress, pace = self._due.pop(0)
                self._put(step, " · ".join(part for part in [progress, *self._shown(step), pace] if part))

    def _shown(self, step: int) -> list[str]:
        tags = list(self._values)[:MAX_TAGS] if self._tags is None else self._tags
        return [f"{tag} {number(self._values[tag].at(step))}" for tag in tags if tag in self._values]

    def _put(self, step: int, line: str) -> None:
        def make() -> None:
            left_out = (
                f"{counted(self._unread, 'line was', 'lines were')} left out: nobody read them\n"
                if self._unread
                else ""
            )
            if self._write(f"{left_out}{line}") is False:
                self._unread += 1
            else:
                self._unread = 0

        self._run.event(make, step, tag="a line of LoggingHook", background=True)


class Latest(NamedTuple):
    """The values of a tag that came last.

    Attributes:
        before: The one before them.
        steps: Their steps.
        values: The values.
    """

    before: float | None
    steps: Any
    values: Any

    @property
    def last(self) -> float:
        """The last of all."""
        return float(self.values[-1])

    def at(self, step: int) -> float:
        """Return the last value up to a step, or the very last if the steps are numbered differently."""
        until = (self.steps <= step).nonzero()[0]
        if len(until):
            return float(self.values[until[-1]])
        return self.last if self.before is None else self.before


def writer(to: Out | None) -> Callable[[str], Any]:
    """Return the function that writes a line; ours returns False if nobody reads the line."""
    if isinstance(to, logging.Logger):
        return partial(messages.log, to, "%s")
    if to is None or hasattr(to, "write"):
        stream: Any = to
        return partial(messages.write_above_bars, stream=stream)
    return to


STEPS_RATE = "speed/steps_per_second"
EXAMPLES_RATE = "speed/examples_per_second"
TOKENS_RATE = "speed/tokens_per_second"
DATA_WAIT_RATIO = "speed/data_wait_ratio"
PERCENTILES = {50: "speed/step_time_p50_ms", 95: "speed/step_time_p95_ms", 99: "speed/step_time_p99_ms"}
STEP_TIME_MAX = "speed/step_time_max_ms"
TENSORFLOW_RATE = "global_step/sec"
MAX_TIMES = 4_096
"""Step times kept per window; of a longer one, a random sample. Sorting them takes half a millisecond."""


class StepCounterHook(Hook):
    """Records, over windows of steps, their number per second and their durations.

    | tag | what |
    |---|---|
    | ``speed/steps_per_second`` | steps completed in the window, divided by the time that passed |
    | ``speed/examples_per_second``, ``speed/tokens_per_second`` | the same for the numbers given to
    ``run.count`` | | ``speed/step_time_p50_ms`` … ``p95``, ``p99``, ``max`` | percentiles and maximum of the
    steps' times | | ``speed/data_wait_ratio`` | share of the steps' time that was spent waiting for data |

    The time that passed includes anything between steps, such as an evaluation. A window is recorded at its
    last step. The first one begins with the first step, and is recorded at the run's end if it was not full.

    Args:
        every_n_steps: Steps in a window; by default 100.
        every_secs: Seconds in a window, instead.
        tensorflow_tag: Also record ``global_step/sec``, as TensorFlow's hook of this name does.

    Raises:
        UsageError: Both intervals are given, or one is out of range.
    """

    def __init__(
        self,
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        *,
        tensorflow_tag: bool = False,
    ) -> None:
        self._timer = Timer(default_steps(every_n_steps, every_secs), every_secs, first=False)
        self._tensorflow_tag = tensorflow_tag
        self._times: list[float] = []
        self._random = random.Random()  # noqa: S311  its own: the program's seeds stay what they are
        self._steps, self._longest, self._seconds = 0, 0.0, 0.0
        self._waited: float | None = None
        self._since: float | None = None
        self._counted = (0, 0)
        self._recorded = False
        self._rest: Rest = Rest()
        self._past: StepFollower
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to count."""
        self._run = run
        self._counted = (run.examples, run.tokens)
        self._timer.start(run.step_counter.next, run.clock.steady)
        self._past = StepFollower(run.step_counter)

    def after_step(self, step: int) -> None:
        """Take the times of the steps since the last call; record the window that this one ends."""
        self._take()
        due = self._timer.due(step + 1)
        self._timer.rest(self._rest, 1, LONGEST)
        if due:
            self._record(step)

    def _take(self) -> None:
        for _, seconds, waited in self._past.take():
            self._add(seconds, waited)

    def _add(self, seconds: float, waited: float | None) -> None:
        if self._since is None:
            self._since = self._run.clock.steady() - seconds
        self._steps += 1
        self._seconds += seconds
        if seconds > self._longest:
            self._longest = seconds
        if waited is not None:
            self._waited = waited if self._waited is None else self._waited + waited
        if self._steps <= MAX_TIMES:
            self._times.append(seconds)
        elif (at := int(self._random.random() * self._steps)) < MAX_TIMES:
            self._times[at] = seconds

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Record the first window if it was not filled."""
        self._take()
        if not self._recorded and self._steps:
            self._record(run.current_step or 0)

    def _record(self, step: int) -> None:
        now = self._run.clock.steady()
        elapsed = now - (now if self._since is None else self._since)
        if elapsed > 0:
            self._run.scalars(self._readings(elapsed), step)
        self._recorded, self._since = True, now
        self._counted = (self._run.examples, self._run.tokens)
        self._times, self._waited = [], None
        self._steps, self._longest, self._seconds = 0, 0.0, 0.0

    def _readings(self, elapsed: float) -> dict[str, float]:
        rate = self._steps / elapsed
        values = {STEPS_RATE: rate}
        if self._tensorflow_tag:
            values[TENSORFLOW_RATE] = rate
        totals = (self._run.examples, self._run.tokens)
        for tag, total, before in zip((EXAMPLES_RATE, TOKENS_RATE), totals, self._counted, strict=True):
            if total:  # what nobody counted is not 0
                values[tag] = (total - before) / elapsed
        times = sorted(self._times)
        values |= {tag: 1e3 * percentile(times, percent) for percent, tag in PERCENTILES.items()}
        values[STEP_TIME_MAX] = 1e3 * self._longest
        if self._waited is not None and self._seconds > 0:
            values[DATA_WAIT_RATIO] = self._waited / self._seconds
        return values


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile, linear between neighbours as in numpy's default method.

    Args:
        ordered: Numbers in ascending order, one at least.
        percent: 0 to 100.
    """
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
