"""Adds the tables of all ranks up, on a thread of its own: training never waits for another rank.

A round is what one rank measured at one step. The thread takes rounds in order; every rank's thread does the
same with its own. It first exchanges the maxima, whose head says which step and kind of round each rank is
at. Only where all agree come the sums, and then the counts, so exchanges of different sizes never meet. A
rank that missed a step is noticed there: the round is dropped on all ranks, reported once, and each rank goes
on with its first round after the last step that anyone had reached.

The head also carries what all ranks must decide in the same way: the cost of measuring and the wish for a new
layout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Protocol

import numpy as np

from stepscope.record.statistics.table import Array, Counts, StatisticsTable

HEAD = 12
ALONE = 8
"""Places in a head whose numbers may differ between ranks."""
MAX_WAITING = 64
"""Number of rounds that may wait for other ranks; beyond it, nothing is measured until they answer."""
IDLE_SECS = 10.0


class Exchange(Protocol):
    """All ranks of the job; each method is called by all of them in the same order, and may take its time."""

    ranks: int

    def add(self, values: Array | Counts) -> None:
        """Replace values by their sum over the ranks."""

    def largest(self, values: Array) -> None:
        """Replace values by the largest over the ranks."""


@dataclass
class Round:
    """The measurements of one rank at one step.

    Attributes:
        step: Its number.
        table: The rows; filled once ``wait`` has returned.
        full: Whether all statistics were measured, or only norms.
        version: Number of the layout that the rows follow.
        shape: Number of whatever else must be the same on all ranks, such as the length of ``raw``.
        loose: Further sums, whose meaning is the integration's, and which reach it by ``done``.
        raw: Gradients that are complete only as the sum over ranks, one after the other.
        cost_seconds: What measuring took; 0 if it is not known.
        step_seconds: How long a step takes; 0 if it is not known.
        relayout: Whether this rank's parameters are no longer those of the layout.
        wait: Waits until a device has finished the table.
        alone: Whether the other ranks are not needed.
        done: What the integration does with the round, for ``Rounds``' own ``done`` to call.
    """

    step: int
    table: StatisticsTable
    full: bool
    version: int = 0
    shape: int = 0
    loose: Array = field(default_factory=lambda: np.zeros(0))
    raw: Array = field(default_factory=lambda: np.zeros(0))
    cost_seconds: float = 0.0
    step_seconds: float = 0.0
    relayout: bool = False
    wait: Callable[[], None] | None = None
    alone: bool = False
    done: Callable[[], None] | None = None

    def head(self) -> Array:
        """Return what ranks compare: a number and its negative, which cancel out where all agree."""
        kind = 2 * self.full + (len(self.table.counts) > 0)
        pairs = (self.step, kind, self.version, self.shape)
        alone = (float(self.relayout), self.cost_seconds, self.step_seconds)
        head = np.zeros(HEAD)
        head[: 2 * len(pairs)] = [number for one in pairs for number in (one, -one)]
        head[ALONE : ALONE + len(alone)] = alone
        return head


class Rounds:
    """Exchanges rounds and hands them on.

    Args:
        done: Called on this thread with each round that all ranks agree on, its table now that of all ranks.
        exchange: The ranks; None for a single one.
        relayout: Called on this thread, on all ranks after the same round, where one wished for a new layout.
        failed: Called on this thread with what went wrong: reason, words, hint, whether all is over.
    """

    def __init__(
        self,
        done: Callable[[Round], None],
        exchange: Exchange | None = None,
        *,
        relayout: Callable[[], None] | None = None,
        failed: Callable[[str, str, str, bool], None],
    ) -> None:
        self._done, self._exchange, self._relayout, self._failed = done, exchange, relayout, failed
        self._queue: SimpleQueue[Round | threading.Event | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._resume = -1
        self.version = 0
        self.over = False
        self._unfinished = 0

    @property
    def full(self) -> bool:
        """True if no more should be measured that other ranks are needed for."""
        return self.over or self.stuck

    @property
    def stuck(self) -> bool:
        """True if as many rounds wait as may."""
        return self._queue.qsize() >= MAX_WAITING

    @property
    def idle(self) -> bool:
        """True if every round that was put is done, so that what is recorded now comes after them."""
        return self._unfinished == 0

    def put(self, round_: Round) -> None:
        """Take a round."""
        with self._lock:
            self._unfinished += 1
        self._put(round_)

    def drain(self, timeout: float) -> bool:
        """Wait until every round put is done; False if that takes longer, in seconds."""
        if self.over or self._thread is None:
            return not self.over
        reached = threading.Event()
        self._put(reached)
        return reached.wait(timeout)

    def close(self, timeout: float) -> bool:
        """Wait as ``drain`` does, and end the thread; False if rounds still waited, in seconds."""
        done = self.drain(timeout)
        thread = self._thread
        if thread is not None:
            self._queue.put(None)
            if done or self.over:
                thread.join(timeout)
        return done

    def _put(self, item: Round | threading.Event) -> None:
        with self._lock:
            self._queue.put(item)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._loop, name="stepscope-statistics", daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        while True:
            try:
                item = self._queue.get(timeout=IDLE_SECS)
            except Empty:
                with self._lock:
                    if self._queue.empty():
                        self._thread = None
                        return
                continue
            if item is None:
                with self._lock:
                    self._thread = None
                return
            if isinstance(item, threading.Event):
                item.set()
            else:
                if item.alone or not self.over:
                    self._try(item)
                with self._lock:
                    self._unfinished -= 1

    def _try(self, round_: Round) -> None:
        exchanging = False
        try:
            if round_.wait is not None:
                round_.wait()
            agreed = True
            if self._exchange is not None and not round_.alone:
                exchanging = True
                agreed = self._agreed(round_, self._exchange)
                exchanging = False
            if agreed:
                self._done(round_)
        except Exception as error:  # noqa: BLE001  a broken connection, a framework's or the user's own code
            self.over = self.over or exchanging
            words = f"step {round_.step}: {type(error).__name__}: {str(error)[:500]}"
            self._failed("statistics", words, "", exchanging)

    def _agreed(self, round_: Round, exchange: Exchange) -> bool:
        """Exchange a round; return False if it is dropped."""
        if round_.step <= self._resume or round_.version != self.version:
            return False
        sums, maxima = round_.table.packed()
        head_and_maxima = np.concatenate([round_.head(), maxima])
        exchange.largest(head_and_maxima)
        head, maxima = head_and_maxima[:HEAD], head_and_maxima[HEAD:]
        agreed = all(head[at] == -head[at + 1] for at in range(0, ALONE, 2))
        if agreed:
            self._add_up(round_, exchange, sums, maxima)
            round_.cost_seconds, round_.step_seconds = float(head[ALONE + 1]), float(head[ALONE + 2])
        else:
            self._disagree(head)
        if head[ALONE] and self._relayout is not None:
            self._relayout()
        return agreed

    def _add_up(self, round_: Round, exchange: Exchange, sums: Array, maxima: Array) -> None:
        parts = [sums, round_.loose, round_.raw]
        together = np.concatenate(parts)
        exchange.add(together)
        sums, round_.loose, round_.raw = np.split(together, np.cumsum([len(part) for part in parts])[:-1])
        round_.table.unpack(sums, maxima)
        if len(round_.table.counts):
            exchange.add(round_.table.counts)

    def _disagree(self, head: Array) -> None:
        self._resume = int(head[0])
        last, first = int(head[0]), int(-head[1])
        steps = f"steps {first} and {last}" if first != last else f"step {last} in different ways"
        self._failed(
            "ranks",
            f"the ranks measured {steps} in one round; it is left out",
            "every rank must take the same optimizer steps and give its hooks the same arguments",
            False,
        )
