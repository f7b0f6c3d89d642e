"""The end of a server together with the program that started it.

A program may end without a word: by ``os._exit``, by SIGKILL, or by becoming another one through ``exec``.
The kernel says so in two ways. Standard input is a pipe whose other end the program holds: it ends with the
program, and on ``exec``, but not while a fork of the program holds the pipe too. And the process that started
this one is watched itself.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress

GRACE_S = 5.0
"""Seconds for an orderly end."""
LOOK_EVERY_S = 1.0
"""How often to look for the starter if the kernel cannot tell when a process ends."""


def end_with_starter(end: Callable[[], None]) -> None:
    """From now on end this process when the one that started it has ended or has closed standard input.

    Args:
        end: Asks for an orderly end, from another thread. It has ``GRACE_S`` for that.
    """
    starter = os.getppid()
    threading.Thread(target=_watch, args=(starter, end), name="stepscope-attached", daemon=True).start()


def _watch(starter: int, end: Callable[[], None]) -> None:
    watched = [0]
    with suppress(OSError, AttributeError):  # an old kernel, or none that has it
        watched.append(os.pidfd_open(starter))
    ended = False
    while not ended and os.getppid() == starter:
        ended = _ended(watched)
    end()
    time.sleep(GRACE_S)  # the process ends meanwhile
    os._exit(0)


def _ended(watched: list[int]) -> bool:
    """Wait a moment, and return whether the starter has ended or has closed standard input."""
    try:
        ready = select.select(watched, [], [], LOOK_EVERY_S)[0]
        return any(number != 0 for number in ready) or (bool(ready) and not os.read(0, 4096))
    except (OSError, ValueError):  # standard input is none that can be waited for
        if 0 in watched:
            watched.remove(0)
        else:
            time.sleep(LOOK_EVERY_S)
        return False
