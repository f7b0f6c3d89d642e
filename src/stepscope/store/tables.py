"""Tables that trainers leave as files beside a run: JSON Lines or Parquet, usually one file a step.

TRL writes ``completions/completions_00001.parquet`` into its output directory (``log_completions=True``),
verl ``100.jsonl`` into ``trainer.rollout_data_dir`` and ``trainer.validation_data_dir``. The step of a row
is its column ``step``, else the number at the end of the file's name; files that have neither are no tables.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscope import lazy
from stepscope.errors import EventFileError, MissingPackageError
from stepscope.events.writer import is_compacted
from stepscope.files import regular_bytes, run_directory, without_waiting
from stepscope.store.log import Log

LINES, PARQUET = ".jsonl", ".parquet"
STEP = "step"
DEPTH = 3
"""Folders below a run that are looked into: ``completions/train/``, and one more."""
LINE_BYTES = 1 << 20
"""Of a first line, to see whether its row says its step."""
MAX_FILE_BYTES = 1 << 30
WRITE_LINES = "write one JSON object a line"
_NUMBERED = re.compile(r"(.*?)[_.-]?(\d{1,18})")

Columns = dict[str, list[Any]]
"""Cells by column, all equally many."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a table.

    Attributes:
        path: The file.
        step: The number at the end of its name; None: it has none.
        stamp: Time of its last change in nanoseconds, and its size.
    """

    path: str
    step: int | None
    stamp: tuple[int, int]

    def read(self) -> Columns:
        """Return its cells by column.

        Raises:
            EventFileError: It cannot be read.
            MissingPackageError: Nothing that reads Parquet is installed.
        """
        try:
            if not self.path.endswith(PARQUET):
                rows = rows_of(regular_bytes(self.path, MAX_FILE_BYTES))
                names = dict.fromkeys(name for row in rows for name in row)
                return {name: [row.get(name) for row in rows] for name in names}
            with lazy.needs("stepscope[frames]"):
                import polars as pl

            columns: Columns = pl.read_parquet(self.path, glob=False).to_dict(as_series=False)
            return columns
        except MissingPackageError:
            raise
        except Exception as error:  # noqa: BLE001  errors of polars are none of Python's
            raise EventFileError(
                f"cannot read {Path(self.path).name!r}: {error!s:.200}",
                hint="it may still be written; else write it again",
                path=self.path,
            ) from None


def rows_of(data: bytes) -> list[dict[str, Any]]:
    """Return the rows of JSON Lines; a last line that is being written is left out.

    Raises:
        ValueError: A line holds no JSON object.
    """
    *lines, last = data.split(b"\n")
    rows = []
    for number, line in enumerate([*lines, last], 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            if number > len(lines):
                break
            raise
        if not isinstance(row, dict):
            raise ValueError(f"line {number} is no object: {WRITE_LINES}")
        rows.append(row)
    return rows


def tables_beside(log: Log, run: str) -> dict[str, list[TableFile]]:
    """Return the tables that lie beside a run, each a list of files in the order of their names.

    Those in its own directory and in folders of it that are no runs; else those of the nearest folder above
    that is no run itself, and of folders directly in that one: TRL writes its event files to
    ``OUTPUT/runs/NAME`` and its tables to ``OUTPUT/completions``.
    """
    root = log.path
    runs = {run_directory(root, other.name) for other in log.runs()}
    folder, depth = run_directory(root, run), DEPTH
    while True:
        tables = tables_in(folder, depth, runs)
        above = folder.parent
        if tables or folder == root or above in runs:
            return tables
        folder, depth = above, 1


def tables_in(folder: Path, depth: int, runs: set[Path]) -> dict[str, list[TableFile]]:
    """Return the tables in a folder and so many levels of folders below it that hold no run."""
    tables: dict[str, list[TableFile]] = {}
    holders = {above for run in runs for above in (run, *run.parents)}
    for entry in sorted(entries(folder, depth, holders), key=lambda entry: entry.path):
        stem = entry.name.rpartition(".")[0]
        match = _NUMBERED.fullmatch(stem)
        prefix = match[1] if match else stem
        place = Path(entry.path).parent.relative_to(folder).as_posix()
        prefix = "" if prefix == place.rpartition("/")[2] else prefix
        name = "/".join(part for part in (place.removeprefix("."), prefix) if part) or "rows"
        if match is None and not says_step(entry.path):
            continue
        facts = entry.stat()
        file = TableFile(entry.path, int(match[2]) if match else None, (facts.st_mtime_ns, facts.st_size))
        tables.setdefault(name, []).append(file)
    return tables


def entries(folder: Path, depth: int, holders: set[Path]) -> Iterator[os.DirEntry[str]]:
    """Yield the files of tables in a folder and below it; what cannot be listed is left out."""
    try:
        listed = list(os.scandir(folder))
    except OSError:
        return
    for entry in listed:
        if entry.name.startswith("."):
            continue
        if entry.name.endswith((LINES, PARQUET)):
            if entry.is_file() and not is_compacted(entry.name):
                yield entry
        elif depth and entry.is_dir(follow_symlinks=False) and Path(entry.path) not in holders:
            yield from entries(Path(entry.path), depth - 1, holders)


def says_step(path: str) -> bool:
    """Return whether the first row of a file has a column ``step``."""
    if path.endswith(PARQUET):
        return False
    try:
        with open(path, "rb", opener=without_waiting) as file:
            row = json.loads(file.readline(LINE_BYTES))
    except (OSError, ValueError):
        return False
    return isinstance(row, dict) and STEP in row
