"""Messages as JSON, whatever texts they contain."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import msgspec

from stepscope.text import utf8

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


def _number(value: Any) -> Any:
    """Return a number of numpy, as analyses give them, as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} in a message")


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
