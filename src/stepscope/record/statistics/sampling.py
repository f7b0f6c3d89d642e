"""Which steps are measured: a grid of step numbers that depends on nothing else.

Ranks that know the same step number agree without communicating, and a rank that missed a step agrees again
at the next grid point. Seconds, or a rank's own count of samples, would let ranks drift apart.

If measuring is part of a compiled step, the processes agree on a time budget. Those whose programs differ
may wait for each other for ever, so all must stretch at the same step. They share a store. The first value
that is put there for a decision counts: a process that reaches the step from which the decision applies
follows that value, or puts "no change" itself. So no process ever waits for another one, only for the store,
and only if its own threads have not asked it in time. Steps are counted as they are asked about, which is the
same in all processes, whatever their numbers.
"""

from __future__ import annotations

import bisect
import math
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import Protocol

DENSE_STEPS = 10
GROWTH = 1.3
HIGHEST_STRETCH = 1 << 20


class Sampling:
    """Decides for each step whether it is measured, and how thoroughly.

    Each of the first steps is measured, then every 1.3th, until the distance is ``every_n_steps``; from there
    on the multiples of it. A step number beyond a grid point makes that point's sample, once.

    Args:
        every_n_steps: Distance of samples in the long run.
        histograms_every: Distance of samples with histograms; 0 for none.
        dense_steps: How many first steps are all measured; 0 to keep to the multiples from the beginning.
        probability: With which a grid point is measured, the same points on all ranks.
        seed: Of that choice.
        wanted: Further steps, by number; the same on all ranks.
    """

    def __init__(
        self,
        every_n_steps: int,
        *,
        histograms_every: int = 0,
        dense_steps: int = DENSE_STEPS,
        probability: float = 1.0,
        seed: int = 0,
        wanted: Callable[[int], bool] | None = None,
    ) -> None:
        self.every_n_steps, self.histograms_every = every_n_steps, histograms_every
        self.probability, self.seed, self.wanted = probability, seed, wanted
        self._early = early(every_n_steps, dense_steps)
        self._stretches: list[tuple[int, int]] = [(-1, 1)]
        self._last = self._last_histogram = -1

    def due(self, step: int) -> bool:
        """Return whether a step is measured; asking marks it as done."""
        due = self.ahead(step)
        point = self.point(step)
        self._last = point if step < self._last else max(point, self._last)
        return due

    def ahead(self, step: int) -> bool:
        """Return whether a step will be measured, without marking it."""
        if self.wanted is not None and self.wanted(step):
            return True
        point = self.point(step)
        new = point > self._last or step < self._last  # numbers that begin anew
        return new and self._chosen(point)

    def sampled(self, steps: range) -> list[int]:
        """Return which of the steps to come will be measured, without marking any.

        None if no step was asked about yet: on this rank nothing is measured, or training has not begun.
        """
        if self._last < 0:
            return []
        chosen, last = [], self._last
        for step in steps:
            point = self.point(step)
            new = (point > last or step < last) and self._chosen(point)
            if new or (self.wanted is not None and self.wanted(step)):
                chosen.append(step)
            last = point if step < last else max(point, last)
        return chosen

    def histogram_due(self, step: int) -> bool:
        """Return whether a measured step has histograms; asking marks it."""
        if not self.histograms_every:
            return False
        mark = step // (self.histograms_every * self.stretch(step))
        new, self._last_histogram = mark != self._last_histogram, mark
        return new

    def point(self, step: int) -> int:
        """Return the last grid point up to a step, as a step number."""
        distance = self.every_n_steps * self.stretch(step)
        at = bisect.bisect_right(self._early, step)
        return max(self._early[at - 1] if at else -1, step // distance * distance)

    def next(self, step: int) -> int:
        """Return the first grid point after a step, as a step number."""
        distance = self.every_n_steps * self.stretch(step)
        at = bisect.bisect_right(self._early, step)
        regular = (step // distance + 1) * distance
        return min(self._early[at], regular) if at < len(self._early) else regular

    def stretch(self, step: int) -> int:
        """Return the factor on the distances at a step."""
        at = bisect.bisect_right(self._stretches, (step, HIGHEST_STRETCH))
        return self._stretches[at - 1][1]

    def stretch_from(self, step: int, factor: int) -> None:
        """Multiply the distances from a step on."""
        if factor != self._stretches[-1][1]:
            self._stretches = [pair for pair in self._stretches if pair[0] < step] + [(step, factor)]

    def turn(self, step: int, turns: int) -> int:
        """Return which of the parts of the layers is measured: the next one at each grid point."""
        point = self.point(step)
        at = bisect.bisect_left(self._early, point)
        early = at < len(self._early) and self._early[at] == point
        return (at if early else point // (self.every_n_steps * self.stretch(step)) + at) % turns

    def _chosen(self, point: int) -> bool:
        if self.probability >= 1:
            return True
        return zlib.crc32(f"{self.seed}:{point}".encode()) < self.probability * 2**32


def early(every_n_steps: int, dense_steps: int) -> list[int]:
    """Return the first grid points: dense, then growing apart to the regular distance."""
    points = list(range(min(dense_steps, every_n_steps)))
    at = float(dense_steps)
    while dense_steps and at < every_n_steps / (GROWTH - 1) and int(at) - points[-1] < every_n_steps:
        if int(at) > points[-1]:
            points.append(int(at))
        at *= GROWTH
    return points


def stretch_for(cost_seconds: float, step_seconds: float, every_n_steps: int, max_overhead: float) -> int:
    """Return the factor on the distance of samples that keeps their cost within a share of the time.

    Args:
        cost_seconds: Cost of a sample on the slowest rank.
        step_seconds: How long a step takes.
        every_n_steps: Distance without stretching.
        max_overhead: The share, from 0 to 1.
    """
    if not (cost_seconds > 0 and step_seconds > 0):
        return 1
    factor = math.ceil(cost_seconds / (step_seconds * every_n_steps * max_overhead))
    return min(max(1 << max(factor - 1, 0).bit_length(), 1), HIGHEST_STRETCH)


class Bounded(Protocol):
    """A hook that says how often it measures, and which share of the time it may take; None for no bound."""

    every_n_steps: int
    max_overhead: float | None


class SamplingBudget:
    """The time that a hook may take, of a process alone or with costs on which the ranks agree already.

    Args:
        hook: Says which share of the time: ``max_overhead``, None for no bound.
        samplings: Whose distances are stretched.
    """

    shared = False
    """Whether ranks that record nothing must measure costs, too."""

    def __init__(self, hook: Bounded, *samplings: Sampling) -> None:
        self._hook, self._samplings = hook, samplings

    @property
    def bounded(self) -> bool:
        """True if there is a bound."""
        return self._hook.max_overhead is not None

    def asked(self, step: int) -> None:
        """Note on the training thread that a step begins, before asking whether it is due."""

    def spent(self, step: int, cost_seconds: float, step_seconds: float) -> None:
        """Note the cost of a sample, on any thread.

        Args:
            step: Of the sample.
            cost_seconds: Cost of one; 0 if unknown.
            step_seconds: How long a step takes; 0 if that is not known.
        """
        if not self.bounded:
            return
        factor = self.factor(cost_seconds, step_seconds)
        for sampling in self._samplings:
            # From the next sample on but one: by then every rank has heard of it.
            sampling.stretch_from(step + sampling.every_n_steps * sampling.stretch(step) + 1, factor)

    def factor(self, cost_seconds: float, step_seconds: float) -> int:
        """Return the factor on the distances."""
        hook = self._hook
        return stretch_for(cost_seconds, step_seconds, hook.every_n_steps, hook.max_overhead or 1.0)

    def near(self, step: int) -> bool:
        """Return whether one must know how long a step takes, to compare it with a sample that comes next."""
        return self.bounded and any(
            sampling.ahead(step + further) for sampling in self._samplings for further in (1, 2)
        )

    def close(self) -> None:
        """Agree on nothing more."""


KEPT = 9
ENOUGH = 3
"""Durations of a kind of step that its median needs; the first of each compiles."""


class ReadyPace:
    """Durations of steps of each level, taken from when the results of consecutive steps were there.

    The host's own times say nothing if a device computes while the host goes on.

    Args:
        clock: Seconds, steadily.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._last: tuple[int, float] | None = None
        self._kinds: dict[str, deque[float]] = {}
        self._compiled: set[str] = set()

    def ready(self, step: int, kind: str, program: str) -> None:
        """Note that the result of a step is there.

        Args:
            step: Its number.
            kind: The measured quantities.
            program: Which compiled program computed it.
        """
        now, last = self._clock(), self._last
        self._last = step, now
        if program not in self._compiled:
            self._compiled.add(program)
        elif last is not None and last[0] == step - 1:
            self._kinds.setdefault(kind, deque(maxlen=KEPT)).append(now - last[1])

    @property
    def step_seconds(self) -> float:
        """Duration of a step in which only norms are measured; 0 if that is not known."""
        return self._median("norm")

    @property
    def sample_seconds(self) -> float:
        """How much longer a sampled step takes; 0 if that is not known."""
        plain, full = self.step_seconds, self._median("full")
        return max(full - plain, 0.0) if plain and full else 0.0

    def _median(self, kind: str) -> float:
        times = self._kinds.get(kind, ())
        return median(times) if len(times) >= ENOUGH else 0.0


# --- a budget of the whole job ----------------------------------------------------------------------


LEAST_STEPS = 32
"""Steps from one decision to the next, at least; else twice the distance of samples."""
LOOK_SECS = 0.5
"""How long one request to the store waits for an answer."""
WAIT_SECS = 20.0
"""How long a step waits for the store before this process stops stretching."""
END_SECS = 2.0


class Store(Protocol):
    """Words that all processes of a job can put and read; each call may take its time.

    Attributes:
        rank: This process's number.
    """

    rank: int

    def put(self, key: str, word: str) -> None:
        """Put a word under a key that has none; do nothing if it has one."""

    def get(self, key: str, timeout: float) -> str | None:
        """Return the word of a key, waiting up to the given seconds for it; None if there is none."""

    def below(self, key: str) -> list[str]:
        """Return the words of all keys that begin with this one and a slash."""

    def drop(self, key: str) -> None:
        """Forget the word of a key."""


class Decision:
    """A factor that applies from one step on.

    Args:
        number: How many came before.
        at: Count of steps from which it holds.
        steps: Since the one before.

    Attributes:
        factor: The decision; None until that is known.
        known: Set when it is.
        open: Set when the first process is to decide.
    """

    def __init__(self, number: int, at: int, steps: int) -> None:
        self.number, self.at = number, at
        self.posted, self.proposed = at - steps // 2, at - steps // 4
        self.factor: int | None = None
        self.known, self.open = threading.Event(), threading.Event()


class SharedBudget(SamplingBudget):
    """A budget for the whole job: the largest cost of any process decides, and all stretch at the same step.

    Args:
        hook: Says which share of the time.
        samplings: Whose distances are stretched.
        store: The exchange between the processes. All must make their budgets in the same order.
        failed: Receives failures: reason, words, hint, whether all is over.
    """

    shared = True

    def __init__(
        self,
        hook: Bounded,
        *samplings: Sampling,
        store: Store,
        failed: Callable[[str, str, str, bool], None],
    ) -> None:
        super().__init__(hook, *samplings)
        self._store, self._failed = store, failed
        self._asks, self._factor, self._cost = 0, 1, (0.0, 0.0)
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self._decision = self._next(None)

    def asked(self, step: int) -> None:
        """Count a step; apply a decision that holds from this step on."""
        if not self.bounded or self._ended.is_set():
            return
        self._asks += 1
        decision = self._decision
        if self._asks == decision.posted:
            self._start(self._settle, decision)
        if self._asks == decision.proposed:
            decision.open.set()
        if self._asks == decision.at:
            self._apply(step, decision)

    def spent(self, step: int, cost_seconds: float, step_seconds: float) -> None:
        """Keep the cost of this process's samples for the next decision."""
        self._cost = (cost_seconds, step_seconds)

    def close(self) -> None:
        """Agree on nothing more."""
        self._ended.set()
        self._decision.open.set()
        for thread in self._threads:
            thread.join(END_SECS)

    def _next(self, last: Decision | None) -> Decision:
        steps = max(2 * self._hook.every_n_steps * self._factor, LEAST_STEPS)
        number, at = (0, 0) if last is None else (last.number + 1, last.at)
        return Decision(number, at + steps, steps)

    def _apply(self, step: int, decision: Decision) -> None:
        """Apply the decision, on the training thread."""
        if not decision.known.is_set():
            self._start(self._hurry, decision)
            decision.known.wait(WAIT_SECS)
        if decision.factor is None:
            self._ended.set()
            words = f"no answer from the job's store within {WAIT_SECS:.0f} s"
            hint = (
                "the distance between samples stays as it is; is the process that coordinates the job alive?"
            )
            self._failed("ranks", words, hint, False)
            return
        self._factor = decision.factor
        for sampling in self._samplings:
            sampling.stretch_from(step, decision.factor)
        self._decision = self._next(decision)

    def _start(self, what: Callable[[Decision], None], decision: Decision) -> None:
        def run() -> None:
            with suppress(Exception):  # the store is gone: the step that waits for it says so
                what(decision)

        thread = threading.Thread(target=run, name="stepscope-budget", daemon=True)
        self._threads = [thread for thread in self._threads if thread.is_alive()] + [thread]
        thread.start()

    def _settle(self, decision: Decision) -> None:
        """Report the cost of samples here, and get the decision."""
        mine, store = f"cost/{decision.number}/{self._store.rank}", self._store
        store.put(mine, " ".join(map(str, self._cost)))
        decision.open.wait()
        if self._ended.is_set():
            return
        if store.rank == 0:
            costs = [tuple(map(float, word.split())) for word in store.below(f"cost/{decision.number}")]
            cost, step = (max(column) for column in zip(*costs, strict=True))
            store.put(f"factor/{decision.number}", str(self.factor(cost, step)))
        self._hear(decision)
        store.drop(mine)

    def _hurry(self, decision: Decision) -> None:
        """Decide on no change, unless something has been decided."""
        while not decision.known.is_set() and not self._ended.is_set():
            with suppress(Exception):  # a store that does not answer now may do so in a moment
                self._store.put(f"factor/{decision.number}", str(self._factor))
                self._hear(decision)
            if not decision.known.is_set():
                self._ended.wait(LOOK_SECS)

    def _hear(self, decision: Decision) -> None:
        word = None
        while word is None and not decision.known.is_set() and not self._ended.is_set():
            word = self._store.get(f"factor/{decision.number}", LOOK_SECS)
        if word is not None:
            decision.factor = int(word)
            decision.known.set()
