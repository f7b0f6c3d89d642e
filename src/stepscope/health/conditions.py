"""Conditions followed point by point, as their series grow."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, nan
from typing import Any

import numpy as np

from stepscope.expression import (
    AT,
    OPERATORS,
    Call,
    Node,
    Number,
    Tag,
    Window,
    plain_tags,
    readings_of,
    tags_of,
    windows_of,
)
from stepscope.health.ring import Floats, Ring

_SLIDING: dict[str, Callable[[Floats], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "std": lambda values: values.std(ddof=1),
    "min": np.min,
    "max": np.max,
}


class WindowFollower:
    """One window, updated as its series grows; NaN until there are enough points.

    Values that are not finite are left out.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._count, self._total, self._extreme = 0, 0.0, nan
        self._mean = self._weight = 0.0
        self._before = self._at = nan
        self._values, self._places = Ring(window.needed), Ring(window.needed)

    def see(self, value: float, step: int, wall: float) -> None:
        """Take a point."""
        if not isfinite(value):
            return
        self._count += 1
        self._total += value
        name, points = self._window.name, self._window.points
        if name == AT:
            self._before = value if step <= points else self._before
            self._at = self._before if step >= points else nan
        elif name == "ema":
            alpha = 2 / (points + 1)
            self._mean += alpha * (value - self._mean)
            self._weight += alpha * (1 - self._weight)
        elif not points and name in ("min", "max"):
            extreme = min if name == "min" else max
            self._extreme = value if self._count == 1 else extreme(self._extreme, value)
        else:
            self._values.push(np.array([value]))
            self._places.push(np.array([wall if name == "per_second" else float(step)]))

    @property
    def value(self) -> float:
        """The value now."""
        name, values, places = self._window.name, self._values.values, self._places.values
        if name == "count":
            return float(self._count)
        if name == AT:
            return self._at
        if self._count < self._window.needed:
            return nan
        if name == "ema":
            return self._mean / self._weight
        if name == "cumsum":
            return self._total
        if name in ("min", "max") and not self._window.points:
            return self._extreme
        if name == "slope":
            return _slope(places, values)
        if name == "last":
            return float(values[0])
        if name in ("delta", "rate", "per_second"):
            apart = 1.0 if name == "delta" else float(places[-1] - places[0])
            return float(values[-1] - values[0]) / apart if apart > 0 else nan
        return float(_SLIDING[name](values))


def _slope(steps: np.ndarray, values: np.ndarray) -> float:
    apart = steps - steps.mean()
    square = float((apart * apart).sum())
    return float((apart * values).sum()) / square if square > 0 else nan


class ConditionFollower:
    """A condition over the series of one run or rank.

    A tag stands for its newest value. A window of a tag takes each of its points; a window of an expression
    takes a value at each step at which every tag of the expression has a point.

    Args:
        tree: As parsed.
    """

    def __init__(self, tree: Node) -> None:
        self._tree = tree
        self._windows = {window: WindowFollower(window) for window in windows_of(tree)}
        self._newest: dict[str, float] = {tag.name: nan for tag in tags_of(tree)}
        self._fresh: set[str] = set()
        self._step, self._wall, self._start = 0, nan, nan

    def see(self, tag: str, step: int, wall: float, value: float) -> None:
        """Take a point of a tag."""
        self._start = wall if self._start != self._start else self._start
        self._step, self._wall = step, wall
        if isfinite(value):
            self._newest[tag] = value
            self._fresh.add(tag)
        for window, follower in self._windows.items():
            if isinstance(window.argument, Tag) and window.argument.name == tag:
                follower.see(value, step, wall)

    def settle(self) -> float:
        """Return the value once all points of a step are there: 1, 0, or NaN if it is not known."""
        for window, follower in self._windows.items():
            if not isinstance(window.argument, Tag) and plain_tags(window.argument) <= self._fresh:
                follower.see(self._value(window.argument), self._step, self._wall)
        self._fresh.clear()
        return self._value(self._tree)

    @property
    def readings(self) -> dict[str, float]:
        """The series that the condition reads, as they are written, and their values."""
        return {str(node): self._value(node) for node in readings_of(self._tree)}

    def _value(self, node: Node) -> float:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, Window):
            return self._windows[node].value
        if isinstance(node, Call):
            values = [self._value(part) for part in node.arguments]
            if node.name == "hold":
                return values[0]
            with np.errstate(all="ignore"):
                return float(OPERATORS[node.name](*values))
        if node.axis:
            return float(self._step) if node.name == "step" else self._wall - self._start
        return self._newest[node.name]
