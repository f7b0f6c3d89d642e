"""A time budget on which the processes of a job agree, if measuring is part of a compiled step.

Processes whose programs differ may wait for each other for ever, so all must stretch at the same step. They
share a store. The first value that is put there for a decision counts: a process that reaches the step from
which the decision applies follows that value, or puts "no change" itself. So no process ever waits for
another one, only for the store, and only if its own threads have not asked it in time.

Steps are counted as they are asked about, which is the same in all processes, whatever their numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from stepscope.record.statistics.hooks import StatisticsHook
from stepscope.record.statistics.sampling import Sampling, SamplingBudget

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
        factor: What was decided; None until that is known.
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
        store: What the processes share. All must make their budgets in the same order.
        failed: Told what went wrong: reason, words, hint, whether all is over.
    """

    shared = True

    def __init__(
        self,
        hook: StatisticsHook,
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
        """Keep what this process's samples cost, for the next decision."""
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
        """Apply what was decided, on the training thread."""
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
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()

    def _settle(self, decision: Decision) -> None:
        """Report what samples cost here, and get the decision."""
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
