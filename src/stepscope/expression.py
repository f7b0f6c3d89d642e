"""Expressions over tags, as ``ema(train/loss, 50) > 2 * min(train/loss)``: one grammar for alerts and charts.

::

    either   = both {"or" both}
    both     = not {"and" not}
    not      = "not" not | compared
    compared = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("-" | "+") factor | power
    power    = atom ["**" factor]
    atom     = number | name | "quoted name" | function "(" sum {"," sum} ")" | "(" either ")"

A slash, dot, colon or @ between two letters, digits or underscores belongs to a name: ``eval/loss`` is a tag
and ``loss / 2`` a division. Quotes hold any other name; a backslash in them escapes the next character. A
text is parsed into a tree here and nothing is computed: ``health.conditions`` follows a tree point by point,
``store.evaluate`` computes whole columns. Nothing is passed to Python's own evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from stepscope.errors import ExpressionError

MAX_CHARACTERS = 1000
MAX_DEPTH = 40
MAX_POINTS = 100_000
"""Most points that one window of an alert holds."""
AXES = ("step", "elapsed")
"""Unquoted names that stand for the place of a point: its step, and seconds since the run began."""
ALL_POINTS = 0
WINDOWS: dict[str, tuple[int | None, bool, str]] = {
    # Points if none are given (None: they must be), whether they can be given, and how it is written.
    "ema": (None, True, "ema(x, n): exponential mean with weight 2 / (n + 1), corrected for its start"),
    "mean": (None, True, "mean(x, n): of the last n points"),
    "median": (None, True, "median(x, n): of the last n points"),
    "std": (None, True, "std(x, n): standard deviation of the last n points, by n - 1"),
    "min": (ALL_POINTS, True, "min(x): of all points so far; min(x, n): of the last n"),
    "max": (ALL_POINTS, True, "max(x): of all points so far; max(x, n): of the last n"),
    "slope": (None, True, "slope(x, n): of the line through the last n points, per step"),
    "delta": (
        1,
        True,
        "delta(x, n): the last point less the one n points before; delta(x): less the one before",
    ),
    "last": (ALL_POINTS, True, "last(x, n): the value n points ago; last(x): the newest"),
    "rate": (1, False, "rate(x): change from the point before, per step"),
    "per_second": (1, False, "per_second(x): change from the point before, per second"),
    "cumsum": (ALL_POINTS, False, "cumsum(x): sum of all points so far"),
    "count": (ALL_POINTS, False, "count(x): points so far"),
    "at": (None, True, "at(n, x): the value at step n or the newest before it, once x has come that far"),
}
"""Functions of a series along its points."""
AT = "at"
"""The window whose number is a step; it is written first."""
MAX_STEP = 2**53
LOOKS_BACK = ("delta", "last", "rate", "per_second")
"""Windows that need one point more than they name."""
POINTWISE: dict[str, tuple[int, int | None, str]] = {
    "abs": (1, 1, "abs(x)"),
    "sqrt": (1, 1, "sqrt(x)"),
    "exp": (1, 1, "exp(x)"),
    "log": (1, 1, "log(x), the natural logarithm"),
    "log10": (1, 1, "log10(x)"),
    "least": (2, None, "least(x, y, …), of the values at a step"),
    "greatest": (2, None, "greatest(x, y, …), of the values at a step"),
    "hold": (1, 1, "hold(x), the newest value at or before each step"),
}
"""Functions of the values at one step: fewest and most arguments, and how it is written."""
COMPARED = ("<=", ">=", "==", "!=", "<", ">")
JOINED = ("and", "or", "not")
SIGNS = ("**", *COMPARED, "+", "-", "*", "/", "(", ")", ",")
NAME = r"[^\W\d]\w*(?:[./:@]\w+)*"


# --- the tree -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written."""

    value: float


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of the run, or one of ``AXES`` if it is not quoted."""

    name: str
    quoted: bool = False
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    @property
    def axis(self) -> bool:
        """True if it stands for the place of a point and is no tag."""
        return not self.quoted and self.name in AXES

    def __str__(self) -> str:
        plain = re.fullmatch(NAME, self.name) and self.name not in AXES + JOINED
        return self.name if plain or self.axis else '"' + re.sub(r'(["\\])', r"\\\1", self.name) + '"'


@dataclass(frozen=True, slots=True)
class Window:
    """A function of a series along its points.

    Attributes:
        points: How many; ``ALL_POINTS`` for all so far. Of ``at`` the step.
    """

    name: str
    argument: Node
    points: int

    @property
    def needed(self) -> int:
        """The number of points from which on its value is known."""
        if self.name == AT:
            return 1
        return self.points + 1 if self.name in LOOKS_BACK else max(self.points, 1)

    def __str__(self) -> str:
        inner = self.argument if isinstance(self.argument, Tag) else "…"
        if self.name == AT:
            return f"{AT}({self.points}, {inner})"
        return f"{self.name}({inner}, {self.points})" if self.points else f"{self.name}({inner})"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values at one step, or an operator under its sign."""

    name: str
    arguments: tuple[Node, ...]

    @property
    def is_condition(self) -> bool:
        """True if it is true or false rather than a number."""
        return self.name in (*COMPARED, *JOINED)


Node = Number | Tag | Window | Call


def arguments_of(node: Node) -> tuple[Node, ...]:
    """Return the parts of a tree's root."""
    return node.arguments if isinstance(node, Call) else (node.argument,) if isinstance(node, Window) else ()


def tags_of(node: Node) -> list[Tag]:
    """Return the tags that an expression names, axes left out, in the order of the text."""
    if isinstance(node, Tag):
        return [] if node.axis else [node]
    return [tag for part in arguments_of(node) for tag in tags_of(part)]


def plain_tags(node: Node) -> set[str]:
    """Return the tags that occur anywhere outside ``hold``."""
    if isinstance(node, Tag):
        return set() if node.axis else {node.name}
    if isinstance(node, Call) and node.name == "hold":
        return set()
    return set().union(*map(plain_tags, arguments_of(node)))


def windows_of(node: Node) -> Iterator[Window]:
    """Return the windows in a tree, inner ones before those around them."""
    for part in arguments_of(node):
        yield from windows_of(part)
    if isinstance(node, Window):
        yield node


def readings_of(node: Node) -> Iterator[Tag | Window]:
    """Return the series that a tree reads: its outermost windows, and its tags outside of them."""
    if isinstance(node, Window) or (isinstance(node, Tag) and not node.axis):
        yield node
    elif isinstance(node, Call):
        for part in node.arguments:
            yield from readings_of(part)


# --- operators ----------------------------------------------------------------------------------------------


def _compare(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compared(one: Any, two: Any) -> Any:
        unknown = np.isnan(one) | np.isnan(two)
        return np.where(unknown, np.nan, function(one, two))

    return compared


def _and(one: Any, two: Any) -> Any:
    false = (np.equal(one, 0)) | (np.equal(two, 0))
    return np.where(false, 0.0, np.where(np.isnan(one) | np.isnan(two), np.nan, 1.0))


def _not(one: Any) -> Any:
    return np.where(np.isnan(one), np.nan, np.equal(one, 0))


OPERATORS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda one, two: np.true_divide(np.asarray(one, np.float64), two),
    "**": lambda one, two: np.power(np.asarray(one, np.float64), two),
    "negative": np.negative,
    "<": _compare(np.less),
    "<=": _compare(np.less_equal),
    ">": _compare(np.greater),
    ">=": _compare(np.greater_equal),
    "==": _compare(np.equal),
    "!=": _compare(np.not_equal),
    "and": _and,  # false settles it, even beside what is not known
    "or": lambda one, two: _not(_and(_not(one), _not(two))),
    "not": _not,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "log10": np.log10,
    "least": lambda *values: np.minimum.reduce(np.broadcast_arrays(*values)),
    "greatest": lambda *values: np.maximum.reduce(np.broadcast_arrays(*values)),
}
"""Of numbers or arrays. A condition is 1 or 0, and NaN if it is not known."""


# --- parsing ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises:
        ExpressionError: It is not an expression; the error has the place of the first wrong part.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(
            f"expression of {len(text)} characters: at most {MAX_CHARACTERS}",
            start=MAX_CHARACTERS, end=len(text), hint="make two of it",
        )  # fmt: skip
    reader = _Reader(text)
    node = reader.either()
    reader.expect("end", "an operator or the end")
    if not tags_of(node):
        raise ExpressionError("no tag in the expression", hint="name one: loss", start=0, end=len(text))
    return node


def parse_condition(text: str) -> Node:
    """Return the tree of an expression that is true or false.

    Raises:
        ExpressionError: It is not one; the message has the column of the first wrong part.
    """
    try:
        node = parse(text)
        if not (isinstance(node, Call) and node.is_condition):
            hint = "compare it: train/loss > 10"
            raise ExpressionError("a number is not a condition", hint=hint, start=0, end=len(text))
    except ExpressionError as error:
        raise ExpressionError(
            f"{error.message}, at column {error.start + 1}",
            hint=error.hint, start=error.start, end=error.end,
        ) from None  # fmt: skip
    return node


class Token(NamedTuple):
    """A piece of the text: a ``number``, ``name``, ``quoted`` name or ``sign``, or the final ``end``."""

    kind: str
    text: str
    start: int
    end: int


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))"
    rf'|(?P<name>{NAME})|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<sign>{"|".join(map(re.escape, SIGNS))}))'
)


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, len(text) - len(text[at:].lstrip()))
        kind = match.lastgroup or ""
        yield Token(kind, match[kind], match.start(kind), match.end(kind))
        at = match.end()
    yield Token("end", "", len(text), len(text))


def _unreadable(text: str, start: int) -> ExpressionError:
    if text[start] == '"':
        return ExpressionError(
            "quotes that do not end", hint='close the quotes: "grad-norm"', start=start, end=len(text)
        )
    word = re.match(r"\w+", text[start:])
    end = start + (word.end() if word else 1)
    hint = 'put a tag with such characters in quotes: "1st/loss"'
    return ExpressionError(f"unexpected {text[start:end]!r}", hint=hint, start=start, end=end)


class _Reader:
    """Reads the pieces of a text from the left; one method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = self._depth = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    def take(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def has(self, *texts: str) -> bool:
        return self.next.kind in ("name", "sign") and self.next.text in texts

    def expect(self, what: str, described: str) -> Token:
        if what not in (self.next.kind, self.next.text) or self.next.kind == "quoted":
            raise _unexpected(self.next, described)
        return self.take() if self.next.kind != "end" else self.next

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Node], check: _Check) -> Node:
        node = part()
        while self.has(*signs):
            sign = self.take()
            node = Call(sign.text, (check(node, sign), check(part(), sign)))
        return node

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(
                f"more than {MAX_DEPTH} nested parts",
                start=self.next.start, end=self.next.end, hint="take it apart",
            )  # fmt: skip

    def either(self) -> Node:
        return self._chain(("or",), self._both, _condition)

    def _both(self) -> Node:
        return self._chain(("and",), self._not, _condition)

    def _not(self) -> Node:
        if not self.has("not"):
            return self._compared()
        self._deeper()
        sign, part = self.take(), self._not()
        self._depth -= 1
        return Call("not", (_condition(part, sign),))

    def _compared(self) -> Node:
        node = self._sum()
        if self.has(*COMPARED):
            sign = self.take()
            node = Call(sign.text, (_amount(node, sign), _amount(self._sum(), sign)))
            if self.has(*COMPARED):
                raise ExpressionError(
                    "two comparisons in a row",
                    start=self.next.start, end=self.next.end, hint="join them: a < b and b < c",
                )  # fmt: skip
        return node

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product, _amount)

    def _product(self) -> Node:
        return self._chain(("*", "/"), self._factor, _amount)

    def _factor(self) -> Node:
        self._deeper()
        if self.has("-", "+"):
            sign, part = self.take(), self._factor()
            node = Call("negative", (_amount(part, sign),)) if sign.text == "-" else _amount(part, sign)
        else:
            node = self._power()
        self._depth -= 1
        return node

    def _power(self) -> Node:
        base = self._atom()
        if not self.has("**"):
            return base
        sign = self.take()
        return Call("**", (_amount(base, sign), _amount(self._factor(), sign)))

    def _atom(self) -> Node:
        token = self.next
        if token.kind == "number":
            return Number(float(self.take().text))
        if token.kind == "quoted":
            self.take()
            return Tag(re.sub(r"\\(.)", r"\1", token.text[1:-1]), True, token.start, token.end)
        if token.kind == "name" and token.text not in JOINED:
            self.take()
            return self._call(token) if self.has("(") else Tag(token.text, False, token.start, token.end)
        if self.has("("):
            self.take()
            node = self.either()
            self.expect(")", "an operator or )")
            return node
        raise _unexpected(token, "a tag, a number or (")

    def _call(self, name: Token) -> Node:
        if name.text not in WINDOWS and name.text not in POINTWISE:
            known = ", ".join((*WINDOWS, *POINTWISE))
            raise ExpressionError(
                f"no function {name.text!r}",
                hint=f"the functions: {known}", start=name.start, end=name.end,
            )  # fmt: skip
        self.take()
        starts = [self.next]
        arguments = [_amount(self._sum(), name)] if not self.has(")") else []
        while self.has(","):
            self.take()
            starts.append(self.next)
            arguments.append(_amount(self._sum(), name))
        end = self.expect(")", "a comma or )")
        if name.text in WINDOWS:
            return _window(name, arguments, starts, end)
        fewest, most, written = POINTWISE[name.text]
        if len(arguments) < fewest or (most is not None and len(arguments) > most):
            raise _miscounted(name, arguments, end, written)
        return Call(name.text, tuple(arguments))


_Check = Callable[[Node, Token], Node]


def _window(name: Token, arguments: list[Node], starts: list[Token], end: Token) -> Window:
    points, can_be_given, written = WINDOWS[name.text]
    if not 1 <= len(arguments) <= 1 + can_be_given:
        raise _miscounted(name, arguments, end, written)
    if name.text == AT:
        arguments, starts = arguments[::-1], starts[::-1]
    if not tags_of(arguments[0]):
        raise ExpressionError(
            f"{name.text} of no tag", hint=written, start=starts[0].start, end=starts[0].end
        )
    if len(arguments) == 2:
        fewest = {"std": 2, "slope": 2, AT: 0}.get(name.text, 1)
        most = MAX_STEP if name.text == AT else MAX_POINTS
        number = arguments[1].value if isinstance(arguments[1], Number) else np.nan
        if not (number == number and fewest <= number <= most and number == int(number)):
            given = starts[1].text or "nothing"
            raise ExpressionError(
                f"{name.text} over {given}: a whole number from {fewest} to {most:,}",
                hint=written, start=starts[1].start, end=starts[1].end,
            )  # fmt: skip
        points = int(number)
    if points is None:
        raise ExpressionError(
            f"{name.text} needs a number of points", hint=written, start=end.start, end=end.end
        )
    return Window(name.text, arguments[0], points)


def _miscounted(name: Token, arguments: list[Node], end: Token, written: str) -> ExpressionError:
    call = f"{name.text} with {len(arguments)} argument{'s' * (len(arguments) != 1)}"
    return ExpressionError(call, hint=f"it is written {written}", start=name.start, end=end.end)


def _unexpected(token: Token, described: str) -> ExpressionError:
    got = "the end" if token.kind == "end" else repr(token.text)
    hint = 'write an operator between two values, and a tag with spaces or signs in quotes: "grad norm"'
    return ExpressionError(f"expected {described}, found {got}", hint=hint, start=token.start, end=token.end)


def _condition(node: Node, sign: Token) -> Node:
    if isinstance(node, Call) and node.is_condition:
        return node
    raise ExpressionError(
        f"{sign.text!r} joins conditions, not numbers",
        start=sign.start, end=sign.end, hint="a > 1 and b < 2",
    )  # fmt: skip


def _amount(node: Node, sign: Token) -> Node:
    if isinstance(node, Call) and node.is_condition:
        raise ExpressionError(
            f"{sign.text!r} works on numbers, not on conditions",
            start=sign.start, end=sign.end, hint="join by and, or",
        )  # fmt: skip
    return node
