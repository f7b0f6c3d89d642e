"""Every point of some series, as CSV or JSON, made piece by piece so that no series is too long."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope.errors import UnknownRunError, UnknownTagError, UsageError
from stepscope.serve.reply import Refusal
from stepscope.serve.types import MAX_LINES
from stepscope.store.derive import derive

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.store import Log, Series

PIECE = 20_000
"""Points in one piece of the answer."""
CSV_HEAD = b"run,tag,writer,attempt,step,wall_time,value\r\n"


@dataclass(frozen=True)
class Download:
    """An answer that is still to be made."""

    chunks: Iterator[bytes]
    media_type: str
    file_name: str


def download(query: Iterable[tuple[str, str]], log: Log | None) -> Download:
    """Return the answer to ``points?run=&tag=…&format=``; each run goes with the tag at the same place.

    ``=`` before a tag makes it an expression.

    Raises:
        Refusal: The query is none, or the log does not hold what it names.
    """
    fields: dict[str, list[str]] = {}
    for name, value in query:
        fields.setdefault(name, []).append(value)
    if unknown := fields.keys() - {"run", "tag", "format"}:
        raise Refusal(400, f"unknown parameter {min(unknown)!r}", "use run, tag and format")
    runs, tags, form = fields.get("run", []), fields.get("tag", []), fields.get("format", ["json"])[-1]
    if form not in WRITERS:
        raise Refusal(400, f"format {form!r}: expected csv or json", "add format=csv or format=json")
    if not runs or len(runs) != len(tags) or len(runs) > MAX_LINES:
        raise Refusal(
            400,
            f"{len(runs)} runs and {len(tags)} tags: expected as many of each, 1 to {MAX_LINES}",
            "give each series as run=…&tag=…",
        )
    series = [each for run, tag in zip(runs, tags, strict=True) for each in series_of(log, run, tag)]
    write, media_type = WRITERS[form]
    return Download(write(series), media_type, f"{file_name(runs[0], tags[0], more=len(runs) - 1)}.{form}")


def series_of(log: Log | None, run: str, tag: str) -> list[Series]:
    """Return the series of a run's tag, one per writer and attempt.

    Raises:
        Refusal: There is none.
    """
    try:
        if log is not None:
            found = log.run(run)
            return derive(found, tag[1:]).series if tag.startswith("=") else found.columns(tag)
    except UsageError as error:
        raise Refusal(400, error.message, error.hint) from None
    except (UnknownRunError, UnknownTagError) as error:
        raise Refusal(404, error.message, error.hint) from None
    raise Refusal(404, f"no run {run!r}: nothing has been read yet", "try again in a moment")


def file_name(run: str, tag: str, *, more: int) -> str:
    """Return a name that every file system and header takes."""
    name = re.sub(r"[^A-Za-z0-9._=-]+", "-", f"{run}-{tag}").strip("-.")[:100] or "points"
    return f"{name}-and-{more}-more" if more else name


def csv_pieces(series: list[Series]) -> Iterator[bytes]:
    """Yield CSV: one row per point, values with as many digits as give the same number back."""
    yield CSV_HEAD
    for each in series:
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow([each.run, each.tag, each.writer, each.attempt])
        start = text.getvalue()
        step, wall, value = each.points.columns
        for rows in pieces(len(step)):
            points = zip(step[rows].tolist(), digits(wall[rows]), digits(value[rows]), strict=True)
            yield "".join([f"{start},{s},{w},{v}\r\n" for s, w, v in points]).encode()


def json_pieces(series: list[Series]) -> Iterator[bytes]:
    """Yield JSON: per series its columns; NaN and the infinities, for which JSON has no number, as text."""
    yield b'{"series":['
    for number, each in enumerate(series):
        head = {"run": each.run, "tag": each.tag, "writer": each.writer, "attempt": each.attempt}
        yield (b"," if number else b"") + msgspec.json.encode(head)[:-1]
        # Taken once: while the answer is on its way the series may grow.
        for name, column in zip(("step", "wall_time", "value"), each.points.columns, strict=True):
            yield from json_column(name, column)
        yield b"}"
    yield b"]}\n"


def json_column(name: str, column: NDArray[Any]) -> Iterator[bytes]:
    """Yield one column of a series."""
    yield f',"{name}":['.encode()
    for number, rows in enumerate(pieces(len(column))):
        yield (("," if number else "") + ",".join(json_digits(column[rows]))).encode()
    yield b"]"


def pieces(count: int) -> Iterator[slice]:
    """Yield the rows of a bounded number of points at a time."""
    for start in range(0, count, PIECE):
        yield slice(start, start + PIECE)


def digits(value: NDArray[Any]) -> list[str]:
    """Write numbers with the fewest digits that give them back in their own precision: 0.1 for a float32."""
    words: list[str] = value.astype(np.str_).tolist()
    finite = np.isfinite(value)
    if finite.all():
        return words
    names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return [word if ok else names[word] for word, ok in zip(words, finite.tolist(), strict=True)]


def json_digits(value: NDArray[Any]) -> Iterable[str]:
    """Write numbers for JSON."""
    words = digits(value)
    return (
        words if np.isfinite(value).all() else [f'"{word}"' if word[-1] in "Ny" else word for word in words]
    )


WRITERS: dict[str, tuple[Callable[[list[Series]], Iterator[bytes]], str]] = {
    "csv": (csv_pieces, "text/csv"),
    "json": (json_pieces, "application/json"),
}
