"""StepCounterHook: how fast the training is."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.kernels.steps import LONGEST, Rest
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks.timer import Timer, default_steps
from stepscope.record.protocol import Hook
from stepscope.record.steps import Follower

if TYPE_CHECKING:
    from stepscope.record.run import Run

STEPS_RATE = "speed/steps_per_second"
EXAMPLES_RATE = "speed/examples_per_second"
TOKENS_RATE = "speed/tokens_per_second"
DATA_WAIT_RATIO = "speed/data_wait_ratio"
PERCENTILES = {50: "speed/step_time_p50_ms", 95: "speed/step_time_p95_ms", 99: "speed/step_time_p99_ms"}
STEP_TIME_MAX = "speed/step_time_max_ms"
TENSORFLOW_RATE = "global_step/sec"
MAX_TIMES = 4_096
"""Step times kept of a window: of a longer one, so many drawn by lot. Sorting them takes half a
millisecond."""


class StepCounterHook(Hook):
    """Records, over windows of steps, how many pass in a second and how long they take.

    | tag | what |
    |---|---|
    | ``speed/steps_per_second`` | steps ended in the window, by the time that passed |
    | ``speed/examples_per_second``, ``speed/tokens_per_second`` | what ``run.count`` was told, likewise |
    | ``speed/step_time_p50_ms`` … ``p95``, ``p99``, ``max`` | of the times of its steps |
    | ``speed/data_wait_ratio`` | share of the steps' time that was spent waiting for data |

    The time that passed includes what lies between steps, such as an evaluation. A window is recorded at its
    last step; the first begins with the first step, and is recorded at the run's end where it did not fill.

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
        self._steps, self._longest, self._seconds = 0, 0.0, 0.0
        self._waited: float | None = None
        self._since: float | None = None
        self._counted = (0, 0)
        self._recorded = False
        self._rest: Rest = Rest()
        self._past: Follower
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to count."""
        self._run = run
        self._counted = (run.examples, run.tokens)
        self._timer.start(run.step_counter.next, run.clock.steady)
        self._past = Follower(run.step_counter)

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
        elif (at := int(random.random() * self._steps)) < MAX_TIMES:  # noqa: S311  a sample, no secret
            self._times[at] = seconds

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Record the first window where it did not fill."""
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
        found = {STEPS_RATE: rate}
        if self._tensorflow_tag:
            found[TENSORFLOW_RATE] = rate
        totals = (self._run.examples, self._run.tokens)
        for tag, total, before in zip((EXAMPLES_RATE, TOKENS_RATE), totals, self._counted, strict=True):
            if total:  # what nobody counted is not 0
                found[tag] = (total - before) / elapsed
        times = sorted(self._times)
        found |= {tag: 1e3 * percentile(times, percent) for percent, tag in PERCENTILES.items()}
        found[STEP_TIME_MAX] = 1e3 * self._longest
        if self._waited is not None and self._seconds > 0:
            found[DATA_WAIT_RATIO] = self._waited / self._seconds
        return found


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
