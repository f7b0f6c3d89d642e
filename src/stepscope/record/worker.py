"""Things done in order on a thread of their own, which exists only while there are some."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
IDLE_SECS = 10.0
"""Seconds without anything to do after which the thread ends."""


class Worker(Generic[T]):
    """Does things in the order in which they were put.

    Args:
        name: Of the thread.
        do: Called with each, on the thread; it must not raise.
        rests: Called on the thread when it ends because nothing has come for a while.

    Attributes:
        lock: Held while something is put. A signal handler may do so in the middle of another ``put``.
        pending: Things put and not yet done.
    """

    def __init__(self, name: str, do: Callable[[T], object], rests: Callable[[], object] = bool) -> None:
        self._name, self._do, self._rests = name, do, rests
        self.forget()

    def forget(self) -> None:
        """Become empty in a forked child, which lacks the thread."""
        self._things: SimpleQueue[T | None] = SimpleQueue()
        self.lock = threading.RLock()
        self._done = threading.Condition(self.lock)
        self._thread: threading.Thread | None = None
        self._takes = False
        self.pending = 0

    @property
    def waiting(self) -> int:
        """How many things wait for the one that is being done."""
        return self._things.qsize()

    def put(self, thing: T) -> None:
        """Have something done.

        Raises:
            RuntimeError: No thread can be started, as when the interpreter ends.
        """
        with self.lock:
            if not self._takes or self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                thread.start()
                self._thread, self._takes = thread, True
            self.pending += 1
            self._things.put(thing)

    def wait(self, timeout: float) -> bool:
        """Wait until everything is done; False if that takes longer than ``timeout`` seconds."""
        with self.lock:
            return self._done.wait_for(lambda: not self.pending, timeout)

    def end(self) -> None:
        """Let the thread end once everything put is done; a later ``put`` starts another."""
        with self.lock:
            if self._takes:
                self._things.put(None)

    def join(self, timeout: float) -> None:
        """Wait for the thread to end."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _loop(self) -> None:
        while True:
            idle = False
            try:
                thing = self._things.get(timeout=IDLE_SECS)
            except Empty:
                thing, idle = None, True
            if thing is None:
                with self.lock:
                    if self._things.empty():
                        self._takes = False
                        if idle:
                            self._rests()
                        return
                continue
            try:
                self._do(thing)
            finally:
                with self.lock:
                    self.pending -= 1
                    self._done.notify_all()
