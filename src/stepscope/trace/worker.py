"""A process that reads foreign profiles for a server, which ends it if one takes too much.

It takes a line of JSON on stdin for each profile, ``{"path", "cache", "out", "kind"}``, writes the columns
to ``out`` and answers with a line: ``{}``, or ``{"error", "hint", "empty"}``. If ``"progress"`` is asked for,
lines ``{"read"}`` come before it: bytes of its files that were taken so far. It ends when stdin does.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace.bounds import limit_data
from stepscope.workers import die_first

TELL_SECS = 0.1
"""Shortest interval between progress messages."""


def main(argv: list[str]) -> int:
    """Read until there is nothing more to read; the argument is the bound of memory in bytes, 0 for none."""
    die_first()
    limit_data(int(argv[0]))
    # What a library prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
    return 0


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer one request after the other."""
    teller = Teller(answers)
    for line in requests:
        request = json.loads(line)
        with teller.progress() if request.get("progress") else contextlib.nullcontext():
            reply = answer(request)
        teller.tell(reply)


class Teller:
    """Writes lines of answers; lines of a thread that reads ahead come before the end or not at all."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers, self._lock = answers, threading.Lock()

    def tell(self, line: dict[str, Any]) -> None:
        """Write one line."""
        with self._lock:
            self._answers.write(json.dumps(line).encode() + b"\n")
            self._answers.flush()

    @contextlib.contextmanager
    def progress(self) -> Iterator[None]:
        """Report bytes that are read for as long as this is open."""
        from stepscope.trace.blocks import listening

        taken: dict[Path, int] = {}
        last, ended = time.monotonic(), False

        def told(path: Path, position: int) -> None:
            nonlocal last
            taken[path] = max(position, taken.get(path, 0))  # a look at its head begins anew
            now = time.monotonic()
            if now >= last + TELL_SECS and not ended:
                last = now
                self.tell({"read": sum(taken.values())})

        with listening(told):
            yield
        ended = True


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Read one profile and return the answer."""
    path = Path(os.fsdecode(bytes.fromhex(request["path"])))
    try:
        if request["kind"] == "tfprof":
            from stepscope.trace.tfprof import find_profile

            if (read := find_profile(path)) is not None:
                read()  # to see whether that can be done
        else:
            from stepscope.trace.cache import write
            from stepscope.trace.load import load_trace

            write(Path(request["out"]), load_trace(path, cache=request["cache"]), {})
    except TraceError as error:
        return {"error": error.message, "hint": error.hint, "empty": isinstance(error, EmptyTraceError)}
    except MemoryError:
        return {
            "error": "the profile takes more memory than may be used for it",
            "hint": "set STEPSCOPE_READ_BYTES to more, or record fewer steps",
            "empty": False,
        }
    return {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
