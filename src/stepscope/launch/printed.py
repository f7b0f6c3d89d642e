"""The lines that a program prints and logs, and the texts beside its bars: their values become series."""

from __future__ import annotations

import builtins
import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Any
from weakref import WeakSet

from stepscope.launch.lines import MAX_LINE, MAX_LINES, values_of
from stepscope.launch.plain import Told
from stepscope.launch.process import process
from stepscope.launch.sources import PRINTED
from stepscope.text import CONTROLS

BARS = ("write", "set_postfix_str", "set_description", "set_description_str")
"""Methods of tqdm's bars whose first argument is a text."""
_RECORD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime"))
"""Attributes of every record of ``logging``."""

_installed = False

told = Told({})
"""Takes the lines while no framework counts the steps."""


def install(late: ModuleType | None = None) -> None:
    """Look at the lines that the program prints and logs from now on, and at the texts beside its bars.

    Args:
        late: ``tqdm.std``, if the program has loaded it just now.
    """
    global _installed, told
    if _installed:
        if late is not None:
            watch_bars()
        return
    _installed = True
    original = builtins.print
    earlier = getattr(original, "stepscope", None)  # what looked at the lines while no framework was loaded
    if earlier is not None:
        original = earlier.bare
    told = getattr(earlier, "told", None) or Told(process.environ)

    @wraps(original)
    def print(*values: Any, **options: Any) -> None:  # noqa: A001  replaces the function of this name
        with telling:
            original(*values, **options)
        if wanted():
            take(lambda: " ".join(value if isinstance(value, str) else str(value) for value in values))

    builtins.print = print
    if earlier is not None:
        earlier.replace(print)  # for whoever has kept it
        # What is written to the streams in other ways it looks at until there is a run: it takes little time.
        earlier.told, earlier.take = told, take_written
        process.before.append(earlier.leave_streams)
    handle = logging.Logger.handle

    @wraps(handle)
    def handled(self: logging.Logger, record: logging.LogRecord) -> None:
        with telling:
            handle(self, record)
        if wanted() and record.levelno >= logging.INFO:
            take(record.getMessage)
            own = {name: value for name, value in vars(record).items() if name not in _RECORD}
            if own:  # given as ``extra``, which only the program's own format shows
                take(lambda: _postfix(own))

    logging.Logger.handle = handled  # type: ignore[method-assign]
    watch_bars()
    process.begins += [watch_bars, watch_streams]


class Telling(threading.local):
    """Whether this thread prints or logs now: values are taken from the call, where they have all digits."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


telling = Telling()
"""Of this process."""
_watching: WeakSet[Any] = WeakSet()
"""Functions that replace methods of bars."""
MAX_SHOWN = 256
"""Most names beside bars whose last value is remembered."""
_shown: dict[str, Any] = {}


def watch_streams() -> None:
    """Take the values in what is written to the standard streams in other ways, as by Loguru and Rich."""
    for stream in (sys.stdout,) if sys.stdout is sys.stderr else (sys.stdout, sys.stderr):
        with suppress(Exception):  # of a stream of the program's own, or none
            watch_stream(stream)


def watch_stream(stream: Any) -> None:
    """Take the values in what is written to a stream.

    Args:
        stream: Keeps its type; only its method ``write`` is another one.
    """
    original, last = stream.write, ""

    @wraps(original)
    def write(text: Any) -> Any:
        nonlocal last
        result = original(text)
        # A display that is drawn again tells nothing new.
        if not telling.depth and isinstance(text, str) and text != last and wanted():
            last = text
            take(lambda: text)
        return result

    stream.write = write


def watch_bars() -> None:
    """Take the values beside the bars of tqdm, if the program has loaded it; those for notebooks inherit."""
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    for name in BARS:
        _watch_bar(bar, name, _text)
    _watch_bar(bar, "set_postfix", _new_postfix)
    _watch_bar(bar, "display", None)


def _watch_bar(bar: Any, name: str, line: Callable[..., str] | None) -> None:
    attribute = vars(bar).get(name) if isinstance(bar, type) else None
    original = getattr(attribute, "__func__", attribute)
    if original is None or original in _watching:
        return

    @wraps(original)
    def watched(self: Any, *arguments: Any, **named: Any) -> Any:
        with telling:
            result = original(self, *arguments, **named)
        if line is not None and wanted():
            take(lambda: line(*arguments, **named))
        return result

    _watching.add(watched)
    setattr(bar, name, classmethod(watched) if isinstance(attribute, classmethod) else watched)


def _text(text: Any = "", *_: Any, s: Any = "", desc: Any = "", **__: Any) -> str:
    return str(text or s or desc or "")


def _new_postfix(ordered_dict: Any = None, refresh: Any = True, **named: Any) -> str:
    """Return those values that were not there before.

    The same object again is no new measurement, as the accuracy of the last evaluation beside each batch.
    """
    values = {**dict(ordered_dict or ()), **named}
    new = {name: value for name, value in values.items() if _shown.get(name) is not value}
    if len(_shown) > MAX_SHOWN:
        _shown.clear()
    # Others may keep memory of a device; small integers are one object whatever they count.
    _shown.update((name, value) for name, value in values.items() if isinstance(value, (float, str)))
    return _postfix(new)


def _postfix(ordered_dict: Any = None, refresh: Any = True, **named: Any) -> str:
    """Return the values in full; the bar shows three digits of each."""
    return ", ".join(f"{name}={value}" for name, value in {**dict(ordered_dict or ()), **named}.items())


def take_written(text: str) -> None:
    """Take the values in what is written to a standard stream before there is a run."""
    if not telling.depth and wanted():
        take(lambda: text)


def wanted() -> bool:
    """Return whether lines are looked at: no framework's callback gives their values."""
    return not process.led and not process.off


def take(text: Callable[[], str]) -> None:
    """Record the values in a text.

    Args:
        text: Returns it; may raise what the program's own objects raise.
    """
    try:
        whole = text()
        if not process.counted or told.leads:  # the program itself says of which step a value is
            for line in whole.splitlines()[:MAX_LINES]:
                told.line(line)
            return
        whole = CONTROLS.sub("", whole)
        values = values_of(whole)
        if not values and len(whole) <= MAX_LINES * MAX_LINE and whole.count("\n") <= MAX_LINES:
            lines = [values_of(line) or told.table.values_of(line) for line in whole.splitlines()]
            values = {name: value for line in lines for name, value in line.items()}
            for name in [name for name in values if sum(name in line for line in lines) > 1]:
                del values[name]  # nobody knows of which step each is
        process.record(PRINTED, told.rest_of(whole, values))
    except Exception:  # noqa: BLE001  the program's own objects
        return
