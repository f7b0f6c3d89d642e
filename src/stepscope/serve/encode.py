"""Messages as JSON, whatever texts they contain."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import msgspec

from stepscope.text import utf8

if TYPE_CHECKING:
    from stepscope.serve.types import NonFinite

Row = TypeVar("Row")


def encoded(message: Any) -> bytes:
    """Return a message as JSON.

    Texts of others, such as names of files and of events, may hold lone surrogates, which JSON cannot
    represent: each becomes U+FFFD, and the rest of the message stays as it is.
    """
    try:
        return msgspec.json.encode(message, enc_hook=_number)
    except UnicodeEncodeError:
        return msgspec.json.encode(_sendable(message))


def number(value: float) -> float | NonFinite:
    """Return a number, or a word if JSON has no such number."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _number(value: Any) -> Any:
    """Return a number of numpy, as analyses give them, as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} in a message")


def projected(*results: type, without: Collection[str] = ()) -> Callable[[type[Row]], type[Row]]:
    """Make a class the message of results: it has their fields besides its own.

    Args:
        results: The dataclasses that an analysis returns. They declare the fields.
        without: Fields that are not sent.
    """

    def made(kind: type[Row]) -> type[Row]:
        own = inspect.get_annotations(kind)
        hints = {
            field.name: get_type_hints(result)[field.name]
            for result in results
            for field in dataclasses.fields(result)
            if field.name not in without
        }
        fields = {**hints, **own}
        message = dataclasses.make_dataclass(
            kind.__name__,
            fields.items(),
            namespace={"__doc__": kind.__doc__, "__module__": kind.__module__, "projects": results},
            frozen=True,
        )
        message.__module__ = kind.__module__
        return message

    return made


def projection(kind: type[Row], result: Any, **changed: Any) -> Row:
    """Return a result as its message; fields that the message declares itself are given by name."""
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: changed[name] if name in changed else getattr(result, name) for name in names})


def extended(kind: type[Row], row: Any, **more: Any) -> Row:
    """Return the result of an analysis as the message that has further fields."""
    return kind(**{field.name: getattr(row, field.name) for field in dataclasses.fields(row)}, **more)


def _sendable(value: Any) -> Any:
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        value = msgspec.to_builtins(value, enc_hook=_number)
    if isinstance(value, str):
        return utf8(value).decode()
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value
