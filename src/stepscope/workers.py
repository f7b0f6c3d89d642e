"""Processes that do for another what it must not do itself: started with this package, asked by pipes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def start(module: str, *words: str, stderr: int | None = None, **variables: str) -> subprocess.Popen[bytes]:
    """Start a module of this package, which is asked and answers through pipes; Ctrl-C does not reach it.

    Args:
        module: Its name, as ``stepscope.trace.worker``.
        words: Its arguments.
        stderr: Where what it complains of goes; by default where this process' own does.
        variables: For its environment.

    Raises:
        OSError: No process can be had.
    """
    paths = [str(Path(__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(  # noqa: S603  this package, by this interpreter
        [sys.executable, "-m", module, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
        start_new_session=True,
    )


def end(process: subprocess.Popen[Any]) -> None:
    """End a process at once, and let go of what belongs to it."""
    process.kill()
    close_pipes(process)
    process.wait()


def close_pipes(process: subprocess.Popen[Any]) -> None:
    """Close this side of the pipes."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
