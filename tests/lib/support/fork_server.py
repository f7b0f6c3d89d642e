"""A process that has imported what programs need and forks for each of them: ``fork_server.py MODULE ...``.

It listens on the socket that it inherits as its standard input; ``programs.py`` is its other side. A
connection brings one request: what to run, with which environment and streams. It is answered with the number
of the process, and once that has ended with its status.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

STREAMS = 3
LENGTH = struct.Struct("<I")
STATUS = struct.Struct("<i")


class Forked(Exception):
    """In the new process: what it is to run."""


def serve(control: socket.socket) -> None:
    """Answer until the other side is gone and all programs have ended; in a new process, raise what to do."""
    ended, end = os.pipe()
    os.set_blocking(end, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the programs and for who started this
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    running: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        listening = True
        while listening or running:
            ready = {key.fd for key, _ in selector.select()}
            if ended in ready:
                os.read(ended, 4096)
            if control.fileno() in ready:
                request = accept(control)
                if request is None:
                    listening = False
                    selector.unregister(control)
                    continue
                asked, streams, answer = request
                pid = os.fork()
                if pid == 0:
                    for each in (answer, *running.values()):
                        each.close()
                    become(asked, streams)
                    os.close(ended)
                    os.close(end)
                    raise Forked(asked["words"])
                running[pid] = answer
                answer.sendall(STATUS.pack(pid))
                for stream in streams:
                    os.close(stream)
            reap(running)


def accept(control: socket.socket) -> tuple[dict[str, Any], list[int], socket.socket] | None:
    """Take one request; its first descriptor is where to answer, the others are the program's streams."""
    head, descriptors, _, _ = socket.recv_fds(control, LENGTH.size, 1 + STREAMS)
    if not head:
        return None
    (length,) = LENGTH.unpack(head)
    body = b""
    while len(body) < length:
        body += control.recv(length - len(body))
    return json.loads(body), list(descriptors[1:]), socket.socket(fileno=descriptors[0])


def reap(running: dict[int, socket.socket]) -> None:
    """Say of each program that has ended how."""
    for pid in list(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with running.pop(pid) as answer, contextlib.suppress(OSError):
                answer.sendall(STATUS.pack(os.waitstatus_to_exitcode(status)))


def become(asked: dict[str, Any], streams: list[int]) -> None:
    """Take on what distinguishes the program from its server: signals, streams, environment, directory."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])


def run(words: list[str]) -> None:
    """Run ``-c CODE``, ``-m MODULE`` or a file with its arguments as ``python`` does."""
    first, *rest = words
    sys.orig_argv[:] = [sys.executable, *words]
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if first == "-m":
        module, *rest = rest
        sys.argv[:] = ["-m", *rest]
        sys.path.insert(0, str(Path.cwd()))
        runpy._run_module_as_main(module)  # type: ignore[attr-defined]  # what python -m itself calls
        return
    if first == "-c":
        code, *rest = rest
        sys.argv[:] = ["-c", *rest]
        sys.path.insert(0, "")
        exec(compile(code, "<string>", "exec"), main.__dict__)
        return
    sys.argv[:] = [first, *rest]
    sys.path.insert(0, str(Path(first).resolve().parent))
    main.__dict__["__file__"] = first
    exec(compile(Path(first).read_bytes(), first, "exec"), main.__dict__)


if __name__ == "__main__":
    del sys.path[0]  # each program has its own
    for name in sys.argv[1:]:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a thread is not there after a fork"
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as listener:
        try:
            serve(listener)
            sys.exit(0)
        except Forked as forked:
            todo = forked.args[0]
    run(todo)
