"""Records of other tools become the series of a run: which field counts the steps, which one is the time.

A record is a row of a table, an object of JSON, or what a tracker was called with. No format says what its
fields mean, so that follows from their values, and from their names by the rules that hold everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from stepscope.launch.lines import place_of
from stepscope.names.kinds import metric_kind
from stepscope.names.splits import WORDS, words_of

Cell: TypeAlias = float | int | str
Record: TypeAlias = Mapping[str, Cell]
"""A record without its empty fields."""
DIGITS = 18
"""Digits of a whole number that a step can be."""
LEAST_BEYOND = 10**DIGITS
MOST_BITS = 1023
"""Longest whole number that a float can be."""
SERIES_NAMES = frozenset({"tag", "metric", "key", "name", "series"})
"""Names of a field that says of which series a record's only value is."""
RUN_NAMES = frozenset({"run", "run_name", "experiment", "trial"})
"""Names of a field that says of which run a record is."""
RATES: tuple[tuple[float, float], ...] = ((1e9, 1.0), (1e12, 1e-3), (1e15, 1e-6), (1e18, 1e-9))
"""Seconds since 1970 are above 1e9 since 2001, and will be below four times that until 2096: the same holds
for milliseconds, microseconds and nanoseconds. The second number turns each into seconds.
"""


class Row(NamedTuple):
    """The values of one step.

    Attributes:
        step: The step.
        wall_time: Seconds since 1970.
        values: By tag.
    """

    step: int
    wall_time: float
    values: dict[str, float]


@dataclass
class Log:
    """A run of another tool.

    Attributes:
        name: Of the run.
        rows: In the order in which they were recorded.
        settings: Its configuration.
        steps_by: The field that counts the steps; empty if the rows are counted.
        times_by: The field of the times; empty if all rows have the time of the file.
        left_out: Reasons by field whose values are in no series.
        told: Whether a name says that this is the log of a training.
    """

    name: str
    rows: list[Row]
    settings: dict[str, Any] = field(default_factory=dict)
    steps_by: str = ""
    times_by: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    told: bool = False

    @property
    def points(self) -> int:
        """How many numbers it has."""
        return sum(len(row.values) for row in self.rows)

    @property
    def tags(self) -> list[str]:
        """The names of its series, in the order of their first values."""
        return list(dict.fromkeys(tag for row in self.rows for tag in row.values))


def number(text: str) -> float | int | None:
    """Return a cell as the number that it is, None for any other text."""
    try:
        whole = int(text) if len(text) <= DIGITS and text.lstrip("+-").isdecimal() else None
        return float(text) if whole is None else whole
    except ValueError:
        return None


def cell(value: Any) -> Cell | None:
    """Return a value of JSON or of a table as a cell, None if it is empty or no number and no text."""
    if isinstance(value, str):
        text = value.strip()
        known = number(text)
        return (text or None) if known is None else known
    if type(value) is int and abs(value) >= LEAST_BEYOND:  # JSON has numbers of any length
        return str(value) if value.bit_length() > MOST_BITS else float(value)
    return value if type(value) in (int, float) else None


def flattened(record: Mapping[str, Any], before: str = "") -> dict[str, Cell]:
    """Return the cells of nested objects, each named by its path."""
    cells: dict[str, Cell] = {}
    for key, value in record.items():
        name = f"{before}{str(key).strip()}"
        if isinstance(value, Mapping):
            cells |= flattened(value, f"{name}/")
        elif (content := cell(value)) is not None:
            cells[name] = content
    return cells


def logs_from(
    records: Sequence[Record], name: str, written: float, settings: Mapping[str, Any] | None = None
) -> list[Log]:
    """Return the runs in records, several if a field names the run of each.

    Args:
        records: In the order in which they were recorded.
        name: Of the run, or of those that a field names.
        written: When the last one was, in seconds since 1970.
        settings: The configuration.
    """
    long = _long_form(records)
    if long is None:
        return [_log(records, name, written, settings)]
    value, series, run = long
    parts: dict[str, dict[str, list[Record]]] = {}
    for record in records:
        tag = str(record[series]) if series in record else name.rpartition("/")[2]
        row = {key: content for key, content in record.items() if _counts(key) or _is_time_name(key)}
        if value in record:
            row[tag] = record[value]
        parts.setdefault(str(record.get(run, "")), {}).setdefault(tag, []).append(row)
    return [
        _joined(
            {
                tag: _log(rows, "/".join(filter(None, (name, of_run))), written, settings)
                for tag, rows in tags.items()
            },
            records,
            long,
        )
        for of_run, tags in parts.items()
    ]


def _joined(logs: Mapping[str, Log], records: Sequence[Record], long: tuple[str, str, str]) -> Log:
    """Return one log of several series, each of which counts its own steps; other fields are left out."""
    whole = max(logs.values(), key=lambda log: (bool(log.steps_by), bool(log.times_by)))
    rows = [
        row._replace(values={tag: row.values[tag]})
        for tag, log in logs.items()
        for row in log.rows
        if tag in row.values
    ]
    whole.rows = sorted(rows, key=lambda row: row.wall_time if whole.times_by else row.step)
    whole.told = any(log.told for log in logs.values())
    used = {*long, whole.steps_by, whole.times_by}
    beside = dict.fromkeys(name for record in records for name in record if name not in used)
    whole.left_out = dict.fromkeys(beside, "it stands beside the value")
    return whole


def _long_form(records: Sequence[Record]) -> tuple[str, str, str] | None:
    """Return the fields of the value, of its series and of its run, if each record has one value."""
    by_name = {name.lower(): name for record in records for name in record}
    value = by_name.get("value", "")
    series = next((by_name[name] for name in by_name if name in SERIES_NAMES), "")
    run = next((by_name[name] for name in by_name if name in RUN_NAMES), "")
    others = [name for name in by_name.values() if name not in (value, series, run)]
    beside = [name for name in others if not (_counts(name) or _is_time_name(name))]
    if not value or (beside and not series):
        return None
    return value, series, run


def _log(records: Sequence[Record], name: str, written: float, settings: Mapping[str, Any] | None) -> Log:
    numbers, log = _numbers(records, name)
    log.settings = dict(settings or {})
    clocks = {name for name, values in numbers.items() if _rate(name, values) or _is_elapsed(name, values)}
    log.steps_by, steps = _steps(records, {name: numbers[name] for name in numbers if name not in clocks})
    log.times_by, times = _times(records, numbers, written)
    used = {log.steps_by, log.times_by, *clocks}
    split = _split_field(records)
    for name in (split, log.steps_by, log.times_by):
        log.left_out.pop(name, None)
    for at, record in enumerate(records):
        before = f"{record[split]}/" if split in record else ""
        values = {
            (key if _counts(key) else before + key): float(content)
            for key, content in record.items()
            if key not in used and key in numbers and not isinstance(content, str)
        }
        if values:
            log.rows.append(Row(steps[at], times[at], values))
    log.told = bool(log.steps_by and _counts(log.steps_by)) or any(
        metric_kind(tag, None) in ("loss", "score") for tag in log.tags
    )
    return log


def _numbers(records: Sequence[Record], name: str) -> tuple[dict[str, list[tuple[int, float]]], Log]:
    """Return the numbers of each field with the places of their records, and a log that says what is none."""
    numbers: dict[str, list[tuple[int, float]]] = {}
    texts: dict[str, int] = {}
    for at, record in enumerate(records):
        for key, content in record.items():
            if isinstance(content, str):
                texts[key] = texts.get(key, 0) + 1
            else:
                numbers.setdefault(key, []).append((at, content))
    log = Log(name, [])
    for key, count in texts.items():
        log.left_out[key] = f"{count} of its values {'is' if count == 1 else 'are'} text"
    return numbers, log


def _counts(name: str) -> bool:
    """Return whether a name says that its values count steps, epochs, examples or the like."""
    kind = metric_kind(name, None)
    if kind != "other":
        return kind == "counter"
    return any(metric_kind(word, None) == "counter" or place_of(f"{word} 1") for word in words_of(name))


def _steps(
    records: Sequence[Record], numbers: Mapping[str, list[tuple[int, float]]]
) -> tuple[str, list[int]]:
    """Return the field that counts the steps, and the step of each record.

    It has whole numbers that never fall, but to a beginning, as batches do in each epoch: then they go on.
    Of several fields the one with the most different numbers counts the finest.
    """
    best: tuple[tuple[bool, bool, int, bool], str, list[int]] | None = None
    for name, values in numbers.items():
        kind = metric_kind(name, None)
        named = _counts(name)
        if len(values) * 2 < len(records) or not (named or kind == "other"):
            continue
        if not all(0 <= value < LEAST_BEYOND and value == math.floor(value) for _, value in values):
            continue
        counts = _unrolled([int(value) for _, value in values], restarts=named)
        different = 0 if counts is None else len(set(counts))
        if counts is None or (different < 2 and len(records) > 1 and not named):
            continue
        even = len(values) > 2 and len({now - before for before, now in pairwise(counts)} | {0}) == 2
        if not named and not (even and different == len(values)):
            continue  # a number that rises, as a return may; a count without a name rises evenly
        is_step = bool({"step", "steps", "timesteps"} & set(words_of(name)))
        rank = (len(values) == len(records), named, different, is_step)
        if best is None or rank > best[0]:
            best = rank, name, _filled(counts, [at for at, _ in values], len(records))
    if best is None:
        return "", list(range(len(records)))
    return best[1], best[2]


def _unrolled(counts: list[int], *, restarts: bool) -> list[int] | None:
    """Return counts that go on where they begin anew; None if they fall to anything else."""
    base, unrolled = 0, counts[:1]
    for before, now in pairwise(counts):
        if now < before:
            if not restarts:
                return None
            if now <= max(counts[0], 1):
                base = min(base + before, LEAST_BEYOND)
        unrolled.append(base + now)
    return unrolled


def _filled(counts: list[int], places: list[int], size: int) -> list[int]:
    """Return a count for each record: one that has none has that of the record before, or of the first."""
    filled, known = [], dict(zip(places, counts, strict=True))
    now = counts[0]
    for at in range(size):
        now = known.get(at, now)
        filled.append(now)
    return filled


def _times(
    records: Sequence[Record], numbers: Mapping[str, list[tuple[int, float]]], written: float
) -> tuple[str, list[float]]:
    """Return the field of the times, and the time of each record in seconds since 1970."""
    for name, values in numbers.items():
        if len(values) == len(records) and (rate := _rate(name, values)):
            return name, [value * rate for _, value in values]
    for name in dict.fromkeys(name for record in records for name in record):
        stamps = [timestamp(record.get(name)) for record in records]
        if all(stamp is not None for stamp in stamps):
            return name, [stamp for stamp in stamps if stamp is not None]
    for name, values in numbers.items():
        if len(values) == len(records) > 1 and _is_elapsed(name, values):
            return name, [written - values[-1][1] + value for _, value in values]
    return "", [written] * len(records)


def _is_time_name(name: str) -> bool:
    return bool({"time", "timestamp", "date", "datetime", "walltime", "runtime"} & set(words_of(name)))


def _rate(name: str, values: list[tuple[int, float]]) -> float:
    """Return what turns times since 1970 into seconds; 0 if the values are none."""
    if not _is_time_name(name):
        return 0.0
    return next(
        (rate for least, rate in RATES if all(least <= value < 4 * least for _, value in values)), 0.0
    )


def timestamp(content: Cell | None) -> float | None:
    """Return a date with a time as seconds since 1970, None for any other text."""
    if not isinstance(content, str) or len(content) < len("2000-01-01T00:00"):
        return None
    try:
        return datetime.fromisoformat(content.replace(",", ".").removesuffix("Z")).timestamp()
    except (ValueError, OverflowError):
        return None


def _is_elapsed(name: str, values: list[tuple[int, float]]) -> bool:
    """Return whether values are the seconds since a training began: those never fall, as durations may."""
    last = words_of(name)[-1:]
    # Durations of steps may rise by chance in a short table.
    least = 2 if {"elapsed", "runtime", "walltime"} & set(last) else 5 if last == ["time"] else None
    if least is None or len(values) < least:
        return False
    return all(0 <= before < after for (_, before), (_, after) in pairwise(values))


def _split_field(records: Sequence[Record]) -> str:
    """Return the field of texts that says of which split each record is; empty if there is none."""
    for name in dict.fromkeys(name for record in records for name in record):
        texts = [record[name] for record in records if name in record]
        if len(texts) * 2 > len(records) and all(
            isinstance(text, str) and text.lower() in WORDS for text in texts
        ):
            return name
    return ""
