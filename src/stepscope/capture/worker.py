"""The thread that writes profiles and has them analysed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

IDLE_SECS = 30.0


class Worker:
    """Runs jobs in order on a thread that exists only while there are some.

    Attributes:
        pending: Jobs put and not yet done.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._done = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self.pending = 0

    def put(self, job: Callable[[], None]) -> None:
        """Have a job done; it must not raise.

        Raises:
            RuntimeError: No thread can be started, as when the interpreter ends.
        """
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._loop, name="stepscope-capture", daemon=True)
                thread.start()
                self._thread = thread
            self.pending += 1
            self._jobs.put(job)

    def wait(self, timeout: float) -> bool:
        """Wait until everything is done; False where that takes longer than ``timeout`` seconds."""
        with self._lock:
            return self._done.wait_for(lambda: not self.pending, timeout)

    def close(self) -> None:
        """Let the thread end once everything put is done; a later ``put`` starts another."""
        with self._lock:
            if self._thread is not None:
                self._jobs.put(None)
                self._thread = None

    def _loop(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=IDLE_SECS)
            except Empty:
                with self._lock:
                    if not self.pending:
                        self._thread = None
                        return
                continue
            if job is None:
                return
            try:
                job()
            finally:
                with self._lock:
                    self.pending -= 1
                    self._done.notify_all()
