"""Every point of some series, as CSV or JSON, made piece by piece so that any length is possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from starlette.requests import Request

from stepscope.errors import ExpressionError
from stepscope.expression import parse, tags_of
from stepscope.serve.encode import encoded
from stepscope.serve.lines import mistake, other_series
from stepscope.serve.reply import File, Refusal, refusing, run_of
from stepscope.serve.routes import JSON, get
from stepscope.serve.types import MAX_LINES, ExpressionAnswer, PointsAnswer
from stepscope.store import Log
from stepscope.store.derive import across, derive
from stepscope.text import counted, csv_cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.store import Series

    Placed = tuple[Series, NDArray[np.float64] | None]

PIECE = 20_000
"""Points in one piece of the answer."""
CSV_HEAD = "run,tag,writer,attempt,step,wall_time,value"


@get("expression")
def expression_answer(
    text: Annotated[str, Meta(description="an expression over tags")] = "",
) -> ExpressionAnswer:
    """Return the tags of an expression, or its error."""
    try:
        tags = tags_of(parse(text))
    except ExpressionError as error:
        return ExpressionAnswer([], mistake(text, error))
    return ExpressionAnswer(list(dict.fromkeys(tag.name for tag in tags)), None)


@get("points", PointsAnswer, media=(JSON, "text/csv"), strict=True)
def download(
    log: Log | None,
    run: Annotated[list[str], Meta(description="names of runs, each with the tag at the same position")],
    tag: Annotated[list[str], Meta(description="as many tags; a leading = makes one an expression")],
    format: Literal["csv", "json"] = "json",  # noqa: A002  its name in the query
    x_tag: Annotated[
        str | None, Meta(description="a tag whose value at each point is an additional column")
    ] = None,
) -> File:
    """Return every point of some series.

    Raises:
        Refusal: The log lacks a named series.
    """
    if len(run) != len(tag) or len(run) > MAX_LINES:
        raise Refusal(
            400,
            f"{counted(len(run), 'run')} and {counted(len(tag), 'tag')}: "
            f"expected as many of each, 1 to {MAX_LINES}",
            "give each series as run=…&tag=…",
        )
    series = [one for name, own in zip(run, tag, strict=True) for one in series_of(log, name, own)]
    write, media_type = WRITERS[format]
    return File(
        write(placed(log, series, x_tag), x_tag),
        media_type,
        f"{file_name(run[0], tag[0], more=len(run) - 1)}.{format}",
    )


@get("report", media=("text/html",))
async def report(request: Request, run: Annotated[str, Meta(description="name of a run")]) -> File:
    """Return a run as one HTML file."""
    from stepscope.serve import report

    with refusing():
        made, name = await report.of_run(request.app.state.application, run)
    return File(made, "text/html", name)


def series_of(log: Log | None, run: str, tag: str) -> list[Series]:
    """Return the series of a run's tag, one per writer and attempt.

    Raises:
        Refusal: There is none.
    """
    with refusing():
        _, stored = run_of(log, run)
        literal = not tag.startswith("=") or tag in stored.tags()
        return stored.columns(tag) if literal else derive(stored, tag[1:]).series


def file_name(run: str, tag: str, *, more: int) -> str:
    """Return a name that every file system and header takes."""
    name = re.sub(r"[^A-Za-z0-9._=-]+", "-", f"{run}-{tag}").strip("-.")[:100] or "points"
    return f"{name}-and-{more}-more" if more else name


def placed(log: Log | None, series: list[Series], x_tag: str | None) -> list[Placed]:
    """Return each series with its x on another tag's values, if one is named."""
    if x_tag is None:
        return [(line, None) for line in series]
    return [(line, across(line, other_series(log, line.run, x_tag)).x) for line in series]


def csv_pieces(series: list[Placed], x_tag: str | None) -> Iterator[bytes]:
    """Yield CSV: one row per point, values with as many digits as give the same number back."""
    yield f"{CSV_HEAD}{'' if x_tag is None else ',x_tag,x'}\r\n".encode()
    for line, x in series:
        start = f"{','.join(map(csv_cell, (line.run, line.tag, line.writer)))},{line.attempt}"
        end = "" if x_tag is None else f",{csv_cell(x_tag)},"
        step, wall, value = columns_of(line, x)
        for rows in pieces(len(step)):
            columns = [step[rows].tolist(), digits(wall[rows]), digits(value[rows])]
            columns += (
                [[end + ("" if word == "NaN" else word) for word in digits(x[rows])]] if x is not None else []
            )
            yield "".join(
                [f"{start},{s},{w},{v}{''.join(more)}\r\n" for s, w, v, *more in zip(*columns, strict=True)]
            ).encode()


def columns_of(series: Series, x: NDArray[np.float64] | None) -> list[NDArray[Any]]:
    """Return step, time and value, without those that came after the series was placed on another axis."""
    return [column if x is None else column[: len(x)] for column in series.points.columns]


def json_pieces(series: list[Placed], x_tag: str | None) -> Iterator[bytes]:
    """Yield JSON: per series its columns; NaN and the infinities, for which JSON has no number, as text."""
    yield b'{"series":['
    for number, (line, x) in enumerate(series):
        head = {"run": line.run, "tag": line.tag, "writer": line.writer, "attempt": line.attempt}
        head |= {} if x_tag is None else {"x_tag": x_tag}
        yield (b"," if number else b"") + encoded(head)[:-1]
        # Taken once: while the answer is on its way the series may grow.
        for name, column in zip(("step", "wall_time", "value"), columns_of(line, x), strict=True):
            yield from json_column(name, column)
        if x is not None:
            yield from json_column("x", x)
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


WRITERS: dict[str, tuple[Callable[[list[Placed], str | None], Iterator[bytes]], str]] = {
    "csv": (csv_pieces, "text/csv"),
    "json": (json_pieces, "application/json"),
}
