"""The run query of the page: words match names, ``key:value`` and ``key>number`` match facts, ``-`` negates.

A key that is neither a fact nor a setting names a metric: ``loss<0.5``, ``loss.min<0.5``.

The page reads the same language in ``web/src/runs/query.ts``; ``tests/data/run_queries.json`` holds both to
one set of cases.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from stepscope.names.settings import flatten
from stepscope.serve.types import RunSummary

Test = Callable[[RunSummary], bool]
QUOTED = r'"(?:[^"\\]|\\.)*"?'
CHOICE = re.compile(rf'{QUOTED}|[^",]+')
TOKEN = re.compile(
    rf'(-?)(?:([\w./\-[\]]+?)(:|>=|<=|!=|=|>|<))?((?:{QUOTED}|[^\s",]+|,)(?:,(?:{QUOTED}|[^\s",]*))*)',
    re.ASCII,
)
BY_NAME = ("archived", "run", "name")
BOUNDS: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
"""Operators that ask for the side of a bound, of numbers and of columns of them."""
FACTS: dict[str, Callable[[RunSummary], Any]] = {
    "run": lambda run: run.name,
    "name": lambda run: run.name if run.title is None else [run.name, run.title],
    "state": lambda run: run.state,
    "split": lambda run: run.split,
    "tag": lambda run: run.labels,
    "label": lambda run: run.labels,
    "metric": lambda run: run.tags,
    "host": lambda run: run.host,
    "step": lambda run: run.step,
    "points": lambda run: run.points,
    "attempts": lambda run: run.attempts,
    "writers": lambda run: run.writers,
    "dropped": lambda run: run.dropped,
    "archived": lambda run: run.archived,
    "note": lambda run: run.note,
}
MISSING = object()
MetricReader = Callable[[RunSummary, str], "float | None"]
"""Returns the value of a metric of a run; None if it has none."""


class RunQuery(NamedTuple):
    """A query that has been read.

    Attributes:
        matches: Tells whether a run matches.
        keys: Settings and metrics that it asks for.
        archived: Whether it asks for archived runs, or for one run by its whole name; if not, those are left
            out.
    """

    matches: Test
    keys: list[str]
    archived: bool

    def found(self, runs: Iterable[RunSummary]) -> list[RunSummary]:
        """Return the runs that the query finds, in their order."""
        return [run for run in runs if self.matches(run) and (self.archived or not run.archived)]


def parse_query(text: str, metric: MetricReader = lambda run, name: None) -> RunQuery:
    """Read a query; every text is one, a half-typed one included.

    Args:
        text: The query.
        metric: Reads the metrics that it names.
    """
    tests: list[Test] = []
    keys: list[str] = []
    archived = False
    for minus, key, operator, words in tokens_of(text):
        test = key_test(key, operator, words, metric) if key and operator else word_test(unquote(words))
        if key and key.lower() not in FACTS:
            keys.append(key)
        archived = archived or (bool(key) and not minus and key.lower() in BY_NAME)
        tests.append(negated(test) if minus else test)
    return RunQuery(lambda run: all(test(run) for test in tests), keys, archived)


def tokens_of(text: str) -> list[tuple[str, str, str, str]]:
    """Return the conditions of a query: minus, key, operator and words. A comma ends one as a blank does."""
    return [
        (minus, key, operator, words.rstrip(",") or words)
        for minus, key, operator, words in TOKEN.findall(text)
    ]


def negated(test: Test) -> Test:
    """Return the opposite of a test."""
    return lambda run: not test(run)


def word_test(word: str) -> Test:
    """Return whether a word is in a run's name or title."""
    wanted = word.lower()
    return lambda run: wanted in run.name.lower() or (run.title is not None and wanted in run.title.lower())


def key_test(key: str, operator: str, text: str, metric: MetricReader) -> Test:
    """Return whether a fact, a config value or a metric is as asked."""

    def recorded(run: RunSummary) -> Any:
        value = config_value(run, key)
        if value is MISSING:
            number = metric(run, key)
            return MISSING if number is None else number
        return value

    read = FACTS.get(key.lower()) or recorded
    if operator in (":", "=", "!="):
        wanted = [choice_test(choice) for choice in CHOICE.findall(text)]

        def chosen(run: RunSummary) -> bool:
            return any(equal(read(run), item) for item in wanted)

        return negated(chosen) if operator == "!=" else chosen
    bound = number_of(text)
    return lambda run: compared(read(run), operator, bound)


def config_value(run: RunSummary, key: str) -> Any:
    """Return a config value by its dotted key, or by the last part of it if that is enough."""
    flat = flatten(run.config)
    if key in flat:
        return flat[key]
    return next((value for name, value in flat.items() if name.endswith(f".{key}")), MISSING)


def text_of(value: Any) -> str:
    """Return a value as the page compares it: numbers and booleans as JavaScript writes them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return value if isinstance(value, str) else str(value)


def equal(value: Any, wanted: Callable[[Any], bool]) -> bool:
    """Return whether a value, or one of a list, is as wanted."""
    if isinstance(value, (list, tuple)):
        return any(equal(item, wanted) for item in value)
    if value is MISSING:
        return False
    return wanted("none" if value is None else value)


def choice_test(choice: str) -> Callable[[Any], bool]:
    """Return the test of one value: a quoted text, a number, or a text in which ``*`` stands for anything."""
    if choice.startswith('"'):
        exact = unquote(choice)
        return lambda value: text_of(value) == exact
    number = number_of(choice)
    parts = choice.lower().split("*")

    def matches(value: Any) -> bool:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and value == number:
            return True
        return consists_of(text_of(value).lower(), parts)

    return matches


def consists_of(text: str, parts: list[str]) -> bool:
    """Return whether a text is its parts in their order, with anything between them."""
    if len(parts) == 1:
        return text == parts[0]
    first, *middle, last = parts
    at = len(first)
    if not text.startswith(first):
        return False
    for part in middle:
        begins = text.find(part, at)
        if begins < 0:
            return False
        at = begins + len(part)
    return text.endswith(last) and at <= len(text) - len(last)


def number_of(value: Any) -> float:
    """Return a number, NaN if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def compared(value: Any, operator: str, bound: float) -> bool:
    """Return whether a number lies on the side of a bound that an operator names."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    return bool(BOUNDS[operator](number_of(value), bound))


def unquote(text: str) -> str:
    """Return a quoted text without its quotes."""
    if not text.startswith('"'):
        return text
    return re.sub(r"\\(.)", r"\1", re.sub(r'^"|"$', "", text))


def config_text(value: Any) -> str | int | float | None:
    """Return a config value as a cell of a table, lists and the like as JSON."""
    return value if value is None or isinstance(value, (str, int, float)) else json.dumps(value, default=str)
