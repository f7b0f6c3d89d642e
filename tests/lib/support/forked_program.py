"""``stepscope run`` with a program that is forked, where what it imports takes most of its time.

``forked_program.py ARGUMENT OF STEPSCOPE ...`` is run by a fork server that has imported a framework
(``programs.py``). It is the command as it is, but for how it starts ``python SCRIPT``: the script runs in a
fork of this process, a child of the command with the environment, the path and the ``sitecustomize`` that it
gives a program. Modules that are there by then are observed as if they had been imported just now. A program
that is not this Python starts as ever.
"""

import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

OBSERVED = ("logging", "tqdm.std", "torch", "torch._dynamo.callback", "jax")
"""Watched modules that a server imports, in the order in which their imports end."""


class Program(SystemExit):
    """In the new process: what it is to run, and its environment."""


class Forked(subprocess.Popen[bytes]):
    """A process that is forked to run this Python."""

    def _execute_child(self, args: Any, executable: Any, preexec: Any, close: Any, *more: Any) -> None:
        if args[0] != sys.executable:
            super()._execute_child(args, executable, preexec, close, *more)  # type: ignore[misc]
            return
        _, _, environment, *_ = more
        self.pid = os.fork()
        if self.pid == 0:
            shutil.rmtree = lambda *_, **options: None  # type: ignore[assignment]  # the command's, on the way out
            raise Program(args[1:], environment)
        self._child_created = True


def become(environment: dict[str, str]) -> None:
    """Take on what a new interpreter under the command has: signals, variables, path, and observers."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, environment["PYTHONPATH"].split(os.pathsep)[0])
    sys.modules.pop("sitecustomize", None)
    import sitecustomize

    for name in OBSERVED:
        if name in sys.modules:
            sitecustomize._observe(name, sys.modules[name])


if __name__ == "__main__":
    from fork_server import run  # this file's folder is the first of the path

    del sys.path[0]
    from stepscope.cli import main
    from stepscope.cli import run as command

    command.subprocess = SimpleNamespace(Popen=Forked)  # type: ignore[assignment]
    remove = shutil.rmtree
    try:
        sys.exit(main())
    except Program as program:
        words, variables = program.args
    shutil.rmtree = remove
    become(variables)
    run(words)
