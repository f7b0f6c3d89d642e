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
    r"(?P<name>[A-Za-z][A-Za-z0-9_/]*)(?P<set> set)?(?P<more> (?i:loss|acc|accuracy|error|lr|reward))?[\"']?"
    r"(?:(?: (?:of|on|over|for) [^:=,;|]*)?\s*[:=]\s*| is |\s+)"
    r"(?P<value>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))(?:/(?P<whole>\d+))?(?P<end>\s?%)?(?![\w./])"
)
"""Such as ``train_loss: 0.3``, ``Test set accuracy 0.9``, ``Accuracy of the model on 100 images: 54 %``."""
ROLES = ("loss", "part_loss", "metric", "reward", LR := "learning_rate", "gradient_norm")
"""Roles of the names whose values are taken."""

_installed = False


def values_of(line: str) -> dict[str, float]:
    """Return the values of the metrics that a line names; nothing else in it is a value."""
    values: dict[str, float] = {}
    if len(line) > MAX_LINE or not any(sign.isdigit() for sign in line):
        return values
    for match in _PAIR.finditer(line):
        name = match["name"] + (match["more"] or "").replace(" ", "_")
        meaning = meaning_of(name)
        if meaning is not None and meaning.role in ROLES:
            whole = float(match["whole"] or 1)  # as of ``Accuracy: 778/1280``
            if whole:
                values[name] = float(match["value"]) / (100.0 if match["end"] else whole)
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
