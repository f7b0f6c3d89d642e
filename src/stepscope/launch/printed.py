"""Values in the lines that a program prints or logs, such as ``step 100 loss 0.34``."""

from __future__ import annotations

import builtins
import logging
import re
from functools import wraps
from typing import Any

from stepscope.launch.process import process
from stepscope.names.roles import meaning_of

MAX_LINE = 400
"""Characters of a line in which values are looked for."""
_PAIR = re.compile(
    r"(?P<name>[A-Za-z][A-Za-z0-9_/]*(?: (?:loss|acc|accuracy|lr))?)[\"']?\s*(?:[:=]|\s)\s*"
    r"(?P<value>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))(?P<end>%?)(?![\w.])"
)
ROLES = ("loss", "part_loss", "metric", LR := "learning_rate", "gradient_norm")
"""Roles of the names whose values are taken."""

_installed = False


def values_of(line: str) -> dict[str, float]:
    """Return the values of the metrics that a line names; nothing else in it is a value."""
    values: dict[str, float] = {}
    if len(line) > MAX_LINE or not any(sign.isdigit() for sign in line):
        return values
    for match in _PAIR.finditer(line):
        name = match["name"].strip().replace(" ", "_")
        meaning = meaning_of(name)
        if meaning is not None and meaning.role in ROLES:
            values[name] = float(match["value"]) / (100.0 if match["end"] else 1.0)
    return values


def install() -> None:
    """Look at what the program prints and logs from now on."""
    global _installed
    if _installed:
        return
    _installed = True
    original = builtins.print

    @wraps(original)
    def print(*values: Any, **options: Any) -> None:  # noqa: A001  replaces the function of this name
        original(*values, **options)
        if process.opened is not None and not process.led:
            _take(" ".join(value if isinstance(value, str) else str(value) for value in values))

    builtins.print = print
    handle = logging.Logger.handle

    @wraps(handle)
    def handled(self: logging.Logger, record: logging.LogRecord) -> None:
        handle(self, record)
        if process.opened is not None and not process.led and record.levelno >= logging.INFO:
            _take(record.getMessage())

    logging.Logger.handle = handled  # type: ignore[method-assign]


def _take(line: str) -> None:
    try:
        process.record(values_of(line))
    except Exception:  # noqa: BLE001  the program's own objects
        return
