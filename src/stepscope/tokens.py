"""Tokens of expressions over tags, for users' own rules and for derived series.

A slash, dot, colon or @ between two letters, digits or underscores belongs to a name: ``eval/loss`` is a tag
and ``loss / 2`` a division. Quotes hold any other name; a backslash in them escapes the next character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from stepscope.errors import ExpressionError

NAME = r"[^\W\d]\w*(?:[./:@]\w+)*"
ARITHMETIC = ("**", "+", "-", "*", "/", "(", ")", ",")
CONDITIONS = ("<=", ">=", "==", "!=", "+", "-", "*", "/", "(", ")", ",", "<", ">")


class Token(NamedTuple):
    """A piece of the text: a ``number``, ``name``, ``quoted`` name or ``sign``, or the final ``end``."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def tag(self) -> str:
        """The tag that a name, quoted or not, stands for."""
        return re.sub(r"\\(.)", r"\1", self.text[1:-1]) if self.kind == "quoted" else self.text


def tokens(text: str, signs: tuple[str, ...]) -> Iterator[Token]:
    """Yield the pieces of a text and, behind the last, one of kind ``end``.

    Args:
        text: The expression.
        signs: The signs that may occur; one that is the beginning of another comes after it.

    Raises:
        ExpressionError: Something is none of these; with its place.
    """
    at, pattern = 0, _pattern(signs)
    while text[at:].strip():
        match = pattern.match(text, at)
        if match is None:
            raise _unreadable(text, len(text) - len(text[at:].lstrip()))
        kind = match.lastgroup or ""
        yield Token(kind, match[kind], match.start(kind), match.end(kind))
        at = match.end()
    yield Token("end", "", len(text), len(text))


class TokenReader:
    """Reads the pieces of a text from the left; a grammar adds one method per rule.

    Args:
        text: The expression.
        signs: The signs that may occur.

    Attributes:
        depth: How many rules that hold each other are being read.

    Raises:
        ExpressionError: As ``tokens`` does.
    """

    def __init__(self, text: str, signs: tuple[str, ...]) -> None:
        self._tokens = list(tokens(text, signs))
        self._at = self.depth = 0

    @property
    def next(self) -> Token:
        """The piece that is read next."""
        return self._tokens[self._at]

    def take(self) -> Token:
        """Return the next piece and go on to the one after it."""
        self._at += 1
        return self._tokens[self._at - 1]

    def has(self, *texts: str) -> bool:
        """Return whether the next piece is one of these signs or words; a quoted name is neither."""
        return self.next.kind in ("name", "sign") and self.next.text in texts


def is_name(text: str) -> bool:
    """Return whether a tag may be written without quotes."""
    return re.fullmatch(NAME, text) is not None


@lru_cache
def _pattern(signs: tuple[str, ...]) -> re.Pattern[str]:
    either = "|".join(re.escape(sign) for sign in signs)
    return re.compile(
        r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))"
        rf'|(?P<name>{NAME})|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<sign>{either}))'
    )


def _unreadable(text: str, start: int) -> ExpressionError:
    if text[start] == '"':
        return ExpressionError(
            "quotes that do not end", hint='close the quotes: "grad-norm"', start=start, end=len(text)
        )
    word = re.match(r"\w+", text[start:])
    end = start + (word.end() if word else 1)
    hint = 'put a tag with such characters in quotes: "1st/loss"'
    return ExpressionError(f"unexpected {text[start:end]!r}", hint=hint, start=start, end=end)
