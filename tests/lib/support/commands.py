"""``stepscope`` for shells: each command is forked from a process that has imported what commands need."""

import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from support.fork_server import LENGTH, STATUS, STREAMS
from support.programs import Program, received

OF_THE_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
"""Variables that a shell sets and nothing reads while it is imported."""

COMMAND = """#!{python} -IS
import json, os, socket, struct, sys
asked = {{"words": ["-m", "stepscope", *sys.argv[1:]], "environment": dict(os.environ), "cwd": os.getcwd()}}
body = json.dumps(asked).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [struct.pack("{length}", len(body))], [0, 1, 2])
    server.sendall(body)
    (status,) = struct.unpack("{status}", server.recv(4))
sys.exit(status if status >= 0 else 128 - status)
"""


@contextmanager
def stepscope(modules: Sequence[str]) -> Iterator[str]:
    """A folder for a PATH whose command ``stepscope`` has imported some modules."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        address = str(Path(folder) / "socket")
        listener.bind(address)
        listener.listen()
        command = Path(folder) / "stepscope"
        names = {"length": LENGTH.format, "status": STATUS.format}
        command.write_text(COMMAND.format(python=sys.executable, address=address, **names))
        command.chmod(0o755)
        answering = threading.Thread(target=answer, args=(listener, modules), daemon=True)
        answering.start()
        try:
            yield folder
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            answering.join(10)


def answer(listener: socket.socket, modules: Sequence[str]) -> None:
    """Run one command after the other, until the listener is shut down."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with closing(connection):
            head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, STREAMS)
            asked = json.loads(received(connection, LENGTH.unpack(head)[0]))
            program = Program(
                asked["words"], modules=modules, env=asked["environment"], own=OF_THE_SHELL, cwd=asked["cwd"],
                stdin=streams[0], stdout=streams[1], stderr=streams[2],
            )  # fmt: skip
            for stream in streams:
                os.close(stream)
            connection.sendall(STATUS.pack(program.wait()))
