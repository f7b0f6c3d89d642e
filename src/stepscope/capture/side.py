"""The side process that analyses a profile: low priority, one at a time; training never waits for it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from stepscope import child
from stepscope.capture.capture_record import signal_name

LIMIT_SECS = 600.0
NICE = 19
CHAIN = "import json, subprocess, sys; [subprocess.call(each) for each in json.loads(sys.argv[1])]"
"""A program that runs commands one after the other."""


def command(profile: Path, summary: Path) -> list[str]:
    """Return the words that start the analysis."""
    return [sys.executable, "-m", "stepscope", "glance", str(profile), "--output", str(summary), "--no-cache"]


def start(profile: Path, summary: Path) -> subprocess.Popen[bytes] | None:
    """Begin to analyse a profile; None if no process could be started.

    Args:
        profile: What was captured.
        summary: Where the summary goes.
    """
    return started(command(profile, summary), subprocess.PIPE)


def started(words: list[str], stderr: int) -> subprocess.Popen[bytes] | None:
    """Start a process of lowest priority that Ctrl-C does not reach; None if that failed."""
    try:
        process = child.start(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            environment=environment(),
        )
    except OSError:
        return None
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    return process


def wait(process: subprocess.Popen[bytes], *, limit_secs: float = LIMIT_SECS) -> str | None:
    """Wait for the analysis; return what went wrong, None if nothing.

    Args:
        process: From ``start``.
        limit_secs: After this it is given up.
    """
    try:
        _, said = process.communicate(timeout=limit_secs)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"it took longer than {limit_secs:g} s"
    if process.returncode == 0:
        return None
    if process.returncode < 0:
        return f"{signal_name(-process.returncode)} ended it; the system sends SIGKILL when memory runs out"
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {process.returncode}"


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process, no matter how long it takes."""
    process.wait()


def environment() -> dict[str, str]:
    """Return the environment for the side process: one thread, and none of the job's rank variables."""
    kept = {
        name: text for name, text in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    }
    return {**kept, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "STEPSCOPE_STRICT": "0"}


@dataclass
class AnalysisJob:
    """A profile to analyse.

    Attributes:
        profile: What was captured.
        summary: Where the summary goes.
        done: Called on a thread once that is over, with what went wrong, None if nothing.
    """

    profile: Path
    summary: Path
    done: Callable[[str | None], None]


class Analyses:
    """Has profiles analysed, one after the other; processes continue after the run has ended."""

    def __init__(self) -> None:
        self._worker, self._lock = Worker(), threading.Lock()
        self._waiting: deque[AnalysisJob] = deque()
        self._going = False

    def put(self, job: AnalysisJob) -> None:
        """Have a profile analysed; its process has started on return, unless another one is running."""
        with self._lock:
            if self._going:
                self._waiting.append(job)
                return
            self._going = True
        self._begin(job)

    def close(self) -> None:
        """Hand everything that still waits to one process, because nobody will be there later."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
        if waiting:
            commands = [command(job.profile, job.summary) for job in waiting]
            process = started([sys.executable, "-c", CHAIN, json.dumps(commands)], subprocess.DEVNULL)
            if process is not None:
                with contextlib.suppress(RuntimeError):
                    self._worker.put(lambda: reap(process))
        self._worker.close()

    def _begin(self, job: AnalysisJob) -> None:
        process = start(job.profile, job.summary)
        try:
            self._worker.put(lambda: self._end(job, process))
        except RuntimeError:  # the interpreter ends: nobody is left to wait for it
            job.done(None)

    def _end(self, job: AnalysisJob, process: subprocess.Popen[bytes] | None) -> None:
        try:
            job.done("no process could be started" if process is None else wait(process))
        finally:
            with self._lock:
                after = self._waiting.popleft() if self._waiting else None
                self._going = after is not None
            if after is not None:
                self._begin(after)


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
        """Wait until everything is done; False if that takes longer than ``timeout`` seconds."""
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
