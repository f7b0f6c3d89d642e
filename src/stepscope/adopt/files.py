"""Files of other tools: tables, JSON, lines of a console, and what trackers keep."""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stepscope.adopt.log import Cell, Log, Record, cell, flattened, logs_from, number, timestamp
from stepscope.adopt.trackers import MLFLOW, SQLITE, WANDB, mlflow_runs, sqlite_runs, wandb_run
from stepscope.errors import LogDirectoryError
from stepscope.events.writer import EVENTS
from stepscope.launch.lines import Table, place_of, values_of
from stepscope.launch.plain import TIMES, Steps
from stepscope.text import CONTROLS

SUFFIXES = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".log", ".out", ".txt", ".wandb", ".db"})
"""Endings of files that are looked at in a directory."""
DELIMITERS = ",\t;"
LEAST_ROWS = 2
_STAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?")
KNOWN = (
    "known are tables with a line of names (CSV, TSV), JSON with a list of objects, JSON lines, lines of a "
    "console such as 'step 100 loss 0.34', W&B's .wandb files, mlruns and databases of MLflow, and databases "
    "of trackio"
)


def logs_in(path: str | os.PathLike[str]) -> tuple[list[Log], dict[str, str]]:
    """Return the runs that other tools have left in a directory and below it, or in one file.

    Returns:
        The runs, and the reasons by file whose content is none; in a directory, a table without a loss, a
        score or a count of steps is none.

    Raises:
        LogDirectoryError: There is no such file, or it holds no log of a training.
    """
    path = Path(path)
    if not path.is_dir():
        return logs_of(path), {}
    logs: list[Log] = []
    others: dict[str, str] = {}
    for file in _files(path):
        try:
            read = logs_of(file, _name(file, path))
        except LogDirectoryError as error:
            others[os.fspath(file)] = str(error)
            continue
        logs += [log for log in read if log.told]
        if not all(log.told for log in read):
            others[os.fspath(file)] = "no field names a loss, a score or a count of steps"
    if not logs:
        raise LogDirectoryError("no log of a training in this directory", path=path, hint=KNOWN)
    return logs, others


def _files(directory: Path) -> Iterator[Path]:
    for where, directories, names in os.walk(directory):
        here = Path(where)
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        if any(EVENTS in name for name in names):
            directories.clear()  # a run already, and what belongs to it
            continue
        if MLFLOW in names and "metrics" in directories:
            yield here
            directories.clear()
            continue
        yield from (here / name for name in sorted(names) if Path(name).suffix.lower() in SUFFIXES)


def _name(file: Path, directory: Path) -> str:
    return file.relative_to(directory).with_suffix("").as_posix() if file != directory else file.name


def logs_of(path: str | os.PathLike[str], name: str = "") -> list[Log]:
    """Return the runs in a file of another tool.

    Args:
        path: The file, or the directory of a run of MLflow.
        name: Of the run; by default the names of the file's directory and of the file.

    Raises:
        LogDirectoryError: There is no such file, or it holds no log of a training.
    """
    path = Path(path)
    name = name or "/".join(filter(None, (path.absolute().parent.name, path.stem)))
    try:
        logs = _read(path, name)
    except LogDirectoryError:
        raise
    except OSError as error:
        raise LogDirectoryError(
            f"cannot be read: {error.strerror}", hint="check the path and its permissions", path=path
        ) from error
    except RecursionError as error:
        raise LogDirectoryError(
            "its objects are nested too deeply for a log", hint=KNOWN, path=path
        ) from error
    logs = [log for log in logs if log.rows]
    if not logs:
        raise LogDirectoryError("no log of a training is in this file", path=path, hint=KNOWN)
    return logs


def _read(path: Path, name: str) -> list[Log]:
    if path.is_dir():
        return mlflow_runs(path, name)
    written = path.stat().st_mtime
    with path.open("rb") as file:
        begin = file.read(len(SQLITE))
    if begin.startswith(WANDB):
        return wandb_run(path, name, written)
    if begin == SQLITE:
        return sqlite_runs(path, name, written)
    text = path.read_bytes().decode("utf-8-sig", "replace")
    if "\0" in text[:1024]:
        raise LogDirectoryError("neither text nor a file of a tracker that is known", path=path, hint=KNOWN)
    for records_of in (_json_records, _table_records):
        if records := records_of(text):
            return logs_from(records, name, written)
    return logs_from(_line_records(text), name, written)


def _json_records(text: str) -> list[Record]:
    """Return the objects of JSON lines, or of the longest list in a document; columns become objects."""
    begin = text.lstrip()[:1]
    if begin not in ("{", "["):
        return []
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return [flattened(record) for line in text.splitlines() if (record := _json_object(line)) is not None]
    lists = (
        [document]
        if isinstance(document, list)
        else [value for value in document.values() if isinstance(value, list)]
    )
    rows = max(lists, key=lambda rows: sum(isinstance(row, dict) for row in rows), default=[])
    if any(isinstance(row, dict) for row in rows):
        return [flattened(row) for row in rows if isinstance(row, dict)]
    if isinstance(document, list):
        return []
    columns = {name: values for name, values in document.items() if isinstance(values, list)}
    return [
        {
            name: content
            for name, values in columns.items()
            if at < len(values) and (content := cell(values[at])) is not None
        }
        for at in range(max(map(len, columns.values()), default=0))
    ]


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None  # a torn last line, or one of another program
    return record if isinstance(record, dict) else None


def _table_records(text: str) -> list[Record]:
    """Return the rows of a table: below a line of names, nearly all lines have as many fields as it has."""
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        del lines[0]
    for delimiter in DELIMITERS:
        if not lines or delimiter not in lines[0]:
            continue
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row]
        except csv.Error:  # a field of more than 128 KiB, and so no table of numbers
            continue
        names = [name.strip() for name in rows[0]]
        whole = [row for row in rows[1:] if len(row) == len(names)]
        if len(whole) < LEAST_ROWS or len(whole) * 10 < (len(rows) - 1) * 9:
            continue
        if all(number(name) is not None for name in names) or len(set(names)) < len(names):
            continue
        records: list[Record] = [
            {
                name: content
                for name, text in zip(names, row, strict=True)
                if (content := cell(text)) is not None
            }
            for row in whole
        ]
        if any(not isinstance(content, str) for record in records for content in record.values()):
            return records
    return []


def _line_records(text: str) -> Sequence[Record]:
    """Return the values in the lines of a console, as they are taken from a program that runs.

    Most texts with numbers tell of no training, so a metric must come as often as in such a program.
    """
    steps, table = Steps(), Table()
    records: list[dict[str, Cell]] = []
    times: Counter[str] = Counter()
    stamp: dict[str, Cell] = {}
    for line in CONTROLS.sub("", text).replace("\r", "\n").split("\n"):
        values, place = values_of(line), place_of(line)
        if not values and (values := table.values_of(line)):
            place = table.place_of(line)
        if place is not None and (values or place.alone or records):
            steps.at(place.coarse, place.fine)
        if (match := _STAMP.search(line)) and timestamp(match[0]) is not None:
            stamp = {"timestamp": match[0]}
        if values:
            records.append({**values, **({} if steps.now is None else {"step": steps.now}), **stamp})
            times.update(values.keys())
    return records if times and max(times.values()) >= TIMES else ()
