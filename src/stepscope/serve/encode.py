"""Messages as JSON, whatever texts they contain."""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.scrub import utf8


def encoded(message: Any) -> bytes:
    """Return a message as JSON.

    Texts of others, such as names of files and of events, may hold lone surrogates, which JSON cannot
    represent: each becomes U+FFFD, and the rest of the message stays as it is.
    """
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(_sendable(message))


def _sendable(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, str):
        return utf8(value).decode()
    if isinstance(value, dict):
        return {_sendable(key): _sendable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sendable(item) for item in value]
    return value
