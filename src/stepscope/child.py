"""Child processes: started with this interpreter, asked through pipes, bounded, and ended. Bytes only."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket


def processors() -> int:
    """Return how many processors this process may use."""
    with contextlib.suppress(AttributeError, OSError):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start(
    words: Sequence[str],
    *,
    stdin: int | None = subprocess.PIPE,
    stdout: int | None = subprocess.PIPE,
    stderr: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program; Ctrl-C does not reach it, for it interrupts a whole group of processes.

    Args:
        words: The program and its arguments.
        stdin: As of ``Popen``.
        stdout: As of ``Popen``.
        stderr: As of ``Popen``; by default that of this process.
        environment: All variables; by default those of this process.

    Raises:
        OSError: No process can be started.
    """
    return subprocess.Popen(  # noqa: S603  our own programs
        words, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, start_new_session=True
    )


class Child:
    """A module of this package that answers through pipes, started when it is first asked.

    One thread asks at a time; ``cancel`` may be called by any.

    Args:
        module: Its name, as ``stepscope.trace.worker``.
        words: Its arguments.
        greeting: Its first request.
        stderr: Destination of its error output; by default to that of this process.
        pipe_bytes: Size of its pipes, if the system lets it be chosen; 0 for the usual.
        variables: For its environment.

    Attributes:
        process: None until it is asked, and after its end.
    """

    def __init__(
        self,
        module: str,
        *words: str,
        greeting: bytes = b"",
        stderr: int | None = None,
        pipe_bytes: int = 0,
        **variables: str,
    ) -> None:
        self._words, self._greeting, self._stderr = ("-m", module, *words), greeting, stderr
        self._pipe_bytes, self._variables = pipe_bytes, variables
        self._cancelled = False
        self.process: subprocess.Popen[bytes] | None = None

    def pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the pipes to it and from it; start it if it does not run.

        Raises:
            OSError: It cannot be started, or was cancelled.
        """
        if self.process is not None and self.process.poll() is not None:
            self.end()
        if self.process is None:
            if self._cancelled:
                raise OSError(errno.ECANCELED, "cancelled")
            self.process = self._start()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin, self.process.stdout

    def _start(self) -> subprocess.Popen[bytes]:
        paths = [str(Path(__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        variables = {"PYTHONPATH": os.pathsep.join(paths), **self._variables}
        if not sys.executable:
            raise FileNotFoundError(errno.ENOENT, "no interpreter to start")
        words = [sys.executable, *self._words]
        process = start(words, stderr=self._stderr, environment={**os.environ, **variables})
        assert process.stdin is not None
        if self._pipe_bytes:
            with contextlib.suppress(ImportError, AttributeError, OSError):
                import fcntl

                for pipe in filter(None, (process.stdin, process.stdout)):
                    fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, self._pipe_bytes)
        if self._greeting:
            process.stdin.write(self._greeting)
        return process

    def ask(self, request: bytes, skip: Callable[[bytes], bool] = lambda line: False) -> bytes | None:
        """Send a line and return the line that answers it; None if the process died.

        Args:
            request: The line.
            skip: Called with every line; True for one that is not the answer yet.

        Raises:
            OSError: It cannot be started, or was cancelled.
        """
        stdin, stdout = self.pipes()
        line = b""
        with contextlib.suppress(OSError):  # it died: there is no answer
            stdin.write(request + b"\n")
            stdin.flush()
            while (line := stdout.readline()).endswith(b"\n") and skip(line):
                pass
        return line if line.endswith(b"\n") else None

    @contextlib.contextmanager
    def bounded(self, seconds: float) -> Iterator[threading.Event]:
        """Kill the process if the block takes longer; the event says that it did.

        Raises:
            OSError: It cannot be started, or was cancelled.
        """
        self.pipes()
        overdue = threading.Event()

        def kill() -> None:
            overdue.set()
            if self.process is not None:
                self.process.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield overdue
        finally:
            timer.cancel()

    def cancel(self) -> None:
        """Kill the process for good; callers that wait for its answer learn that it died."""
        self._cancelled = True
        process = self.process
        if process is not None:
            process.kill()

    def end(self) -> int | None:
        """End the process at once, and release its pipes and files; return its exit status."""
        process, self.process = self.process, None
        if process is None:
            return None
        process.kill()
        close_pipes(process)
        return process.wait()

    def forget(self) -> None:
        """Let go of the process in a forked child of this one, which may not wait for it."""
        process, self.process = self.process, None
        if process is not None:
            close_pipes(process)
            process.returncode = 0


def close_pipes(process: subprocess.Popen[Any]) -> None:
    """Close this side of the pipes."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


_listening: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def close_in_forks(listener: socket.socket) -> None:
    """Leave a listening socket to this process: a fork that lives on would keep its port."""
    if not _listening and hasattr(os, "register_at_fork"):
        _register_once()
    _listening.add(listener)


@functools.cache
def _register_once() -> None:
    os.register_at_fork(after_in_child=_close_listening)


def _close_listening() -> None:
    for listener in list(_listening):
        listener.close()
