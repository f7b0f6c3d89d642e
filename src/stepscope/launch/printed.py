"""Values in the lines that a program prints or logs, such as ``step 100 loss 0.34``.

A line has fields of a label, a sign or a space, and a number. The number is a value if the label names a
metric. Words before may name the part of the data for the fields that follow: ``Test set: loss 0.2``. Lines
of numbers alone are the rows of a table if the line of its names came before.
"""

from __future__ import annotations

import builtins
import json
import logging
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, wraps
from types import ModuleType
from typing import Any, NamedTuple

from stepscope.launch.process import process
from stepscope.names.kinds import metric_kind
from stepscope.names.roles import meaning_of
from stepscope.names.splits import AMBIGUOUS, WORDS, split_tag

MAX_LINE = 400
"""Characters of a line in which values are looked for."""
MAX_LINES = 50
"""Lines of a text in which values are looked for: what is longer is a file, a page or a listing."""
MAX_WORDS = 3
"""Words of a label. What is longer is a sentence, in which only the metric's own name counts."""
_TOKEN = re.compile(
    r"(?P<place>(?<!\S)[^\W\d][\w.]*(?::[\w.<>]+)+:0(?![\w.]))|"  # of a call, as loggers give it
    # A number by itself, as tensor(0.3, ...), np.float64(0.3) or [0.3]; no part of a time, an address, a
    # version, a path or a date. As 0,53 may be one number or two, it is none.
    r"(?<![\w@/-])(?<!\d[.,:])(?P<call>[A-Za-z_][\w.]*\()?(?P<list>\[)?"
    r"(?P<number>[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf))(?:/(?P<whole>\d+))?(?P<percent>\s?%)?"
    r"(?![\w/]|[.:]\w|,\d|-\w)(?(list)\])(?(call)\s*[,)])"
    r"|(?P<word>[^\W\d]\w*(?:[/@.-]\w+)*)|(?P<sign>[:=])|(?P<gap>\s\s+|[\t\n\r]|\s?[|│]\s?)"
    r"|(?P<end>[,;(){}\[\]]|[.!?](?=\s|$)|(?<=\s)[-\u2013·•](?=\s))|(?P<other>\d+(?:[.,:/-]?\w+)*|[^\s\w\"'])"
)
_DIGITS = re.compile(r"(?<![\w@])(?<!\w-)(?<![^\W\d]/)\d+")
"""Runs of digits that are no part of a word such as ``f1``, ``Acc@5`` and ``loss/1``."""
_ALONE = re.compile(
    r"\s*(?:$|[,;|│)\]}(\[]|[-\u2013·•]\s)|[\t\n\r]|\s\s|\s+[^\W\d][\w/@ -]*[\"']?\s*[:=]|"
    r"\s+/|\s+[^\W\d][\w/@-]*\s[-+.\d]"
)
"""Matches after a number without a unit: before an end, or the name of the next number."""
_BAR = re.compile(r"[|│]")
_WORD = re.compile(r"[^\W\d][\w/@-]*")
_CELL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf|\d+:\d\d(?::\d\d)?")
"""A number or a time, in a row of a table."""
_COLOUR = re.compile("\x1b\\[[\\d;]*m")
BARS = ("write", "set_postfix_str", "set_description", "set_description_str")
"""Methods of tqdm's bars whose first argument is a text."""
_RECORD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime"))
"""Attributes of every record of ``logging``."""
_IS = ("is", "was")
_ABOUT = frozenset(("of", "on", "over", "for", "after", "at", "in", "during", "by", "to", "from", "with"))
"""Words after which a phrase describes the noun before them, as in ``Loss at step 40``."""
_ASIDE = re.compile(rf"(?:{'|'.join(sorted(_ABOUT))})\b")
"""Matches after the bracket of such a phrase, as in ``Loss (for 1 batch): 0.4``."""
_EVERYDAY = ("cost", "costs")
"""Words for a loss; with a unit, or another word before them, they mean money or time."""
_UNNAMED = frozenset(("the", "a", "an", "set"))
"""Words that are left out of names."""
ROLES = ("loss", "part_loss", "metric", "reward", "entropy", LR := "learning_rate", "gradient_norm")
"""Roles of the names whose values are taken."""
JUDGED = ("loss", "part_loss", "metric", "reward", "")
"""The roles of values that belong to a part of the data; the empty one is of a name known by its kind."""

_installed = False


class Metric(NamedTuple):
    """The metric that a label names.

    Attributes:
        name: Its tag.
        role: In ``ROLES``, or empty if only its kind is known.
    """

    name: str
    role: str


class Value(NamedTuple):
    """A value of a line, by the place of its digits.

    Attributes:
        name: Of its series.
        text: The number with a ``{}`` for each of its runs of digits ...
        digits: ... which are these of the line.
        whole: A number by which it is divided, in the same way; empty for none.
        factor: What it is multiplied by.
    """

    name: str
    text: str
    digits: slice
    whole: str
    factor: float


def values_of(line: str) -> dict[str, float]:
    """Return the values of the metrics that a line names; nothing else in it is a value."""
    if len(line) > MAX_LINE:
        return _values_in_json(line) if line.startswith("{") else {}
    values: dict[str, float] = {}
    digits: list[str] | None = None
    for name, text, which, whole, factor in _values_in(_DIGITS.sub("0", line)):
        if digits is None:
            digits = _DIGITS.findall(line)
        numbers = (text + whole).format(*digits[which]).split("/")
        if len(numbers) == 1 or float(numbers[1]):
            values[name] = float(numbers[0]) * factor / (1.0 if len(numbers) == 1 else float(numbers[1]))
    return values


def _values_in_json(line: str) -> dict[str, float]:
    """Return the values in the numbers and texts of a long line of JSON, as Loguru serializes its records.

    A text may repeat another one. A name with two values has none, as in a line.
    """
    if len(line) > MAX_LINES * MAX_LINE:
        return {}
    values: dict[str, float] = {}
    twice: set[str] = set()
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(line))]
    except ValueError:
        return {}
    while waiting:
        name, part = waiting.pop()
        if isinstance(part, dict):
            waiting += part.items()
        elif isinstance(part, str) or type(part) in (int, float):
            text = part if isinstance(part, str) else f"{name}={part}"
            for metric, value in values_of(text).items() if len(text) <= MAX_LINE else ():
                twice |= {metric} if values.setdefault(metric, value) != value else set()
    return {metric: value for metric, value in values.items() if metric not in twice}


@lru_cache(maxsize=1 << 10)
def _values_in(shape: str) -> tuple[Value, ...]:
    """Return the values in lines that differ in their digits alone."""
    return tuple(_Fields(shape).values.values())


class Table:
    """The table that is being printed, of which each line is a row.

    Attributes:
        names: Of the columns; empty if none was begun.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def values_of(self, line: str) -> dict[str, float]:
        """Return the values of the metrics in a row; nothing in any other line.

        Args:
            line: Of a program's output, in its order.
        """
        cells = _BAR.sub(" ", line).split()
        if len(cells) < 2 or len(line) > MAX_LINE:
            return {}
        if all(_WORD.fullmatch(cell) for cell in cells):
            roles = [meaning.role if (meaning := meaning_of(cell)) else None for cell in cells]
            if sum(role in ROLES for role in roles) > 1:
                self.names = cells
        if len(cells) != len(self.names) or not all(_CELL.fullmatch(cell) for cell in cells):
            return {}
        return {
            name: float(cell)
            for name, cell in zip(self.names, cells, strict=True)
            if (meaning := meaning_of(name)) and meaning.role in ROLES and ":" not in cell
        }


class _Fields:
    """Reads one line from its beginning to its end.

    Args:
        shape: The line with a 0 for each run of digits that is no part of a word.

    Attributes:
        values: By name. A name that occurs twice has no value: which of the two is meant is unknown.
    """

    def __init__(self, shape: str) -> None:
        self.values: dict[str, Value] = {}
        self._line = shape
        self._words: list[str | None] = []  # of the running field; None for a number or a sign
        self._signed = self._gap = False
        self._part: str | None = None
        self._heading: list[str] = []
        self._pairs = 0
        self._unsure: dict[str, Value] = {}
        """Values without a sign whose names do not mean a metric alone, such as ``ndcg 0.31``; by name."""
        aside = False
        twice: set[str] = set()
        for token in _TOKEN.finditer(shape):
            kind = token.lastgroup
            if token["number"] is not None:
                metric = self._number(token)
                if metric is not None:
                    name, is_sure = metric
                    if name in self.values or name in self._unsure:
                        twice.add(name)
                    (self.values if is_sure else self._unsure)[name] = _value(name, shape, token)
                self._signed = self._gap = False
            elif kind == "gap":
                self._gap = True
            elif kind == "sign":
                self._signed = True
            elif kind == "end":
                if token["end"] == "(" and _ASIDE.match(shape, token.end()):
                    aside = True
                elif token["end"] == ")" and aside:
                    aside = False
                else:
                    self._close()
            else:
                if self._signed or self._gap:
                    self._close()
                word = token["word"]
                self._words.append(None if word is None or _DIGITS.search(word) else word)
        # Two metrics in a line say that it tells how good something is.
        if len(self.values.keys() | self._unsure.keys()) > 1:
            self.values = self._unsure | self.values
        for name in twice & self.values.keys():
            del self.values[name]

    def _close(self) -> None:
        """End the running field: what it says applies to those that follow."""
        words = [word for word in self._words if word is not None]
        if words:
            self._part, self._heading = _part_of(words) or self._part, words
        self._words, self._signed, self._gap = [], False, False

    def _number(self, token: re.Match[str]) -> tuple[str, bool] | None:
        """Return the name of a number's metric, and whether it is sure to be one; None if it is no value."""
        words = self._words
        signed = self._signed
        if words and words[-1] in _IS and not self._gap:
            signed = True
            words.pop()
        after = max((at + 1 for at, word in enumerate(words) if word is None), default=0)
        label = [word for word in words[after:] if word is not None]
        if after and len(label) > 1 and "/" in label[0]:
            label = label[1:]  # the unit of the number before: ``1234 samples/sec accuracy=0.5``
        metric = self._metric(label, signed=signed) or (self._described() if signed else None)
        exact = not token["number"].lstrip("+-").isdigit() or bool(token["percent"] or token["whole"])
        row, self._pairs = self._pairs, self._pairs + (metric is None and len(label) == 1)
        if metric is not None and not signed and (token["call"] or not (exact or row)):
            metric = None  # ``map 3``, unless other pairs of a word and a number come before
        if metric is not None and not metric.role and not exact:  # such as ``error 404``
            metric = None
        everyday = metric is not None and metric.name.lower().endswith(_EVERYDAY)
        if metric is not None and (everyday or not metric.role):  # such as ``cost: 3.50 USD``
            metric = metric if _ALONE.match(self._line, token.end()) else None
        if metric is None:
            words.append(None)
            return None
        before = [word for word in words[:after] if word is not None]
        self._part = (_part_of(before) if before else None) or self._part
        self._words = []
        if metric.role not in JUDGED or self._part is None or split_tag(metric.name).split is not None:
            name = metric.name
        else:
            name = f"{self._part}/{metric.name}"
        return name, bool(metric.role or signed)

    def _metric(self, label: list[str], *, signed: bool) -> Metric | None:
        """Return the metric of the words before a number."""
        about = next((at for at, word in enumerate(label) if word.lower() in _ABOUT), len(label))
        if not label or (not signed and (about < len(label) or len(label) > MAX_WORDS)):
            return None
        if about == 0:  # after another number: ``epoch 3 with validation loss: 0.3``
            return self._metric(label[1:], signed=signed)
        if about == len(label) and label[-1].lower() in WORDS:
            named = label[:-1] or self._heading  # as ``Loss train 0.5, val 0.6``
            metric = _named(named)
            if metric is not None:
                self._heading = named
                return Metric(f"{label[-1]}/{metric.name}", metric.role)
        return _named(label[:about])

    def _described(self) -> Metric | None:
        """Return the metric before a description with a number, as in ``Loss at step 40: 0.5``."""
        for at, word in enumerate(self._words):
            if word is None:
                return None
            if word.lower() in _ABOUT:
                return _named([each for each in self._words[:at] if each is not None])
        return None


def _value(name: str, shape: str, token: re.Match[str]) -> Value:
    before = len(_DIGITS.findall(shape[: token.start("number")]))
    text, whole = (_DIGITS.sub("{}", token[part] or "") for part in ("number", "whole"))
    until = before + text.count("{}") + whole.count("{}")
    return Value(name, text, slice(before, until), whole and "/" + whole, 0.01 if token["percent"] else 1.0)


def _named(words: list[str]) -> Metric | None:
    """Return the metric whose name ends some words."""
    if words and words[-1].lower() in _EVERYDAY:
        meant = [word for word in words if word.lower() not in _UNNAMED]
        if meaning_of("_".join(meant[-MAX_WORDS:])) is None:
            return None  # such as ``time cost``
    for length in range(1, min(len(words), MAX_WORDS) + 1):
        name = "_".join(words[-length:])
        meaning = None if "." in name else meaning_of(name)  # a file, a module
        if meaning is not None and meaning.role in ROLES and (length == 1 or meaning.role != "part_loss"):
            return Metric(_name(words, length), meaning.role)
    if words and "." not in words[-1] and metric_kind(words[-1], None) in ("loss", "score"):
        return Metric(_name(words, 1), "")
    return None


def _name(words: list[str], length: int) -> str:
    """Return the name of a metric whose own name has some words: in a sentence, that and its part alone."""
    told = words
    if len(words) > MAX_WORDS:
        before = [word for word in words[-length - 2 : -length] if word.lower() in WORDS]
        told = [*before[-1:], *words[-length:]]
    return "_".join(word for word in told if word.lower() not in _UNNAMED)


def _part_of(words: list[str]) -> str | None:
    """Return the word for a part of the data among others."""
    for word in words:
        plain = word.lower()
        if plain in WORDS and (plain not in AMBIGUOUS or len(words) < MAX_WORDS):
            return word
    return None


table = Table()


def install(late: ModuleType | None = None) -> None:
    """Look at the lines that the program prints and logs from now on, and at the texts beside its bars.

    Args:
        late: ``tqdm.std``, if the program has loaded it just now.
    """
    global _installed
    if _installed:
        if late is not None and process.opened is not None:
            watch_bars()
        return
    _installed = True
    original = builtins.print

    @wraps(original)
    def print(*values: Any, **options: Any) -> None:  # noqa: A001  replaces the function of this name
        with telling:
            original(*values, **options)
        if wanted():
            take(lambda: " ".join(value if isinstance(value, str) else str(value) for value in values))

    builtins.print = print
    handle = logging.Logger.handle

    @wraps(handle)
    def handled(self: logging.Logger, record: logging.LogRecord) -> None:
        with telling:
            handle(self, record)
        if wanted() and record.levelno >= logging.INFO:
            take(record.getMessage)
            own = {name: value for name, value in vars(record).items() if name not in _RECORD}
            if own:  # given as ``extra``, which only the program's own format shows
                take(lambda: _postfix(own))

    logging.Logger.handle = handled  # type: ignore[method-assign]
    process.begins += [watch_bars, watch_streams]


class Telling(threading.local):
    """Whether this thread prints or logs now: values are taken from the call, where they have all digits."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


telling = Telling()
"""Of this process."""


def watch_streams() -> None:
    """Take the values in what is written to the standard streams in other ways, as by Loguru and Rich."""
    for stream in (sys.stdout,) if sys.stdout is sys.stderr else (sys.stdout, sys.stderr):
        with suppress(Exception):  # of a stream of the program's own, or none
            watch_stream(stream)


def watch_stream(stream: Any) -> None:
    """Take the values in what is written to a stream.

    Args:
        stream: Keeps its type; only its method ``write`` is another one.
    """
    original, last = stream.write, ""

    @wraps(original)
    def write(text: Any) -> Any:
        nonlocal last
        result = original(text)
        # A display that is drawn again tells nothing new.
        if not telling.depth and isinstance(text, str) and text != last and wanted():
            last = text
            take(lambda: text)
        return result

    stream.write = write


def watch_bars() -> None:
    """Take the values beside the bars of tqdm, if the program has loaded it; those for notebooks inherit."""
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    for name in BARS:
        _watch_bar(bar, name, _text)
    _watch_bar(bar, "set_postfix", _postfix)
    _watch_bar(bar, "display", None)


def _watch_bar(bar: Any, name: str, line: Callable[..., str] | None) -> None:
    found = vars(bar).get(name) if isinstance(bar, type) else None
    if found is None:
        return
    original = getattr(found, "__func__", found)

    @wraps(original)
    def told(self: Any, *arguments: Any, **named: Any) -> Any:
        with telling:
            result = original(self, *arguments, **named)
        if line is not None and wanted():
            take(lambda: line(*arguments, **named))
        return result

    setattr(bar, name, classmethod(told) if isinstance(found, classmethod) else told)


def _text(text: Any = "", *_: Any, s: Any = "", desc: Any = "", **__: Any) -> str:
    return str(text or s or desc or "")


def _postfix(ordered_dict: Any = None, refresh: Any = True, **named: Any) -> str:
    """Return the values in full; the bar shows three digits of each."""
    return ", ".join(f"{name}={value}" for name, value in {**dict(ordered_dict or ()), **named}.items())


def wanted() -> bool:
    """Return whether lines are looked at: no framework's callback gives their values."""
    return not process.led and not process.off


def take(text: Callable[[], str]) -> None:
    """Record the values in a text.

    Args:
        text: Returns it; may raise what the program's own objects raise.
    """
    try:
        whole = _COLOUR.sub("", text())
        if process.opened is None:  # no value has a step yet, but a table may begin
            for line in whole.splitlines()[:MAX_LINES]:
                table.values_of(line)
            return
        values = values_of(whole)
        if not values and len(whole) <= MAX_LINES * MAX_LINE and whole.count("\n") <= MAX_LINES:
            found = [values_of(line) or table.values_of(line) for line in whole.splitlines()]
            values = {name: value for each in found for name, value in each.items()}
            for name in [name for name in values if sum(name in each for each in found) > 1]:
                del values[name]  # nobody knows of which step each is
        process.record(values)
    except Exception:  # noqa: BLE001  the program's own objects
        return
