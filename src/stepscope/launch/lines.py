"""Values in the lines that a program prints or logs, such as ``step 100 loss 0.34``.

A line has fields of a label, a sign or a space, and a number. The number is a value if the label names a
metric. Words before may name the part of the data for the fields that follow: ``Test set: loss 0.2``. Lines
of numbers alone are the rows of a table if the line of its names came before.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from stepscope.names.kinds import metric_kind
from stepscope.names.roles import Meaning, is_metric, meaning_of
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
_APART = re.compile(r"\s{2,}|\t|\s*[|│]\s*")
"""Between the columns of a table whose names have several words."""
_COMMA = re.compile(r"\s*[,;]\s*")
"""Between the columns of a table in the format of a file."""
_CELL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf|\d+:\d\d(?::\d\d)?|\d+(?:\.\d+)?[smh]")
"""A number or a time, in a row of a table."""
_TIME = re.compile(r":|[smh]$")
"""Matches in a cell that is a time."""
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
    certain, parts = _values_in(_DIGITS.sub("0", line))
    digits = _DIGITS.findall(line) if certain else []
    formats = {_format_of(value, digits) for value in certain if parts and _is_loss(value.name)}
    for value in (*certain, *(part for part in parts if _format_of(part, digits) in formats)):
        name, text, which, whole, factor = value
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
def _values_in(shape: str) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Return the values in lines that differ in their digits alone, and what may be parts of a loss."""
    fields = _Fields(shape.replace("'s ", " "))  # as ``valid_0's auc: 0.9``
    return tuple(fields.values.values()), tuple(fields.parts.values())


def _meaning_of(name: str) -> Meaning | None:
    """Return the meaning of a name, None if only its kind is known: that may be a word of a sentence."""
    meaning = meaning_of(name)
    by_kind = meaning is not None and meaning.role == "metric" and metric_kind(name, None) == "score"
    return None if by_kind and split_tag(name).split is None and not is_metric(name) else meaning


def _is_loss(name: str) -> bool:
    return metric_kind(name, None) == "loss"


def _format_of(value: Value, digits: list[str]) -> tuple[tuple[str, str], tuple[int, ...]]:
    """Return how a number is written: whether with an exponent, and how many digits its fraction has."""
    return value.text.lstrip("-+").lower().partition("e")[:2], tuple(map(len, digits[value.digits][1:2]))


class Place(NamedTuple):
    """How far a training is, as a line says it.

    Attributes:
        coarse: The number of the epoch or the episode, None if the line has none.
        fine: The number of the step or the batch, within the epoch or not, None if the line has none.
        named: Whether a word says what the number counts, or only its brackets at the line's beginning do.
        alone: Whether the line has no other number but a total, as a heading does.
    """

    coarse: int | None
    fine: int | None
    named: bool
    alone: bool


_COARSE = "epoch|ep|episode|round|generation|gen"
_FINE = "step|iteration|iter|it|update|time_?step|global_?step|batch"
_PLACE = re.compile(
    rf"(?<![\w/.-])(?:(?P<coarse>{_COARSE})|(?P<fine>{_FINE}))s?[\"']?\s*[:=#]?\s*[\[(]?\s*"
    r"(?P<number>0)(?![\w@]|\.\d|\s?%)(?:\s*(?:/|of)\s*0)?[\])]?(?:\s*\[\s*(?P<within>0)\s*/\s*0)?",
    re.IGNORECASE,
)
"""A number that counts epochs or steps, and that of the batch after it, as in ``Epoch: 1 [640/60000]``."""
_BARE = re.compile(
    r"\s*\[\s*(?P<coarse>0)(?:(?:/0)?\]\s*\[|,)\s*(?P<within>0)(?:/0)?\]|\s*\[(?P<fine>0)(?:/0)?\]|(?P<first>0):\s"
)
"""Numbers in brackets at the beginning of a line, as ``[0/5][50/1583]`` and ``[10]``, or before a colon."""
_WITHIN = re.compile(r"[\[\]|│]\s*(?P<within>0)\s*/\s*0")
"""A batch among all of an epoch, as in ``loss: 0.3  [640/60000]``, ``| 200/2928 |`` and ``[###  ] 3/5``."""


def place_of(line: str) -> Place | None:
    """Return how far a training is, None if the line does not say it."""
    if len(line) > MAX_LINE:
        return None
    coarse, fine, named, alone = _place_in(_DIGITS.sub("0", line))
    if coarse is None and fine is None:
        return None
    digits = _DIGITS.findall(line)
    epoch, step = (None if at is None else int(digits[at]) for at in (coarse, fine))
    return Place(epoch, step, named, alone)


@lru_cache(maxsize=1 << 10)
def _place_in(shape: str) -> tuple[int | None, int | None, bool, bool]:
    """Return which runs of digits count epochs and steps in lines that differ in their digits alone."""
    places: dict[str, int] = {}
    runs = 0

    def take(kind: str, match: re.Match[str], group: str) -> None:
        if match[group] is not None:
            places.setdefault(kind, len(_DIGITS.findall(shape[: match.start(group)])))

    for match in _PLACE.finditer(shape):
        runs += len(_DIGITS.findall(match[0]))
        take("coarse" if match["coarse"] else "fine", match, "number")
        take("fine", match, "within")
    named = bool(places)
    if not named and (bare := _BARE.match(shape)):
        take("coarse", bare, "coarse")
        for group in ("within", "fine", "first"):
            take("fine", bare, group)
    if not places.keys() - {"coarse"} and (batch := _WITHIN.search(shape)):
        take("fine", batch, "within")
    return places.get("coarse"), places.get("fine"), named, named and runs == len(_DIGITS.findall(shape))


class Table:
    """The table that is being printed, of which each line is a row.

    Attributes:
        names: Of the columns; empty if none was begun.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._by_commas = False

    def _cells(self, line: str) -> list[str]:
        return _COMMA.split(line.strip()) if self._by_commas else _BAR.sub(" ", line).split()

    def values_of(self, line: str) -> dict[str, float]:
        """Return the values of the metrics in a row; nothing in any other line.

        Args:
            line: Of a program's output, in its order.
        """
        if len(line) > MAX_LINE:
            return {}
        bare = _BAR.sub(" ", line)
        words, columns = bare.split(), _COMMA.split(bare.strip())
        if all(_WORD.fullmatch(word) for column in columns for word in column.split() or [""]):
            apart = ["_".join(cell.split()) for cell in _APART.split(line.strip()) if cell]
            by_commas = ["_".join(column.split()) for column in columns]
            listed = len(columns) > 1  # perhaps by a sentence, unless the first counts
            for names in (by_commas,) if listed else (apart, words):  # such as ``Iter  Train Loss  Time``
                roles = [meaning.role if (meaning := _meaning_of(name)) else None for name in names]
                counted = _PLACE.match(f"{names[0]} 0") is not None
                metrics = sum(role in ROLES for role in roles)
                if len(names) > 1 and metrics and (counted or (metrics > 1 and not listed)):
                    self.names, self._by_commas = names, listed
                    break
        cells = self._cells(line)
        if len(cells) != len(self.names) or not all(_CELL.fullmatch(cell) for cell in cells):
            return {}
        return {
            name: float(cell)
            for name, cell in zip(self.names, cells, strict=True)
            if (meaning := _meaning_of(name)) and meaning.role in ROLES and not _TIME.search(cell)
        }

    def place_of(self, line: str) -> Place | None:
        """Return how far the training is, if the first column of the row counts that."""
        first = self._cells(line)[0]
        return place_of(f"{self.names[0]} {first}") if first.isdigit() else None


class _Fields:
    """Reads one line from its beginning to its end.

    Args:
        shape: The line with a 0 for each run of digits that is no part of a word.

    Attributes:
        values: By name. A name that occurs twice has no value: which of the two is meant is unknown.
        parts: Abbreviations in capitals beside a loss, such as ``PDE: 3e-2``, by name. They are its parts if
            they are written in the same format.
    """

    def __init__(self, shape: str) -> None:
        self.values: dict[str, Value] = {}
        self.parts: dict[str, Value] = {}
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
                short = self._words[-1] if self._signed and len(self._words) == 1 else None
                metric = self._number(token)
                if metric is None and short is not None and _is_part(short):
                    self.parts[short] = _value(short, shape, token)
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
        if not any(map(_is_loss, self.values)):
            self.parts.clear()

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
                return _named([word for word in self._words[:at] if word is not None])
        return None


def _is_part(word: str) -> bool:
    """Return whether a word is an abbreviation in capitals that means nothing else, such as a time."""
    return len(word) > 1 and word.isalpha() and word.isupper() and metric_kind(word, None) == "other"


def _value(name: str, shape: str, token: re.Match[str]) -> Value:
    before = len(_DIGITS.findall(shape[: token.start("number")]))
    text, whole = (_DIGITS.sub("{}", token[part] or "") for part in ("number", "whole"))
    until = before + text.count("{}") + whole.count("{}")
    return Value(name, text, slice(before, until), whole and "/" + whole, 0.01 if token["percent"] else 1.0)


def _named(words: list[str]) -> Metric | None:
    """Return the metric whose name ends some words."""
    if words and words[-1].lower() in _EVERYDAY:
        meant = [word for word in words if word.lower() not in _UNNAMED]
        if _meaning_of("_".join(meant[-MAX_WORDS:])) is None:
            return None  # such as ``time cost``
    for length in range(1, min(len(words), MAX_WORDS) + 1):
        name = "_".join(words[-length:])
        meaning = None if "." in name else _meaning_of(name)  # a file, a module
        if meaning is not None and meaning.role in ROLES and (length == 1 or meaning.role != "part_loss"):
            by_kind = meaning.role == "metric" and _is_loss(name)  # an error, which may be one of the program
            return Metric(_name(words, length), "" if by_kind else meaning.role)
    if words and "." not in words[-1] and metric_kind(words[-1], None) in ("loss", "score"):
        return Metric(_name(words, 1), "")
    return None


def role_of(tag: str) -> str | None:
    """Return the role of a value's name, empty if only its kind is known, None if it is not a metric's.

    Args:
        tag: As ``values_of`` gives it.
    """
    metric = _named(re.split("[/_]", tag))
    return None if metric is None else metric.role


def _name(words: list[str], length: int) -> str:
    """Return the name of a metric whose own name has some words: in a sentence, that and its part alone."""
    chosen = words
    if len(words) > MAX_WORDS:
        before = [word for word in words[-length - 2 : -length] if word.lower() in WORDS]
        chosen = [*before[-1:], *words[-length:]]
    return "_".join(word for word in chosen if word.lower() not in _UNNAMED)


def _part_of(words: list[str]) -> str | None:
    """Return the word for a part of the data among others."""
    for word in words:
        plain = word.lower()
        if plain in WORDS and (plain not in AMBIGUOUS or len(words) < MAX_WORDS):
            return word
    return None
