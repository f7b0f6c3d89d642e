"""``stepscope export``: every point of scalar series as csv, parquet or json."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope import lazy
from stepscope.cli.arguments import add_cache
from stepscope.cli.output import complain, not_readable
from stepscope.errors import UsageError
from stepscope.text import csv_cell, terminal_text

if TYPE_CHECKING:
    from stepscope.store import Series

FORMATS = ("csv", "parquet", "json")
COLUMNS = ("run", "tag", "writer", "attempt", "step", "wall_time", "value")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope export``."""
    parser.add_argument("log_dir", metavar="LOGDIR", help="the directory that TensorBoard would be given")
    parser.add_argument("--format", choices=FORMATS, help="default: by the ending of the output's name")
    parser.add_argument("--runs", default="", metavar="REGEX", help="only runs whose names match")
    parser.add_argument("--tags", default="", metavar="REGEX", help="only tags whose names match")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    add_cache(parser)
    parser.add_argument("--json", action="store_true", help="print what was written as JSON; needs -o")


def run(arguments: argparse.Namespace) -> None:
    """Write the points, in the order of runs, tags, writers and attempts, each as recorded.

    A line on standard error names each file that could not be read: its points are missing.

    Raises:
        LogDirectoryError: Not a directory, one that cannot be listed, or none of its series can be read.
        UsageError: No series matches, or the output cannot be written.
    """
    from stepscope import store

    form = format_of(arguments)
    with store.open(arguments.log_dir, cache=arguments.cache) as log:
        series = log.select(tags=arguments.tags, runs=arguments.runs)
        unread = log.unread
        if not series and unread:
            raise not_readable("no series can be exported", unread[0], arguments.log_dir)
        if not series:
            raise UsageError(
                f"no series matches --runs {arguments.runs!r} --tags {arguments.tags!r}",
                hint=f"to see what there is: stepscope ls --tags {arguments.log_dir}",
                path=arguments.log_dir,
            )
        with output(arguments.output) as file:
            {"csv": write_csv, "parquet": write_parquet, "json": write_json}[form](series, file)
        for problem in unread:
            complain(f"incomplete: {problem.text} ({problem.file})")
    if arguments.json:
        print(
            json.dumps({"files": [arguments.output], "series": len(series), "points": sum(map(len, series))})
        )


def format_of(arguments: argparse.Namespace) -> str:
    """Return the format that is asked for.

    Raises:
        UsageError: It cannot be told, or does not go with the output.
    """
    ending = Path(arguments.output or "").suffix[1:].lower()
    form = arguments.format or (ending if ending in FORMATS else "")
    if not form:
        raise UsageError("no format given", hint=f"add --format {'|'.join(FORMATS)}, or -o FILE.csv")
    if arguments.json and not arguments.output:
        raise UsageError(
            "the output of --json would be mixed with the points", hint="write these to a file: -o FILE"
        )
    if form == "parquet" and not arguments.output and sys.stdout.isatty():
        raise UsageError("parquet is not for a terminal", hint="write it to a file: -o FILE.parquet")
    return str(form)


@contextmanager
def output(path: str | None) -> Iterator[IO[bytes]]:
    """Open the output.

    Text for a terminal is escaped so that it cannot control it; a pipe gets it as it was recorded.

    Raises:
        UsageError: The file cannot be written.
    """
    if path is None and sys.stdout.isatty():
        yield TerminalFile(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with Path(path).open("wb") as file:
            yield file
    except OSError as error:
        raise UsageError(
            f"cannot write: {error.strerror or error}", hint="choose another file with -o", path=path
        ) from error


class TerminalFile(io.BytesIO):
    """A UTF-8 file whose writes, in whole lines, are safe for a terminal."""

    def __init__(self, to: IO[bytes]) -> None:
        super().__init__()
        self._to = to

    def write(self, data: Any, /) -> int:
        """Write some lines."""
        text = bytes(data).decode("utf-8", "surrogateescape")
        return self._to.write(terminal_text(text).encode("utf-8", "surrogateescape"))


def write_csv(series: list[Series], file: IO[bytes]) -> None:
    """Write a header and a line per point; non-finite values are ``NaN inf -inf``."""
    file.write((",".join(COLUMNS) + "\n").encode())
    for one in series:
        columns = one.points.columns
        names = ",".join(map(csv_cell, (one.run, one.tag, one.writer)))
        texts = (
            csv_numbers(columns.step.astype(np.int64)),
            csv_numbers(columns.wall),
            csv_numbers(columns.value),
        )
        rows = map(",".join, zip(*texts, strict=True))
        start = f"{names},{one.attempt},"
        file.write("".join(f"{start}{row}\n" for row in rows).encode())


def csv_numbers(column: np.ndarray[Any, Any]) -> list[str]:
    """Return the shortest text of each number that is read back as the same number."""
    if column.itemsize < 8:
        texts: list[str] = column.astype("U16").tolist()
    elif np.isfinite(column).all():  # four times as fast as one by one
        return msgspec.json.encode(column.tolist()).decode()[1:-1].split(",")
    else:
        texts = list(map(repr, column.tolist()))
    for at in np.flatnonzero(np.isnan(column)):
        texts[at] = "NaN"
    return texts


def write_parquet(series: list[Series], file: IO[bytes]) -> None:
    """Write one table of all points."""
    from stepscope.store.frame import recorded_frame

    with lazy.needs("stepscope[frames]"):
        import polars as pl

    frames = [recorded_frame(one, one.points.columns).select(COLUMNS) for one in series]
    pl.concat(frames, how="vertical_relaxed").write_parquet(file)


def write_json(series: list[Series], file: IO[bytes]) -> None:
    """Write a list with one object of columns per series; non-finite values are TensorBoard's strings."""
    for number, one_series in enumerate(series):
        facts = {
            "run": one_series.run,
            "tag": one_series.tag,
            "writer": one_series.writer,
            "attempt": one_series.attempt,
        }
        columns = one_series.points.columns
        points = {
            "step": columns.step.tolist(),
            "wall_time": numbers(columns.wall),
            "value": numbers(columns.value),
        }
        file.write(b"[" if number == 0 else b",\n")
        file.write(json.dumps({**facts, **points}, allow_nan=False, separators=(",", ":")).encode())
    file.write(b"]\n")


def numbers(column: np.ndarray[Any, Any]) -> list[float | str]:
    """Return a column as JSON can carry it."""
    if np.isfinite(column).all():
        return list(column.tolist())
    names = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    return ["NaN" if value != value else names.get(value, value) for value in column.tolist()]
