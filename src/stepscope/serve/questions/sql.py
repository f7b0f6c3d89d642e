"""SQL over what a log directory holds: runs, settings, series, findings, ranks, and the events of a profile.

DuckDB answers in memory: no files, no network, no extensions, a bound on memory and time, and reading only.
A table is made if DuckDB does not know it, when it has read the query.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stepscope import lazy
from stepscope.errors import UsageError
from stepscope.names.settings import flatten
from stepscope.serve.questions.answer import Answer, Cell, Table
from stepscope.serve.questions.declare import question
from stepscope.serve.questions.desk import Desk
from stepscope.serve.questions.query import config_text
from stepscope.serve.run_series import named_tags
from stepscope.store.nearest import hint_nearest
from stepscope.text import counted

if TYPE_CHECKING:
    import duckdb

    from stepscope.store import Log

Column = NDArray[Any]
MEMORY = "1GB"
SECONDS = 20.0
"""Time that a query may take."""
MOST_POINTS = 50_000_000
"""Points of series that are put into a table: 1.4 GB."""
KEPT_BYTES = 256 << 20
"""Largest table of points that is kept for the next query: 9 million points."""
MOST_ROWS = 10_000
"""Rows of an answer."""
RUN_FACTS = (
    "name",
    "title",
    "state",
    "step",
    "total_steps",
    "points",
    "started",
    "updated",
    "attempts",
    "steps_per_second",
    "eta_seconds",
    "host",
    "archived",
    "note",
)
FINDING_FACTS = (
    "attempt",
    "severity",
    "rule",
    "tag",
    "layer",
    "rank",
    "step",
    "since_step",
    "closed_step",
    "summary",
    "action",
)
EVENT_NUMBERS = ("rank", "step", "device", "depth", "start_ns", "duration_ns", "bytes", "flops")
MISSING = dict.fromkeys(("step", "device", "bytes", "flops"), -1)
"""The number in a column of events that stands for nothing."""
ABSENT = re.compile(r"Table with name (\S+) does not exist")
"""DuckDB's message about a table that a query names and that is not there yet."""

NO_COLUMN = re.compile(
    r'Referenced column "([^"]+)" (?:was )?not found|does not have a column named "([^"]+)"'
)
MARK = re.compile(r"^LINE (\d+): (.*)\n( *)(\^+)", re.MULTILINE)
"""The line of a query in which DuckDB found an error, and where."""
WORD = re.compile(r"[^\W\d]\w*")
OTHER_SQL = "correct it there; the SQL is DuckDB's, such as SELECT run, step FROM runs WHERE step > 100"
AROUND = 40
"""Characters of a query before the place of an error that say where it is."""


class Source(NamedTuple):
    """A table: its columns for users, and how it is made.

    Attributes:
        make: Returns tables to register by name, and the query of the view; "" if a table has its name.
    """

    columns: str
    make: Callable[[Desk, str], tuple[dict[str, dict[str, Column]], str]]


@question
def sql(
    desk: Desk,
    query: Annotated[
        str,
        Meta(description="SELECT over runs, settings, series, findings, ranks, events; default: list them"),
    ] = "",
    profile: Annotated[
        str, Meta(description="path of the profile of events, or its ending; default: the newest")
    ] = "",
) -> Answer:
    """Answer SQL (DuckDB's) over runs, settings, series, findings, ranks and profile events together."""
    if not query.strip():
        listed = tuple((name, source.columns) for name, source in SOURCES.items())
        return Answer("sql", ("the tables",), (Table("tables", ("table", "columns"), listed),))
    columns, answered = rows_of(desk, query, profile)
    more = len(answered) > MOST_ROWS
    lines = [
        f"more than {MOST_ROWS:,} rows; the first are shown: aggregate them, or add LIMIT"
        if more
        else counted(len(answered), "row")
    ]
    rows = tuple(tuple(map(_cell, row)) for row in answered[:MOST_ROWS])
    return Answer("sql", tuple(lines), (Table("rows", columns, rows),))


def rows_of(desk: Desk, query: str, profile: str = "") -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the columns of the answer and its rows, at most one more than are shown.

    Raises:
        UsageError: The query is wrong, or does what it may not.
        MissingPackageError: DuckDB is not installed.
    """
    with lazy.needs("stepscope[sql]"):
        import duckdb

    options: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY,
        "threads": "2",
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    with duckdb.connect(":memory:", config=options) as database:
        try:
            for setting in ("enable_external_access = false", "lock_configuration = true"):
                database.execute(f"SET {setting}")
            _check_reading(database, query)
            lacking = set(SOURCES)
            while True:
                try:
                    return _within_time(database, query)
                except duckdb.CatalogException as error:
                    absent = ABSENT.search(str(error))
                    name = absent[1].lower() if absent else ""
                    if name not in lacking:
                        raise
                lacking.remove(name)
                _make(database, name, desk, profile)
        except duckdb.Error as error:
            raise _refused(error, query, database) from None


def _make(database: duckdb.DuckDBPyConnection, name: str, desk: Desk, profile: str) -> None:
    """Make a table of ours."""
    tables, view = SOURCES[name].make(desk, profile)
    for table, columns in tables.items():
        database.register(table, columns)
    if view:
        database.execute(f"CREATE VIEW {name} AS {view}")


def _check_reading(database: duckdb.DuckDBPyConnection, query: str) -> None:
    """Refuse everything but one query.

    Raises:
        UsageError: It is something else.
    """
    import duckdb

    statements = database.extract_statements(query)
    reading = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(statements) != 1:
        raise UsageError(f"{len(statements)} statements: expected one", hint="SELECT … FROM runs")
    if statements[0].type not in reading:
        kind = str(statements[0].type).rpartition(".")[2]
        raise UsageError(f"{kind} is refused: SQL only reads here", hint="SELECT … FROM runs")


def _within_time(
    database: duckdb.DuckDBPyConnection, query: str
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    timer = threading.Timer(SECONDS, database.interrupt)
    timer.start()
    try:
        result = database.execute(query)
        columns = tuple(field[0] for field in result.description or ())
        return columns, result.fetchmany(MOST_ROWS + 1)
    finally:
        timer.cancel()


def _refused(error: duckdb.Error, query: str, database: duckdb.DuckDBPyConnection) -> UsageError:
    """Return an error of DuckDB in our words."""
    import duckdb

    if isinstance(error, duckdb.PermissionException):
        return UsageError("SQL reads no files and no network here", hint=f"the tables: {', '.join(SOURCES)}")
    if isinstance(error, duckdb.InterruptException):
        return UsageError(
            f"the query took more than {SECONDS:.0f} s and was stopped", hint="filter first, or join less"
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return UsageError(f"the query takes more than {MEMORY} of memory", hint="filter first, or aggregate")
    first, *more = str(error).split("\n")
    message = first.partition(": ")[2] or first
    if unknown := ABSENT.search(message):
        return UsageError(
            f"cannot answer: {message}", hint=hint_nearest(unknown[1], list(SOURCES), "the tables")
        )
    named = [name for name in SOURCES if re.search(rf"\b{name}\b", query, re.IGNORECASE)]
    before, at, place = _place(str(error))
    if isinstance(error, duckdb.ParserException):
        ends = bool(at) and query.rstrip(" \n\t;").endswith(at)
        hint = _spelled(database, query, before, at) or ("close it" if "unterminated" in message else "")
        hint = hint or (
            f"the query ends with {at}: say what belongs after it, or leave it out" if ends else ""
        )
    elif column := NO_COLUMN.search(message):
        hint = _nearest_column(next(filter(None, column.groups())), named)
    else:
        hint = more[0].strip() if more and not more[0].startswith(("LINE", "Candidate", "\t")) else ""
    return UsageError(f"cannot answer: {message.rstrip('!')}{place}", hint=hint or OTHER_SQL)


def _place(message: str) -> tuple[str, str, str]:
    """Return the query before the place that DuckDB marks, the word there, and a text that says where."""
    mark = MARK.search(message)
    if mark is None:
        return "", "", ""
    number, line, spaces, carets = mark.groups()
    column = len(spaces) - len(f"LINE {number}: ")
    before, at = line[:column].removeprefix("...").rstrip(), line[column : column + len(carets)]
    shown = before if len(before) <= AROUND else f"…{before[-AROUND:]}"
    in_line = f" in line {number}" if number != "1" else ""
    return before, at, f" ({f'after {shown!r}' if before else 'at the beginning'}{in_line})"


def _spelled(database: duckdb.DuckDBPyConnection, query: str, before: str, at: str) -> str:
    """Return the keyword that was meant at the place, or just before it, as a hint; or nothing.

    A query with the keyword can be read, or has its first mistake further on.
    """
    import duckdb

    kinds = "('reserved', 'type_function')"
    rows = database.execute(f"SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN {kinds}")  # noqa: S608
    keywords = [str(row[0]) for row in rows.fetchall()]
    names = {*SOURCES, *(name for source in SOURCES.values() for name in WORD.findall(source.columns))}
    for word in [*WORD.findall(before)[-1:], *WORD.findall(at)[:1]]:
        if word.lower() in names or word.lower() in keywords:
            continue
        for near in get_close_matches(word.lower(), keywords, cutoff=0.7):
            corrected = re.sub(rf"\b{word}\b", near.upper(), query)
            try:
                database.extract_statements(corrected)
            except duckdb.Error as error:
                after, _, _ = _place(str(error))
                if len(after) <= len(before):
                    continue
            return f"did you mean {near.upper()} instead of {word}?"
    return ""


def _nearest_column(name: str, tables: Sequence[str]) -> str:
    known = {column: table for table in tables for column in WORD.findall(SOURCES[table].columns)}
    text = f"a text is written in single quotes: '{name}'"
    if near := get_close_matches(name, known, n=1):
        return f"did you mean {near[0]!r}? {text}"
    return "; ".join([text, *(f"{table} has {SOURCES[table].columns}" for table in tables)])


def _cell(value: Any) -> Cell:
    if value is None or isinstance(value, (str, int, float)):
        return value
    try:
        return float(value) if hasattr(value, "as_integer_ratio") else str(value)
    except (OverflowError, ValueError):
        return str(value)


# --- tables -------------------------------------------------------------------------------------------------


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Column]:
    """Return columns: numbers if all are, with NaN for none; else texts."""
    return {name: _column([row[at] for row in rows]) for at, name in enumerate(names)}


def _column(values: Sequence[Any]) -> Column:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known) and len(known) == len(values):
        return np.array(values, np.bool_)
    if known and all(isinstance(value, int) for value in known) and len(known) == len(values):
        return np.array(values, np.int64)
    if known and all(isinstance(value, (int, float)) for value in known):
        return np.array([math.nan if value is None else value for value in values], np.float64)
    return np.array([value if value is None else str(value) for value in values], object)


def _runs(desk: Desk, _profile: str) -> tuple[dict[str, dict[str, Column]], str]:
    summaries = desk.summaries().values()
    rows = [tuple(getattr(summary, name) for name in RUN_FACTS) for summary in summaries]
    table = _table(RUN_FACTS, rows)
    table["run"] = table.pop("name")
    times = ", ".join(f"to_timestamp({name}) AS {name}" for name in ("started", "updated"))
    return {"_runs": table}, f"SELECT run, * EXCLUDE (run, started, updated), {times} FROM _runs"  # noqa: S608  of names above


def _settings(desk: Desk, _profile: str) -> tuple[dict[str, dict[str, Column]], str]:
    rows = [
        (run.name, key, value if isinstance(value, str) else config_text(value))
        for run in desk.runs()
        for key, value in flatten(run.info.config).items()
    ]
    table = _table(("run", "key"), rows)
    table["value"] = np.array([None if row[2] is None else str(row[2]) for row in rows], object)
    numbers = [
        float(row[2]) if isinstance(row[2], (int, float)) and not isinstance(row[2], bool) else math.nan
        for row in rows
    ]
    table["number"] = np.array(numbers, np.float64)
    return {"settings": table}, ""


class SeriesTables:
    """The points of all series as tables, kept while nothing is written to the directory."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[Log, int], dict[str, dict[str, Column]]] | None = None

    def of(self, desk: Desk) -> dict[str, dict[str, Column]]:
        """Return the tables by name."""
        cached, state = self._kept, (desk.log, desk.log.generation)
        if cached is not None and cached[0] == state:
            return cached[1]
        self._kept = None  # two of them would take twice the memory
        tables = _series_tables(desk)
        if sum(column.nbytes for column in tables["_points"].values()) <= KEPT_BYTES:
            self._kept = state, tables
        return tables


def _series(desk: Desk, _profile: str) -> tuple[dict[str, dict[str, Column]], str]:
    view = (
        "SELECT run, tag, attempt, step, to_timestamp(wall) AS time, value "
        "FROM _points JOIN _series USING (number)"
    )
    return desk.backend.part(SeriesTables).of(desk), view


def _series_tables(desk: Desk) -> dict[str, dict[str, Column]]:
    about: list[tuple[int, str, str, int]] = []
    steps, walls, values = [], [], []
    total = 0
    for run in desk.runs():
        for source in [source for part in (run, *run.parts) for source in part.files.sources.values()]:
            source.read_ahead()
        for name, part, tag in named_tags(run):
            for column in part.columns(tag):
                step, wall, value = column.points.columns
                if column.superseded_from is not None:
                    valid = step < column.superseded_from
                    step, wall, value = step[valid], wall[valid], value[valid]
                total += len(step)
                if total > MOST_POINTS:
                    raise UsageError(
                        f"more than {MOST_POINTS:,} points are recorded here, too many for SQL",
                        hint="ask a directory with fewer runs",
                    )
                about.append((len(about), run.name, name, column.attempt))
                steps.append(step)
                walls.append(wall)
                values.append(value)

    def joined(parts: list[Column], kind: type[Any]) -> Column:
        return np.concatenate(parts, dtype=kind) if parts else np.empty(0, kind)

    points = {
        "number": np.repeat(np.arange(len(about), dtype=np.int32), list(map(len, steps))),
        "step": joined(steps, np.int64),
        "wall": joined(walls, np.float64),
        "value": joined(values, np.float64),
    }
    return {"_series": _table(("number", "run", "tag", "attempt"), about), "_points": points}


def _findings(desk: Desk, _profile: str) -> tuple[dict[str, dict[str, Column]], str]:
    rows = [
        (run.name, *(getattr(finding, name, None) for name in FINDING_FACTS))
        for run in desk.runs()
        for finding in run.findings
    ]
    return {"findings": _table(("run", *FINDING_FACTS), rows)}, ""


def _ranks(desk: Desk, _profile: str) -> tuple[dict[str, dict[str, Column]], str]:
    rows = list(_stages(desk))
    columns = {
        name: np.concatenate([row[at] for row in rows]) if rows else np.empty(0, kind)
        for at, (name, kind) in enumerate(
            (
                ("run", object),
                ("rank", np.int64),
                ("stage", object),
                ("step", np.int64),
                ("seconds", np.float64),
            )
        )
    }
    return {"ranks": columns}, ""


def _stages(desk: Desk) -> Iterator[tuple[Column, ...]]:
    for run in desk.runs():
        if not run.ranks.count():
            continue
        table = run.ranks.stages()
        for at, rank in enumerate(table.ranks):
            for number, stage in enumerate(table.stages):
                seconds = table.durations_s[:, at, number].astype(np.float64)
                known = ~np.isnan(seconds)
                count = int(known.sum())
                yield (
                    np.full(count, run.name, object),
                    np.full(count, rank, np.int64),
                    np.full(count, stage, object),
                    table.steps[known],
                    seconds[known],
                )


def _events(desk: Desk, profile: str) -> tuple[dict[str, dict[str, Column]], str]:
    from stepscope.trace.model import Kind

    opened = desk.profile(profile)
    trace = opened.trace
    columns: dict[str, Column] = {name: getattr(trace, name) for name in EVENT_NUMBERS}
    columns["kind"] = np.array([kind.name.lower() for kind in Kind], object)[trace.kind]
    columns["name_number"] = trace.name
    texts = np.array(trace.strings.texts(), object)
    names = {"name_number": np.arange(len(texts), dtype=np.int32), "name": texts}
    numbers = ", ".join(
        f"nullif({name}, {MISSING[name]}) AS {name}" if name in MISSING else name for name in EVENT_NUMBERS
    )
    return {
        "_events": columns,
        "_names": names,
    }, f"SELECT name, kind, {numbers} FROM _events JOIN _names USING (name_number)"  # noqa: S608


SOURCES = {
    "runs": Source(", ".join(("run", *RUN_FACTS[1:])), _runs),
    "settings": Source("run, key, value (text), number", _settings),
    "series": Source("run, tag, attempt, step, time, value", _series),
    "findings": Source(", ".join(("run", *FINDING_FACTS)), _findings),
    "ranks": Source("run, rank, stage, step, seconds", _ranks),
    "events": Source(", ".join(("name", "kind", *EVENT_NUMBERS)), _events),
}
"""The tables. Findings are those that runs noted while they trained; events are those of one profile."""
