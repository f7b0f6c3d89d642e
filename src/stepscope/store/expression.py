"""Expressions over tags, such as ``loss - eval/loss``: the text is parsed into a tree, nothing is computed.

::

    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("-" | "+") factor | power
    power    = atom ["**" factor]
    atom     = number | name | "quoted name" | function "(" sum {"," sum} ")" | "(" sum ")"

A slash, dot, colon or @ between two letters, digits or underscores belongs to a name: ``eval/loss`` is a
tag and ``loss / 2`` a division. Quotes hold any other name. Nothing is ever passed to
Python's own evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from stepscope.errors import ExpressionError
from stepscope.store.nearest import hint_nearest
from stepscope.tokens import ARITHMETIC, Token, TokenReader

MOST_CHARACTERS = 1000
MOST_NESTED = 40
AXES = ("step", "elapsed")
"""Unquoted names that stand for the place of a point: its step, and seconds since the run began."""
FUNCTIONS: dict[str, tuple[int, int | None, str]] = {
    "abs": (1, 1, "abs(x)"),
    "sqrt": (1, 1, "sqrt(x)"),
    "exp": (1, 1, "exp(x)"),
    "log": (1, 1, "log(x), the natural logarithm"),
    "log10": (1, 1, "log10(x)"),
    "min": (2, None, "min(x, y, …)"),
    "max": (2, None, "max(x, y, …)"),
    "ema": (2, 2, "ema(x, weight), weight of the past below 1"),
    "mean": (2, 2, "mean(x, points), over the last so many points"),
    "diff": (1, 1, "diff(x), from one point to the next"),
    "rate": (1, 1, "rate(x), change per step"),
    "per_second": (1, 1, "per_second(x), change per second"),
    "cumsum": (1, 1, "cumsum(x), the sum of all points so far"),
    "hold": (1, 1, "hold(x), the newest value at or before each step"),
}
"""Fewest and most arguments, and how it is written."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written."""

    value: float


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of the run, or one of ``AXES`` where it is not quoted."""

    name: str
    quoted: bool
    start: int
    end: int

    @property
    def axis(self) -> bool:
        """True if it stands for the place of a point and is not a tag."""
        return not self.quoted and self.name in AXES


@dataclass(frozen=True, slots=True)
class Call:
    """A function, or an operator under its sign."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | Tag | Call


@lru_cache(maxsize=256)
def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises:
        ExpressionError: It is not an expression; the error has the place of the first wrong part.
    """
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(
            f"expression of {len(text)} characters: at most {MOST_CHARACTERS}",
            start=MOST_CHARACTERS,
            end=len(text),
            hint="make two charts of it",
        )
    reader = _Parser(text, ARITHMETIC)
    node = reader.sum()
    reader.expect("end", "an operator or the end")
    if not tags_of(node):
        raise ExpressionError("no tag in the expression", hint="name one: loss", start=0, end=len(text))
    return node


def tags_of(node: Node) -> list[Tag]:
    """Return the tags that an expression names, axes left out, in the order of the text."""
    if isinstance(node, Tag):
        return [] if node.axis else [node]
    if isinstance(node, Call):
        return [tag for argument in node.arguments for tag in tags_of(argument)]
    return []


class _Parser(TokenReader):
    """One method per rule of the grammar."""

    def expect(self, what: str, described: str) -> Token:
        token = self.next
        if what not in (token.kind, token.text):
            raise _unexpected(token, described)
        return self.take() if token.kind != "end" else token

    def sum(self) -> Node:
        return self._chain(("+", "-"), self.product)

    def product(self) -> Node:
        return self._chain(("*", "/"), self.factor)

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        node = part()
        while self.has(*signs):
            node = Call(self.take().text, (node, part()))
        return node

    def factor(self) -> Node:
        self._enter()
        if self.has("-", "+"):
            sign, argument = self.take().text, self.factor()
            node: Node = Call("negative", (argument,)) if sign == "-" else argument
        else:
            node = self.power()
        self.depth -= 1
        return node

    def power(self) -> Node:
        base = self.atom()
        if self.next.text == "**":
            self.take()
            return Call("**", (base, self.factor()))
        return base

    def atom(self) -> Node:
        token = self.next
        if token.kind == "number":
            return Number(float(self.take().text))
        if token.kind == "quoted":
            self.take()
            return Tag(token.tag, True, token.start, token.end)
        if token.kind == "name":
            self.take()
            return (
                self._call(token) if self.next.text == "(" else Tag(token.text, False, token.start, token.end)
            )
        if token.text == "(":
            self.take()
            node = self.sum()
            self.expect(")", "an operator or )")
            return node
        raise _unexpected(token, "a tag, a number or (")

    def _call(self, name: Token) -> Node:
        if name.text not in FUNCTIONS:
            hint = hint_nearest(name.text, sorted(FUNCTIONS), "functions")
            raise ExpressionError(f"no function {name.text!r}", hint=hint, start=name.start, end=name.end)
        self.take()
        arguments = [self.sum()] if self.next.text != ")" else []
        while self.next.text == ",":
            self.take()
            arguments.append(self.sum())
        end = self.expect(")", "a comma or )")
        fewest, most, written = FUNCTIONS[name.text]
        if len(arguments) < fewest or (most is not None and len(arguments) > most):
            raise ExpressionError(
                f"{name.text} with {len(arguments)} arguments",
                hint=f"it is written {written}",
                start=name.start,
                end=end.end,
            )
        return Call(name.text, tuple(arguments))

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > MOST_NESTED:
            token = self.next
            raise ExpressionError(
                f"more than {MOST_NESTED} nested parts",
                start=token.start,
                end=token.end,
                hint="take it apart into two charts",
            )


def _unexpected(token: Token, described: str) -> ExpressionError:
    found = "the end" if token.kind == "end" else repr(token.text)
    hint = ""
    if token.kind in ("name", "quoted", "number"):
        hint = "write an operator between two values, and a tag with spaces or signs in quotes"
    return ExpressionError(
        f"expected {described}, found {found}", hint=hint, start=token.start, end=token.end
    )
