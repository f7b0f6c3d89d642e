"""The last lines that this process has written to its standard streams, for a run that fails."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stepscope.text import CONTROLS, scrub_text

LINES = 50
"""The lines that are recorded, the last ones."""
MAX_LINE = 400
"""Characters of each of them."""
WRITES = 1_000
"""Writes that are remembered: ``print`` makes two of a line, a bar one of each of its pictures."""
LONGEST = LINES * MAX_LINE
"""Characters that are remembered of one write, the last ones."""


class Console:
    """Remembers what is written to ``sys.stdout`` and ``sys.stderr`` while runs record.

    The streams keep their types; only their method ``write`` is another one, and calls the original. What
    other programs and C libraries write does not pass through them.
    """

    def __init__(self) -> None:
        self._written: deque[tuple[int, str]] = deque(maxlen=WRITES)
        self._watched: list[tuple[Any, Callable[[str], Any], Any]] = []

    def watch(self) -> None:
        """Remember from now on."""
        if not self._watched:
            self._written.clear()
            for stream in {id(stream): stream for stream in (sys.stdout, sys.stderr)}.values():
                with suppress(Exception):  # none, or one of the program's own that refuses
                    self._watch(stream)

    def leave(self) -> None:
        """Remember no longer."""
        for stream, write, earlier in self._watched:
            # Another may have replaced the method since, and goes on to call this one.
            if vars(stream).get("write") is write:
                with suppress(Exception):
                    del stream.write  # the method of its class is left
                    if earlier is not None:
                        stream.write = earlier
        self._watched.clear()

    def last(self) -> str:
        """Return the last lines as a terminal shows them, without secrets; of a bar its last picture."""
        lines: list[str] = []
        unfinished: dict[int, str] = {}
        for stream, text in self._written.copy():
            *ended, rest = (unfinished.get(stream, "") + text).split("\n")
            lines += ended
            unfinished[stream] = rest[-LONGEST:]
        shown = (
            CONTROLS.sub("", line).rstrip().rpartition("\r")[2] for line in [*lines, *unfinished.values()]
        )
        last = [line for line in shown if line.strip()][-LINES:]
        return "\n".join(
            scrub_text(line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} …") for line in last
        )

    def _watch(self, stream: Any) -> None:
        original, remember, number = stream.write, self._written.append, len(self._watched)

        def write(text: Any) -> Any:
            written = original(text)
            if self._watched and isinstance(text, str):
                remember((number, text if len(text) <= LONGEST else text[-LONGEST:]))
            return written

        earlier = vars(stream).get("write")
        stream.write = write
        self._watched.append((stream, write, earlier))


console = Console()
"""Of this process."""
