"""Programs in Python that begin at once, though what they import takes seconds.

A program is a process of its own, as with ``subprocess``, but forked from one that has imported what it will
(``fork_server.py``): on a busy machine, importing takes longer than what most tests have to say. It sees what
a new interpreter would, but for three things: a name that it uses without importing its module may be there,
options of the interpreter cannot be given, and its own command line is the server's. Tests of these, and of
how long a start takes, start their interpreter themselves.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from support.fork_server import LENGTH, STATUS

SERVER = Path(__file__).with_name("fork_server.py")
OWN = {
    "XDG_CACHE_HOME", "STEPSCOPE_SPOOL", "STEPSCOPE_STRICT", "HOME", "PATH", "RANK", "LOCAL_RANK",
    "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "PYTEST_CURRENT_TEST",
}  # fmt: skip
"""Variables that nothing reads while it is imported: what differs in another needs a server of its own."""

TORCH = (
    "torch", "torch.distributed", "torch._dynamo", "stepscope.record.run", "stepscope.record.hooks.health",
    "stepscope.record.hooks.system", "stepscope.capture.hook", "stepscope.integrations.torch.profiler",
    "stepscope.integrations.torch.attach", "stepscope.integrations.torch.gradients",
    "stepscope.integrations.torch.activations", "psutil", "numpy.ma",
)  # fmt: skip
"""What a loop in PyTorch and a job of several ranks import; the first optimizer imports ``torch._dynamo``."""
CLI = (
    "stepscope.cli", "stepscope.cli.source", "stepscope.cli.session", "stepscope.store.query",
    "stepscope.serve.report", "stepscope.analyze.advise", "stepscope.analyze.diff",
    "stepscope.trace.load", "polars",
)  # fmt: skip
"""What the commands import that read a run or a profile and print."""
RECORDING = ("stepscope.record.run", "stepscope.record.ended_series", "stepscope.names.meanings", "numpy.ma")
"""What a run of numbers imports; a program that starts by itself spends half a second on it."""
JAX = (*RECORDING, "stepscope.capture.hook", "jax.numpy")
"""What a loop in JAX imports; it makes no thread before it computes."""
MAX_SERVERS = 4
"""Servers that are kept for the next program; each holds what it has imported in memory."""

_servers: dict[tuple[Any, ...], Server] = {}
_closed: list[subprocess.Popen[bytes]] = []
"""Processes of servers that take no more programs."""


class Server:
    """One process that has imported some modules under an environment."""

    def __init__(self, modules: Iterable[str], environment: Mapping[str, str]) -> None:
        self.control, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [sys.executable, str(SERVER), *modules], stdin=theirs, env=dict(environment), cwd="/"
        )
        theirs.close()
        self.lock = threading.Lock()

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], cwd: str, streams: Sequence[int]
    ) -> tuple[int, socket.socket]:
        """Fork a program; return its process and the socket on which its end will be said."""
        mine, theirs = socket.socketpair()
        body = json.dumps({"words": words, "environment": dict(environment), "cwd": cwd}).encode()
        with self.lock, theirs:
            socket.send_fds(self.control, [LENGTH.pack(len(body))], [theirs.fileno(), *streams])
            self.control.sendall(body)
        return STATUS.unpack(received(mine, STATUS.size))[0], mine

    def close(self) -> None:
        """Take no more programs: it ends with the last of those that it forked."""
        self.control.close()


def received(connection: socket.socket, length: int) -> bytes:
    """Return exactly so many bytes."""
    found = b""
    while len(found) < length:
        more = connection.recv(length - len(found))
        if not more:
            raise EOFError("the fork server has ended")
        found += more
    return found


def server(modules: Sequence[str], environment: Mapping[str, str], own: Container[str] = ()) -> Server:
    """Return the server of some modules under an environment, started where there is none."""
    environment = {name: value for name, value in environment.items() if name not in own}
    shared = tuple(sorted((name, value) for name, value in environment.items() if name not in OWN))
    key = (tuple(modules), shared)
    found = _servers.pop(key, None) or Server(modules, environment)
    _servers[key] = found  # the newest is the last
    while len(_servers) > MAX_SERVERS:
        _close(next(iter(_servers)))
    _closed[:] = [process for process in _closed if process.poll() is None]
    return found


def _close(key: tuple[Any, ...]) -> None:
    closed = _servers.pop(key)
    closed.close()
    _closed.append(closed.process)


@atexit.register
def close_all() -> None:
    """End the servers of this process, once the programs that they forked have ended."""
    for key in list(_servers):
        _close(key)
    for process in _closed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)


class Program:
    """A program that was forked; what it has of ``subprocess.Popen`` means the same there.

    ``own`` has variables of ``env`` that the modules do not read while they are imported.
    """

    def __init__(
        self,
        words: Sequence[str | os.PathLike[str]],
        *,
        modules: Sequence[str],
        env: Mapping[str, str] | None = None,
        own: Container[str] = (),
        cwd: str | os.PathLike[str] | None = None,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        text: bool = False,
    ) -> None:
        environment = dict(os.environ if env is None else env)
        self.args = [os.fspath(word) for word in words]
        self.returncode: int | None = None
        self.text = text
        self._said: dict[str, Any] = {}
        self._readers: list[threading.Thread] = []
        with contextlib.ExitStack() as passed:
            streams, self.stdin, self.stdout, self.stderr = [], None, None, None
            for name, wanted, number in (("stdin", stdin, 0), ("stdout", stdout, 1), ("stderr", stderr, 2)):
                if wanted == subprocess.PIPE:
                    ends = os.pipe()
                    theirs, ours = ends if number == 0 else ends[::-1]
                    passed.callback(os.close, theirs)
                    mode = "w" if number == 0 else "r"
                    setattr(self, name, os.fdopen(ours, mode if text else f"{mode}b"))
                elif wanted == subprocess.DEVNULL:
                    theirs = os.open(os.devnull, os.O_RDWR)
                    passed.callback(os.close, theirs)
                elif wanted == subprocess.STDOUT:
                    theirs = streams[1]
                else:
                    theirs = (
                        number if wanted is None else wanted if isinstance(wanted, int) else wanted.fileno()
                    )
                streams.append(theirs)
            found = server(modules, environment, own)
            self.pid, self._end = found.start(self.args, environment, os.fspath(cwd or Path.cwd()), streams)

    def poll(self) -> int | None:
        """Return the status, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return the status, which is minus a signal's number where one killed it."""
        if self.returncode is None:
            self._end.settimeout(timeout)
            try:
                (self.returncode,) = STATUS.unpack(received(self._end, STATUS.size))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._end.close()
        return int(self.returncode)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:  # noqa: A002
        """Give it its input, and return what it said on both streams once it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._readers:
            for name in ("stdout", "stderr"):
                if (stream := getattr(self, name)) is not None:
                    reader = threading.Thread(target=self._read, args=(name, stream), daemon=True)
                    self._readers.append(reader)
                    reader.start()
            if self.stdin is not None:
                with contextlib.suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(input or ("" if self.text else b""))
        for reader in self._readers:
            reader.join(None if deadline is None else max(deadline - time.monotonic(), 0))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if deadline is None else max(deadline - time.monotonic(), 0.001))
        return self._said.get("stdout"), self._said.get("stderr")

    def _read(self, name: str, stream: IO[Any]) -> None:
        with stream:
            self._said[name] = stream.read()

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.wait()


def run(
    words: Sequence[str | os.PathLike[str]],
    *,
    input: Any = None,  # noqa: A002
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **more: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, as ``subprocess.run`` does."""
    if input is not None:
        more["stdin"] = subprocess.PIPE
    if capture_output:
        more.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with Program(words, **more) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.wait(), out, err)
    if check:
        done.check_returncode()
    return done
