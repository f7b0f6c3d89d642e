"""Profiles are read in a separate process: whatever a file does to its reader, the server survives."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from stepscope.child import Child
from stepscope.errors import EmptyTraceError, TraceError
from stepscope.scratch import scratch
from stepscope.serve.profiles.types import ReadingProgress
from stepscope.trace import Trace
from stepscope.trace.bounds import memory_bound
from stepscope.trace.cache import read as read_columns
from stepscope.trace.set import size_of

LEAST_SECS = 120.0
BYTES_PER_SEC = 1 << 20
"""Seconds per MiB that a profile may take beyond the minimum: readers do some 100 MiB a second."""
IDLE_SECS = 120.0
"""Seconds without work after which the process is ended."""


class ProfileReader:
    """Reads profiles in a process that is ended if one takes too long or too much memory.

    Args:
        least_secs: Time that any profile may take.
        most_bytes: Memory that the process may take; None for half of the machine's.
    """

    def __init__(self, *, least_secs: float = LEAST_SECS, most_bytes: int | None = None) -> None:
        self.least_secs = least_secs
        self.most_bytes = memory_bound() if most_bytes is None else most_bytes
        self.child = Child("stepscope.trace.worker", str(self.most_bytes))
        self._turn = threading.Lock()
        self._rest: threading.Timer | None = None
        self._closed = False
        self._waiting: dict[Path, int] = {}
        self._at: tuple[Path, int, int] | None = None

    def progress(self, path: Path) -> ReadingProgress | None:
        """Return how far the reading of a profile is; None if it is neither read nor waits for it."""
        at = self._at
        if at is not None and at[0] == path:
            return ReadingProgress("reading", at[1], at[2])
        return ReadingProgress("waiting", 0, self._waiting[path]) if path in self._waiting else None

    def read(self, path: Path, *, cache: bool) -> Trace:
        """Return a profile.

        Raises:
            TraceError: It is not one, is damaged, or takes more time or memory than it may.
        """
        with scratch("read") as folder:
            out = folder / "columns"
            self.ask(path, {"kind": "trace", "out": str(out), "cache": cache})
            trace = read_columns(out, {})
        if trace is None:
            raise TraceError("what was read does not fit this version", hint="start the server again")
        return trace

    def check_tfprof(self, path: Path) -> None:
        """Find out whether tfprof's own form of a profile can be read in bounds.

        Raises:
            TraceError: It cannot.
        """
        self.ask(path, {"kind": "tfprof"})

    def ask(self, path: Path, request: dict[str, Any]) -> None:
        """Make the process do something with a profile."""
        size = size_of(path)
        budget_s = self.least_secs + size / BYTES_PER_SEC
        self._waiting[path] = size
        try:
            with self._turn:
                self._at = (path, 0, size)
                try:
                    asked = {"path": os.fsencode(path).hex(), "progress": True, **request}
                    refusal = self._exchange(asked, budget_s)
                finally:
                    self._at = None
        finally:
            self._waiting.pop(path, None)
        if refusal:
            kind = EmptyTraceError if refusal.get("empty") else TraceError
            raise kind(refusal["error"], hint=refusal["hint"], path=path)

    def close(self) -> None:
        """End the process, whatever it does."""
        self._closed = True
        self.child.cancel()  # who waits for its answer is told that the server ends
        if (rest := self._rest) is not None:
            rest.cancel()
        with self._turn:
            self.child.end()

    def _exchange(self, request: dict[str, Any], budget_s: float) -> dict[str, Any]:
        if self._rest is not None:
            self._rest.cancel()
        if self._closed:
            raise TraceError("the server ends", hint="ask again when it runs")
        try:
            with self.child.bounded(budget_s) as overdue:
                line = self.child.ask(json.dumps(request).encode(), self._is_progress)
        except OSError as error:
            raise TraceError(
                f"no process can be started to read it: {error.strerror or error}",
                hint="end other programs, or see the limits of this user",
            ) from None
        if line is None:
            raise self._failure(self.child.end(), budget_s, overdue=overdue.is_set())
        self._rest = threading.Timer(IDLE_SECS, self._end_idle)
        self._rest.daemon = True
        self._rest.start()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _is_progress(self, line: bytes) -> bool:
        """Note how far the reading is, if a line says that."""
        if not line.startswith(b'{"read"'):
            return False
        if self._at is not None:
            # A file beside the profile may have been read too.
            self._at = (self._at[0], min(json.loads(line)["read"], self._at[2]), self._at[2])
        return True

    def _end_idle(self) -> None:
        if self._turn.acquire(blocking=False):  # else it has work again
            try:
                self.child.end()
            finally:
                self._turn.release()

    def _failure(self, status: int | None, budget_s: float, *, overdue: bool) -> TraceError:
        if self._closed:
            return TraceError("the server ends", hint="ask again when it runs")
        if overdue:
            return TraceError(
                f"reading it took more than {budget_s:.0f} s, so it was given up",
                hint="look at it with stepscope glance, which waits, or record fewer steps",
            )
        return TraceError(
            f"the process that read it died (exit status {status}): the file is damaged, hostile "
            "or too large for this machine",
            hint="record it again; if other tools read it, please report it with the file",
        )
