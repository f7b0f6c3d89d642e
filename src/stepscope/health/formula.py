"""Conditions over series, such as ``ema(train/loss, 50) > 2 * min(train/loss)``: parsed, then evaluated.

::

    either   = both {"or" both}
    both     = not {"and" not}
    not      = "not" not | compared
    compared = sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("-" | "+") factor | atom
    atom     = number | tag | "quoted tag" | function "(" … ")" | "(" either ")"

A slash, dot, colon or @ between two letters, digits or underscores belongs to a tag: ``train/loss`` is one
and ``loss / 2`` a division. Nothing is handed to Python's own evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite, nan

import numpy as np

from stepscope.errors import ExpressionError
from stepscope.health.ring import Ring
from stepscope.tokens import CONDITIONS, Token, TokenReader, is_name

MOST_CHARACTERS = 1000
MOST_NESTED = 40
MOST_POINTS = 100_000
"""Of one window."""
WINDOWS: dict[str, tuple[int | None, str]] = {
    # Points where none are given (None: they must be), and how it is written.
    "ema": (None, "ema(tag, n): exponential mean with weight 2 / (n + 1), corrected for its start"),
    "mean": (None, "mean(tag, n): of the last n points"),
    "std": (None, "std(tag, n): standard deviation of the last n points"),
    "median": (None, "median(tag, n): of the last n points"),
    "min": (0, "min(tag): of all points; min(tag, n): of the last n"),
    "max": (0, "max(tag): of all points; max(tag, n): of the last n"),
    "slope": (None, "slope(tag, n): of the line through the last n points, per step"),
    "delta": (1, "delta(tag, n): the last point less the one n points before"),
    "last": (0, "last(tag, n): the value n points ago; last(tag): the newest"),
    "count": (0, "count(tag): points so far"),
}
ABS = "abs"
COMPARED = ("<=", ">=", "==", "!=", "<", ">")


@dataclass(frozen=True, slots=True)
class FixedNumber:
    """A number as written."""

    value: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading of a series: its newest value, or a statistic of its last points.

    Attributes:
        points: Of the window; 0 for all.
    """

    tag: str
    function: str = "last"
    points: int = 0

    def __str__(self) -> str:
        name = self.tag if is_name(self.tag) else f'"{self.tag}"'
        if self.function == "last" and not self.points:
            return name
        return f"{self.function}({name}, {self.points})" if self.points else f"{self.function}({name})"


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """An operator with its operands."""

    sign: str
    parts: tuple[Node, ...]

    @property
    def is_condition(self) -> bool:
        """True if it is true or false rather than a number."""
        return self.sign in (*COMPARED, "and", "or", "not")


Node = FixedNumber | Reading | OperatorNode


def parse(text: str) -> OperatorNode:
    """Return the tree of a condition.

    Raises:
        ExpressionError: It is not one; with the place of the first wrong part.
    """
    if len(text) > MOST_CHARACTERS:
        raise wrong(
            f"a condition of {len(text)} characters: at most {MOST_CHARACTERS}", MOST_CHARACTERS, len(text)
        )
    reader = _ConditionReader(text)
    node = reader.either()
    token = reader.next
    if token.kind != "end":
        raise unexpected(token, "an operator or the end")
    if not (isinstance(node, OperatorNode) and node.is_condition):
        raise wrong("a number is not a condition", 0, len(text), "compare it: train/loss > 10")
    if not list(readings(node)):
        raise wrong("no tag in the condition", 0, len(text), "name one: train/loss > 10")
    return node


def readings(node: Node) -> Iterator[Reading]:
    """Return the readings in a tree, in the order of the text."""
    if isinstance(node, Reading):
        yield node
    elif isinstance(node, OperatorNode):
        for part in node.parts:
            yield from readings(part)


def wrong(what: str, start: int, end: int, hint: str = "") -> ExpressionError:
    """Return the error with the column."""
    return ExpressionError(
        f"{what}, at column {start + 1}", hint=hint or "docs/guides/health.md", start=start, end=end
    )


def unexpected(token: Token, described: str) -> ExpressionError:
    """Return the error about a token that does not belong where it is."""
    found = "the end" if token.kind == "end" else repr(token.text)
    hint = 'put a tag with spaces or signs in quotes: "grad norm" > 3'
    return wrong(f"expected {described}, found {found}", token.start, token.end, hint)


class _ConditionReader(TokenReader):
    """One method per rule of the grammar."""

    def __init__(self, text: str) -> None:
        try:
            super().__init__(text, CONDITIONS)
        except ExpressionError as found:
            raise wrong(found.message, found.start, found.end, found.hint) from None

    def _expect(self, sign: str, described: str) -> Token:
        if not self.has(sign):
            raise unexpected(self.next, described)
        return self.take()

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise wrong(f"more than {MOST_NESTED} nested parts", self.next.start, self.next.end)

    def _chain(
        self, signs: tuple[str, ...], part: Callable[[], Node], checked: Callable[[Node, Token], Node]
    ) -> Node:
        node = part()
        while self.has(*signs):
            sign = self.take()
            node = OperatorNode(sign.text, (checked(node, sign), checked(part(), sign)))
        return node

    def either(self) -> Node:
        self._deeper()
        node = self._chain(("or",), self._both, condition)
        self.depth -= 1
        return node

    def _both(self) -> Node:
        return self._chain(("and",), self._not, condition)

    def _not(self) -> Node:
        if self.has("not"):
            self._deeper()
            sign, part = self.take(), self._not()
            self.depth -= 1
            return OperatorNode("not", (condition(part, sign),))
        return self._compared()

    def _compared(self) -> Node:
        node = self._sum()
        if self.has(*COMPARED):
            sign = self.take()
            node = OperatorNode(sign.text, (amount(node, sign), amount(self._sum(), sign)))
            if self.has(*COMPARED):
                raise wrong(
                    "two comparisons in a row", self.next.start, self.next.end, "join them: a < b and b < c"
                )
        return node

    def _sum(self) -> Node:
        return self._chain(("+", "-"), self._product, amount)

    def _product(self) -> Node:
        return self._chain(("*", "/"), self._factor, amount)

    def _factor(self) -> Node:
        if not self.has("-", "+"):
            return self._atom()
        self._deeper()
        sign, part = self.take(), self._factor()
        self.depth -= 1
        return OperatorNode("negative", (amount(part, sign),)) if sign.text == "-" else amount(part, sign)

    def _atom(self) -> Node:
        token = self.next
        if token.kind == "number":
            return FixedNumber(float(self.take().text))
        if token.kind in ("quoted", "name") and token.text not in ("and", "or", "not"):
            self.take()
            if token.kind == "name" and self.has("("):
                return self._call(token)
            return Reading(token.tag)
        if self.has("("):
            self.take()
            node = self.either()
            self._expect(")", "an operator or )")
            return node
        raise unexpected(token, "a tag, a number or (")

    def _call(self, name: Token) -> Node:
        self.take()
        if name.text == ABS:
            node = amount(self._sum(), name)
            self._expect(")", "an operator or )")
            return OperatorNode(ABS, (node,))
        if name.text not in WINDOWS:
            known = ", ".join((*WINDOWS, ABS))
            raise wrong(f"no function {name.text!r}", name.start, name.end, f"the functions: {known}")
        usual, written = WINDOWS[name.text]
        token = self.take()
        if token.kind not in ("quoted", "name"):
            raise wrong(f"{name.text} needs a tag first", token.start, token.end, written)
        points = usual
        if self.has(","):
            self.take()
            number = self.take()
            points = whole(number, name.text, written)
        if points is None:
            raise wrong(f"{name.text} needs a number of points", token.end, token.end, written)
        self._expect(")", ")")
        return Reading(token.tag, name.text, points)


def whole(token: Token, name: str, written: str) -> int:
    """Return a number of points."""
    value = float(token.text) if token.kind == "number" else nan
    fewest = 2 if name in ("std", "slope") else 1
    if not (isfinite(value) and value == int(value) and fewest <= value <= MOST_POINTS):
        raise wrong(
            f"{name} over {token.text or 'nothing'}: a whole number from {fewest} to {MOST_POINTS:,}",
            token.start,
            token.end,
            written,
        )
    return int(value)


def condition(node: Node, sign: Token) -> Node:
    """Return a condition.

    Raises:
        ExpressionError: It is a number.
    """
    if isinstance(node, OperatorNode) and node.is_condition:
        return node
    raise wrong(f"{sign.text!r} joins conditions, not numbers", sign.start, sign.end, "a > 1 and b < 2")


def amount(node: Node, sign: Token) -> Node:
    """Return a number.

    Raises:
        ExpressionError: It is true or false.
    """
    if isinstance(node, OperatorNode) and node.is_condition:
        raise wrong(
            f"{sign.text!r} works on numbers, not on conditions", sign.start, sign.end, "join by and, or"
        )
    return node


# --- following series -------------------------------------------------------------------------------------


class SeriesFollower:
    """One reading, updated as its series grows; NaN until there are enough points.

    Values that are not finite are left out.
    """

    def __init__(self, reading: Reading) -> None:
        self._function, self._points = reading.function, reading.points
        self._count, self._extreme = 0, nan
        self._mean = self._weight = 0.0
        size = self._points + 1 if self._function in ("delta", "last") else max(self._points, 1)
        self._values, self._steps = Ring(size), Ring(size)

    def see(self, step: int, value: float) -> None:
        """Take a point."""
        if not isfinite(value):
            return
        self._count += 1
        if self._function == "ema":
            alpha = 2 / (self._points + 1)
            self._mean += alpha * (value - self._mean)
            self._weight += alpha * (1 - self._weight)
            return
        if not self._points and self._function in ("min", "max"):
            known = value if self._extreme != self._extreme else self._extreme
            self._extreme = min(known, value) if self._function == "min" else max(known, value)
            return
        self._values.push(np.array([value]))
        if self._function == "slope":
            self._steps.push(np.array([float(step)]))

    @property
    def value(self) -> float:
        """The value now."""
        name, points, values = self._function, self._points, self._values.values
        if name == "count":
            return float(self._count)
        if self._count < (points + 1 if name in ("delta", "last") else max(points, 1)):
            return nan
        if name == "ema":
            return self._mean / self._weight
        if name in ("min", "max"):
            return self._extreme if not points else float(values.min() if name == "min" else values.max())
        if name in ("last", "delta"):
            return float(values[0] if name == "last" else values[-1] - values[0])
        return _OF_WINDOW[name](self._steps.values, values)


def _slope(steps: np.ndarray, values: np.ndarray) -> float:
    apart = steps - steps.mean()
    square = float((apart * apart).sum())
    return float((apart * values).sum()) / square if square > 0 else nan


_OF_WINDOW = {
    "mean": lambda steps, values: float(values.mean()),
    "std": lambda steps, values: float(values.std(ddof=1)),
    "median": lambda steps, values: float(np.median(values)),
    "slope": _slope,
}


def evaluate(node: Node, known: Mapping[Reading, float]) -> float:
    """Return the value of a tree; 1 or 0 for a condition, and NaN if it is not known yet."""
    if isinstance(node, FixedNumber):
        return node.value
    if isinstance(node, Reading):
        return known[node]
    parts = [evaluate(part, known) for part in node.parts]
    if node.sign in ("and", "or"):
        return _joined(node.sign, *parts)
    if any(part != part for part in parts):
        return nan
    if len(parts) == 1:
        return {"negative": -parts[0], ABS: abs(parts[0]), "not": float(not parts[0])}[node.sign]
    one, two = parts
    if node.sign == "/":
        return one / two if two else nan if not one else inf * one
    return float(_OF_TWO[node.sign](one, two))


def _joined(sign: str, one: float, two: float) -> float:
    """Return both or either of two conditions, as far as known: false settles "and", true settles "or"."""
    settles = 0.0 if sign == "and" else 1.0
    if settles in (one, two):
        return settles
    return nan if one != one or two != two else 1.0 - settles


_OF_TWO = {
    "+": lambda one, two: one + two,
    "-": lambda one, two: one - two,
    "*": lambda one, two: one * two,
    "<": lambda one, two: one < two,
    "<=": lambda one, two: one <= two,
    ">": lambda one, two: one > two,
    ">=": lambda one, two: one >= two,
    "==": lambda one, two: one == two,
    "!=": lambda one, two: one != two,
}
