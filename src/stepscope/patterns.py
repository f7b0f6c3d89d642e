"""Regular expressions from users, matched in time linear in the text, whatever the expression.

Python's own engine takes time exponential in the text for some expressions and cannot be interrupted: one
such expression in a request would stop a server for good. RE2 never takes that long; in return it supports
neither look-around nor references to earlier groups.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

from stepscope.errors import UsageError

MAX_MEMORY_BYTES = 8 << 20
"""The memory that one compiled expression may take."""


class Pattern(Protocol):
    """The part of a compiled expression's interface that is used."""

    def search(self, text: str) -> Any:
        """Find the expression anywhere in a text."""

    def fullmatch(self, text: str) -> Any:
        """Match the whole text."""


class _Tolerant:
    """Accepts names with bytes that are not text, as recordings may contain."""

    def __init__(self, pattern: Any) -> None:
        self._pattern = pattern

    def search(self, text: str) -> Any:
        return self._pattern.search(_plain(text))

    def fullmatch(self, text: str) -> Any:
        return self._pattern.fullmatch(_plain(text))


@lru_cache(maxsize=256)
def compile_pattern(text: str, what: str) -> Pattern:
    """Compile an expression in RE2's syntax.

    Args:
        text: The expression.
        what: Its purpose, as errors name it, such as ``tags``.

    Raises:
        UsageError: It is not one, uses syntax that RE2 does not support, or would take too much memory.
    """
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_MEMORY_BYTES
    try:
        return _Tolerant(re2.compile(_plain(text), options))
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else ""
        raise UsageError(
            f"not a regular expression: {what}={text!r}: {reason}", hint=_hint(text, reason)
        ) from None


def _hint(text: str, reason: str) -> str:
    if text[:1] in "*+?":
        return f"an expression is not a pattern of file names: use {'.' + text!r}, not {text!r}"
    if "perl operator" in reason or "escape sequence" in reason:
        return (
            "look-around and references to groups are not supported, because their time has no bound (RE2's "
            "syntax)"
        )
    return f"to match it literally, write: {escape(text)!r}"


def escape(text: str) -> str:
    """Return the expression that matches a text literally."""
    import re2

    return str(re2.escape(_plain(text)))


def _plain(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
