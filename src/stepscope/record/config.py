"""Arguments of a run, checked before training begins, and its configuration as plain data."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from types import SimpleNamespace
from typing import Any, TypeVar

from stepscope.errors import UsageError
from stepscope.names.settings import flatten
from stepscope.record.problems import RefusalError, shown
from stepscope.record.values import as_step
from stepscope.text import SCRUBBED, counted, is_secret, scrub_text
from stepscope.urls import is_url, local_path

T = TypeVar("T")


def directory(log_dir: object) -> str:
    """Return the absolute path of a run's directory, or its URL as it is.

    Raises:
        UsageError: No path.
    """
    if not isinstance(log_dir, str | os.PathLike) or not os.fspath(log_dir):
        raise UsageError(
            f"log_dir must be a path, got {shown(log_dir)}",
            hint="give each run its own directory, as in Run('runs/first')",
        )
    path = local_path(log_dir)
    if "\0" in str(path) or not _encodes(str(path)):
        raise UsageError(
            f"log_dir must be a path, got {shown(str(path))}: no file can have such a name",
            hint="name a directory of its own for each run, as in Run('runs/first')",
        )
    try:
        return path if is_url(path) else os.path.abspath(path)  # noqa: PTH100  links unresolved
    except FileNotFoundError:
        raise UsageError(
            f"log_dir is relative, got {shown(str(path))}, to a working directory that was deleted",
            hint="pass an absolute path, or start where a directory is",
        ) from None


def _encodes(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def parent_from(place: str, parent: object) -> str | None:
    """Return the parent of a run as the run records it, so that both can be moved together.

    Args:
        place: The run's directory or URL.
        parent: A ``Run``, its directory or URL, or its name.

    Returns:
        A path from the run's directory, beginning with a dot; or the name as given; None for no parent.

    Raises:
        UsageError: None of these, or the run itself.
    """
    if parent is None:
        return None
    path = getattr(parent, "url", None) or getattr(parent, "log_dir", None) or parent
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise UsageError(
            f"parent must be a Run, its directory or its name, got {shown(parent)}",
            hint="pass the Run itself, or the directory that it records into",
        )
    text = os.fspath(path)
    is_path = path is not parent or isinstance(path, os.PathLike) or is_url(text) or os.path.isdir(text)  # noqa: PTH112
    if not is_path and not os.path.isabs(text) and not text.startswith("."):  # noqa: PTH117
        return text
    whole = directory(path)
    if is_url(whole) != is_url(place):
        return whole.rstrip("/").replace(os.sep, "/").rpartition("/")[2]
    relative = os.path.relpath(whole, place).replace(os.sep, "/")
    if relative == ".":
        raise UsageError("a run cannot be its own parent", hint="give each run a directory of its own")
    return relative if relative.startswith(".") else f"./{relative}"


def labels(tags: object) -> list[str]:
    """Return the labels of a run."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise UsageError(
            f"tags must be a list of strings, got {type(tags).__name__}", hint="tags=['baseline', 'fp16']"
        )
    labels = list(tags)
    for label in labels:
        if not isinstance(label, str):
            raise UsageError(f"tags must be strings, got {shown(label)}", hint="tags=['baseline']")
    return labels


def word(name: str, value: T, *known: T, hint: str) -> T:
    """Return an argument that is one of a few words."""
    if value not in known:
        *first, last = map(repr, known)
        raise UsageError(f"{name} must be {', '.join(first)} or {last}, got {shown(value)}", hint=hint)
    return value


def check_either(hint: str, **given: object) -> None:
    """Refuse two arguments of which not exactly one is given."""
    count = sum(value is not None for value in given.values())
    if count != 1:
        got = "both" if count else "neither"
        raise UsageError(f"give either {' or '.join(given)}, got {got}", hint=hint)


def integer(name: str, value: Any) -> int:
    """Return an argument as an integer, 0 or more."""
    try:
        number = -1 if isinstance(value, bool) else as_step(value)
    except RefusalError:
        number = -1
    if not isinstance(number, int) or number < 0:
        raise UsageError(f"{name} must be an integer, 0 or more, got {shown(value)}", hint=f"{name}=0, say")
    return number


def positive(name: str, value: Any) -> int | None:
    """Return an argument as an integer, 1 or more; None stays None."""
    if value is None:
        return None
    if integer(name, value) == 0:
        raise UsageError(f"{name} must be 1 or more, got 0", hint=f"leave {name} out where it is not known")
    return int(value)


def share(name: str, value: Any) -> float:
    """Return an argument as a number above 0, up to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise UsageError(f"{name} must be above 0 and at most 1, got {shown(value)}", hint=f"{name}=0.5, say")
    return float(value)


def seconds(name: str, value: Any) -> float:
    """Return an argument as seconds, more than 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise UsageError(
            f"{name} must be a number of seconds above 0, got {shown(value)}", hint=f"{name}=1.0"
        )
    return float(value)


_ARRAYS = ("numpy", "torch", "jax", "jaxlib")
MAX_DEPTH = 8
MAX_ITEMS = 1_000
MAX_TEXT = 1_000
MAX_BITS = 1_024
"""Longest integer that is printed in full; Python refuses to print much longer ones."""

Plain = dict[str, Any]
"""Nested dicts and lists of text, int, float, bool and None."""


def plain(config: object) -> Plain:
    """Turn a mapping, dataclass or namespace into plain data without secrets.

    Values that JSON has no word for become their ``repr``; long texts and collections are cut, saying so.
    """
    settings = _plain(config, 0)
    return settings if isinstance(settings, dict) else {"config": settings}


def flat(config: Mapping[str, Any]) -> dict[str, str | float | bool]:
    """Flatten nested configuration into values of the kinds that hparams know; None is left out."""
    settings: dict[str, str | float | bool] = {}
    for name, value in flatten(config).items():
        if isinstance(value, bool | str | float):
            settings[name] = value
        elif isinstance(value, int):
            settings[name] = float(value) if abs(value) <= 2**53 else str(value)
        elif value is not None:
            settings[name] = str(value)
    return settings


def _plain(value: object, depth: int) -> Any:
    try:
        return _data(value, depth)
    except Exception as error:  # noqa: BLE001  any code may stand behind a mapping, and a config never stops a training
        return f"<{type(value).__qualname__} that raised {type(error).__name__}>"


def _data(value: object, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return (
            int(value) if int(value).bit_length() <= MAX_BITS else f"an integer of {value.bit_length()} bits"
        )
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, str):
        return _text(value)
    if depth < MAX_DEPTH:
        fields = _fields(value)
        if fields is not None:
            return _mapping(fields, depth)
        if isinstance(value, Sequence | Set) and not isinstance(value, bytes | bytearray | memoryview):
            return _sequence(value, depth)
    return _number(value)


def _fields(value: object) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    if isinstance(value, argparse.Namespace | SimpleNamespace):
        return vars(value)
    return None


def _mapping(value: Mapping[Any, Any], depth: int) -> Plain:
    items: Plain = {}
    for key, item in list(value.items())[:MAX_ITEMS]:
        name = _text(key if type(key) is str else _key(key))
        hide = isinstance(item, str | bytes) and item and is_secret(name)
        items[name] = SCRUBBED if hide else _plain(item, depth + 1)
    if len(value) > MAX_ITEMS:
        items["…"] = f"{len(value) - MAX_ITEMS} more"
    return items


def _key(key: object) -> str:
    try:
        return str(key)
    except Exception:  # noqa: BLE001  as above
        return f"<{type(key).__qualname__}>"


def _sequence(value: Sequence[Any] | Set[Any], depth: int) -> list[Any]:
    items = [_plain(item, depth + 1) for item in list(value)[:MAX_ITEMS]]
    if len(value) > MAX_ITEMS:
        items.append(f"… {len(value) - MAX_ITEMS} more")
    return items


def _number(value: object) -> Any:
    """Arrays and tensors of one element are numbers; everything else is its ``repr``."""
    item, shape = getattr(value, "item", None), getattr(value, "shape", None)
    if type(value).__module__.partition(".")[0] in _ARRAYS and callable(item) and shape is not None:
        with contextlib.suppress(
            Exception
        ):  # more than one element, or code of a framework that has no value
            number = item() if math.prod(shape) == 1 else None
            if isinstance(number, bool | int | float | str):
                return _plain(number, MAX_DEPTH)
    return _text(_words(value))


def _words(value: object) -> str:
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"{value.__module__}.{value.__qualname__}"
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  any code may stand behind a repr, and a config never stops a training
        return f"<{type(value).__qualname__} whose repr raised {type(error).__name__}>"


def _text(text: str) -> str:
    text = scrub_text(text).encode("utf-8", "replace").decode()
    return (
        text
        if len(text) <= MAX_TEXT
        else f"{text[:MAX_TEXT]}… {counted(len(text) - MAX_TEXT, 'more character')}"
    )


def scrub_command(words: Sequence[str]) -> str:
    """Return a command line as one text, quoted for a shell, without the values of secret options."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        name, equals, value = word.partition("=")
        if hide_next and not word.startswith("-"):
            shown.append(SCRUBBED)
        elif equals and value and is_secret(name):
            shown.append(f"{name}={SCRUBBED}")
        else:
            shown.append(shlex.quote(scrub_text(word)))
        hide_next = word.startswith("-") and not equals and is_secret(word)
    return " ".join(shown)
