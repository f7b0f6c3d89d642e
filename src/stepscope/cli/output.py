"""The output of a command: text for people or JSON, columns, colours, and no foreign control characters."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from stepscope.errors import LogDirectoryError
from stepscope.text import terminal_json, terminal_line, terminal_text
from stepscope.urls import shown

if TYPE_CHECKING:
    from stepscope.reading import Problem

_COLOURS = {
    **dict.fromkeys(("high", "failed"), "1;31"),
    **dict.fromkeys(("medium", "stalled", "stopped"), "33"),
    **dict.fromkeys(("low", "running"), "36"),
    "finished": "32",
    **dict.fromkeys(("info", "ended"), "2"),
}
"""Codes of severities and of states of a run; both are also told in words."""
_PAINTED = re.compile(
    r"^(?P<severity>high|medium|low|info)(?=[: ])"
    r"|(?<=  )(?P<state>failed|stalled|stopped|running|finished|ended)(?=  )"
    r"|^ {7}(?P<label>do|see|costs|because|evidence|threshold|withdrawn when)(?=: )"
    r"|^(?P<head>[A-Z]{3,}(?: +[A-Z]+)+)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Output:
    """The answer of a command.

    Attributes:
        text: For people.
        data: The same as JSON types.
        notes: For people too, but not part of the data: they go to stderr.
    """

    text: str
    data: Any = None
    notes: tuple[str, ...] = ()


def put(output: Output, *, as_json: bool) -> None:
    """Print the answer of a command: data to stdout, notes to stderr."""
    if as_json:
        print(json_text(output.data))
    else:
        # Names may hold bytes that are not text; they leave as they came.
        sys.stdout.flush()
        sys.stdout.buffer.write(painted(terminal_text(output.text)).encode("utf-8", "surrogateescape"))
        sys.stdout.flush()
    for note in output.notes:
        complain(note)


def json_text(data: Any, **options: Any) -> str:
    """Return data as JSON that is safe for a terminal: control characters are escaped as in JSON.

    Args:
        data: JSON types.
        options: For ``json.dumps``.
    """
    text = json.dumps(data, ensure_ascii=False, default=list, **options)
    return terminal_json(text)


def has_colours(stream: IO[str]) -> bool:
    """Return whether a stream is a terminal that shows colours, and nobody has asked for none."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str) -> str:
    """Return a text for standard output with its severities, states, labels and heads in colour."""
    return _PAINTED.sub(_coloured, text) if has_colours(sys.stdout) else text


def _coloured(match: re.Match[str]) -> str:
    code = {"label": "1", "head": "2"}.get(match.lastgroup or "") or _COLOURS[match[0]]
    return f"\x1b[{code}m{match[0]}\x1b[0m"


def say(text: object) -> None:
    """Print lines that may contain foreign names."""
    print(painted("\n".join(map(terminal_line, str(text).split("\n")))))


def complain(text: object) -> None:
    """Print such lines to stderr."""
    print("\n".join(map(terminal_line, str(text).split("\n"))), file=sys.stderr)


def aligned(rows: list[list[str]], *, right: set[int]) -> str:
    """Return rows as columns two spaces apart, some of them flush right."""
    rows = [[terminal_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: list[str]) -> str:
        cells = enumerate(zip(row, widths, strict=True))
        return "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width) for at, (cell, width) in cells
        )

    return "\n".join(line(row).rstrip() for row in rows)


def not_readable(failure: str, problem: Problem, path: str) -> LogDirectoryError:
    """Return the error for an answer that lacks all that could not be read."""
    return LogDirectoryError(
        f"{failure}: {problem.text}",
        hint="check permissions and credentials, and try again; what was read is kept",
        path=problem.file or shown(path),
    )
