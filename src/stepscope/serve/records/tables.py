"""Answers to ``GET tables`` and ``table``: all steps of a table as one, for several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from stepscope.errors import EventFileError, MissingPackageError
from stepscope.events.kinds.text import TABLE_SUFFIX
from stepscope.lru import Lru
from stepscope.serve.questions.query import (
    BOUNDS,
    CHOICE,
    choice_test,
    config_text,
    number_of,
    text_of,
    tokens_of,
    unquote,
)
from stepscope.serve.records.ask import attempts_of, history
from stepscope.serve.reply import Refusal, run_of
from stepscope.serve.routes import get
from stepscope.store import Log, StoredRun
from stepscope.store.tables import STEP, Columns, TableFile, tables_beside

MAX_TABLE_ROWS = 1_000


class TableFacts(msgspec.Struct, frozen=True):
    """A table of a run, over all its steps."""

    tag: str
    name: str
    """Its tag as the user gave it."""
    version: str
    """Another one if the table changed."""


class TableList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/tables?run=``: recorded tables, and files beside the run."""

    run: str
    tables: list[TableFacts]


class TableColumn(msgspec.Struct, frozen=True):
    """A column of a table, and its numbers in the rows that were found."""

    name: str
    typed: str
    """Its name in a filter."""
    kind: Literal["number", "text"]
    low: float | None = None
    mean: float | None = None
    high: float | None = None


class TableRow(msgspec.Struct, frozen=True):
    """A row; NaN and infinite numbers are texts."""

    number: int
    """For ``row=``."""
    run: int
    """Place of its run among those asked for."""
    step: int | float | str | None
    cells: list[str | int | float | bool | None]


class TableRows(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/table?run=&tag=``."""

    runs: list[str]
    tag: str
    steps: list[int]
    columns: list[TableColumn]
    total: int
    """Rows of the table."""
    found: int
    """Rows that the filter lets pass."""
    rows: list[TableRow]
    notes: list[str]
    """Sentences on rows that could not be read."""


class RowPair(msgspec.Struct, frozen=True):
    """A row of one table beside its partner in another; NaN and infinite numbers are texts."""

    a: int | None
    """Number of the row in A; None: it has none."""
    b: int | None
    cells_a: list[str | int | float | bool | None]
    cells_b: list[str | int | float | bool | None]


class TableDifferences(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/table_differences?run=&run=&tag=``: A, the first run, against B."""

    tag: str
    steps: list[int | None]
    """The step of A and that of B; None: its rows have none."""
    known: list[list[int]]
    """All steps of either."""
    columns: list[TableColumn]
    key: str | None
    """The column by which rows have their partners; None: by their order."""
    compared: int
    """Cells of rows that both have."""
    changed: int
    found: int
    """Rows that differ, or all rows if these were asked for."""
    rows: list[RowPair]
    notes: list[str]
    """Sentences on rows that could not be read."""


KEPT_CELLS = 8_000_000
"""Cells that stay in memory: 100,000 rows of 10 columns, of 8 tables."""
RUN_BITS = 32
"""Of the number of a row, what is its place in its run; above it is the run."""
CUT = 300
"""Characters of a long cell; a row that is asked for alone is whole."""
Mask = NDArray[np.bool_]
Runs = Annotated[list[str], Meta(description="names of runs, one each time")]
Count = Annotated[int, Meta(ge=0, le=1 << 40)]


class Column:
    """The cells of a column over all rows.

    Args:
        cells: Numbers, booleans, texts and None.
    """

    def __init__(self, cells: Sequence[Any]) -> None:
        self.cells = np.empty(len(cells), object)
        self.cells[:] = cells
        kinds = set(map(type, cells))
        self.is_text = bool(kinds - {int, float, bool, type(None)})

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The numbers; NaN for what is none."""
        return np.array([math.nan if isinstance(cell, str) else cell for cell in self.cells], np.float64)

    @cached_property
    def ranks(self) -> NDArray[np.int64]:
        """The place of each cell among the values in their order; -1 of what has none."""
        if self.is_text:
            texts = [None if cell is None else text_of(cell) for cell in self.cells]
            places: dict[str | None, int] = {
                text: place
                for place, text in enumerate(sorted(set(texts) - {None}))  # type: ignore[type-var]
            }
            return np.array([places.get(text, -1) for text in texts], np.int64)
        values, ranks = np.unique(self.numbers, return_inverse=True)
        return np.where(np.isnan(values)[ranks], -1, ranks)

    @cached_property
    def values(self) -> NDArray[np.int64]:
        """A number for each cell, the same for the same values: None is one, and so is NaN."""
        codes: dict[Any, int] = {}
        cells = (math.nan if cell != cell else cell for cell in self.cells.tolist())
        return np.fromiter((codes.setdefault(cell, len(codes)) for cell in cells), np.int64, len(self.cells))

    @cached_property
    def there(self) -> Mask:
        """Which cells have a value."""
        return np.fromiter((cell is not None for cell in self.cells), bool, len(self.cells))

    @cached_property
    def is_whole(self) -> bool:
        """Whether all its values are whole numbers, as of a column that numbers rows."""
        return set(map(type, self.cells.tolist())) <= {int, type(None)}

    @cached_property
    def lowered(self) -> list[str]:
        """The texts without regard to case; empty for what is none."""
        return [cell.lower() if isinstance(cell, str) else "" for cell in self.cells]

    def holds_any(self, words: Sequence[str]) -> Mask:
        """Return which texts hold one of some words, without regard to case."""
        mask = np.zeros(len(self.cells), bool)
        for word in map(str.lower, words):
            mask |= np.fromiter((word in text for text in self.lowered), bool, len(mask))
        return mask

    def passes(self, operator: str, words: str) -> Mask:
        """Return which cells a condition such as ``>0.5`` holds for.

        ``=`` and ``!=`` ask for whole values, as of runs; ``:`` finds a word in a text. Commas separate
        choices.
        """
        if operator in BOUNDS:
            return np.asarray(BOUNDS[operator](self.numbers, number_of(words)))
        choices = CHOICE.findall(words)
        if operator == ":" and self.is_text:
            return self.holds_any([unquote(choice) for choice in choices])
        tests = [choice_test(choice) for choice in choices]
        verdicts = {
            value: any(test("none" if value is None else value) for test in tests)
            for value in set(self.cells.tolist())
        }
        mask = np.fromiter(map(verdicts.__getitem__, self.cells), bool, len(self.cells))
        return ~mask if operator == "!=" else mask


class Table:
    """Rows of several runs and steps under the columns of all of them.

    Args:
        runs: For each run its pieces: the step of rows that do not say theirs, and their cells.
    """

    def __init__(self, runs: Sequence[Sequence[tuple[int | None, Columns]]]) -> None:
        pieces = [(run, *piece) for run, parts in enumerate(runs) for piece in parts]
        sizes = [len(next(iter(columns.values()), ())) for _, _, columns in pieces]
        names = dict.fromkeys(name for *_, columns in pieces for name in columns if name != STEP)
        steps = [
            columns[STEP] if STEP in columns else [step] * size
            for (_, step, columns), size in zip(pieces, sizes, strict=True)
        ]
        self.step = Column([step for part in steps for step in part])
        self.run = np.repeat([run for run, *_ in pieces], sizes).astype(np.int64)
        own = [np.arange(np.count_nonzero(self.run == run)) for run in range(len(runs))]
        self.number = (self.run << RUN_BITS) + (np.concatenate(own) if own else self.run)
        self.columns = {
            name: Column(
                [
                    config_text(cell)
                    for (*_, columns), size in zip(pieces, sizes, strict=True)
                    for cell in columns.get(name) or [None] * size
                ]
            )
            for name in names
        }

    @property
    def cells(self) -> int:
        """How many there are."""
        return len(self.run) * (len(self.columns) + 2)

    def column(self, name: str) -> Column | None:
        """Return a column by its name, whose case, blanks and the like need not be given."""
        known = {typed(known): column for known, column in self.columns.items()}
        return self.step if name.lower() == STEP else self.columns.get(name) or known.get(typed(name))

    def matching(self, text: str) -> Mask:
        """Return which rows a filter lets pass: the language of the run query, over columns.

        Words are looked for in all texts. A key that is no column is part of a word.
        """
        mask = np.ones(len(self.run), bool)
        for minus, key, operator, words in tokens_of(text):
            column = self.column(key) if operator else None
            if column is not None:
                passing = column.passes(operator, words)
            else:
                word = unquote(f"{key}{operator}{words}" if operator else words)
                passing = np.zeros(len(mask), bool)
                for searched in self.columns.values():
                    passing |= searched.holds_any([word])
            mask &= ~passing if minus else passing
        return mask

    def order(self, rows: NDArray[np.int64], sort: str, up: bool) -> NDArray[np.int64]:
        """Return rows by a column; those without a value come last, equal ones stay as they are."""
        column = self.column(sort)
        if column is None:
            raise Refusal(400, f"no column {sort!r:.80}", f"sort by one of: {', '.join(self.columns)}, step")
        ranks = column.ranks[rows]
        there = rows[ranks >= 0]
        ranks = ranks[ranks >= 0]
        return np.concatenate(
            [there[np.argsort(ranks if up else -ranks, kind="stable")], rows[column.ranks[rows] < 0]]
        )


class Side:
    """The rows of one run at one step.

    Args:
        table: The table of both runs.
        place: Of the run among them.
        step: The step; None: the newest that it has.

    Raises:
        Refusal: It has no row at this step.
    """

    def __init__(self, table: Table, place: int, step: int | None) -> None:
        rows = np.flatnonzero(table.run == place)
        steps = table.step.numbers[rows]
        known = np.unique(steps[~np.isnan(steps)])
        self.known = [int(one) for one in known]
        if step is not None and step not in self.known:
            shown = ", ".join(map(str, self.known[-5:])) or "none"
            raise Refusal(404, f"no row at step {step}", f"its steps end with {shown}")
        self.step = step if step is not None or not self.known else self.known[-1]
        self.rows = rows if self.step is None else rows[steps == self.step]


class Pairs:
    """Rows of A and of B beside each other, -1 if a row has no partner.

    The rows of a text, such as a prompt, are partners in their order: completions of one prompt are several.
    It is the first text, or column that numbers all rows, of which both have more than one value, as what is
    asked stands before what is answered; else the first of which they have one; else all are in their order.

    Args:
        table: The table of both.
        a: Rows of A.
        b: Rows of B.
    """

    def __init__(self, table: Table, a: Side, b: Side) -> None:
        self.table = table
        self.key, keys = self._key(a.rows, b.rows)
        order = np.argsort(keys[1], kind="stable")
        at = np.searchsorted(keys[1], keys[0], sorter=order)
        near = order[np.minimum(at, len(order) - 1)] if len(order) else at
        at_b = np.where(keys[1][near] == keys[0], near, -1) if len(order) else np.full(len(at), -1)
        alone = np.flatnonzero(~np.isin(np.arange(len(b.rows)), at_b, kind="table"))
        self.a = np.concatenate([a.rows, np.full(len(alone), -1)])
        self.b = np.concatenate(
            [np.where(at_b >= 0, b.rows[at_b], -1) if len(b.rows) else at_b, b.rows[alone]]
        )
        self.rows = np.concatenate([a.rows, b.rows])
        both = (self.a >= 0) & (self.b >= 0)
        self.compared, self.changed = int(both.sum()) * len(table.columns), 0
        self.differs = ~both
        for column in table.columns.values():
            ranks = column.values
            unequal = both & (ranks[self.a] != ranks[self.b])
            self.changed += int(unequal.sum())
            self.differs |= unequal

    def _key(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[str | None, list[NDArray[np.int64]]]:
        """Return the column by which rows are partners, and the key of each row of A and of B."""
        best: tuple[int, str | None, list[NDArray[np.int64]]] = (
            0,
            None,
            [np.arange(len(a)), np.arange(len(b))],
        )
        for name, column in self.table.columns.items():
            values = [column.values[rows] for rows in (a, b)]
            present = [occurring(one[column.there[rows]]) for one, rows in zip(values, (a, b), strict=True)]
            numbers_all = column.is_whole and [one.sum() for one in present] == [len(a), len(b)]
            shared = int(np.logical_and(*(one[: min(map(len, present))] for one in present)).sum())
            if (column.is_text or numbers_all) and min(shared, 2) > best[0]:
                best = min(shared, 2), name, [numbered(one) for one in values]
        return best[1:]

    def order(self, sort: str, up: bool, *, all_rows: bool) -> NDArray[np.int64]:
        """Return the places of pairs, those that differ or all, by how much B is above A in a column."""
        at = np.arange(len(self.a)) if all_rows else np.flatnonzero(self.differs)
        if not sort:
            return at
        column = self.table.column(sort)
        if column is None:
            raise Refusal(400, f"no column {sort!r:.80}", f"sort by one of: {', '.join(self.table.columns)}")
        before, after = column.numbers[self.a[at]], column.numbers[self.b[at]]
        known = (self.a[at] >= 0) & (self.b[at] >= 0) & np.isfinite(before) & np.isfinite(after)
        rise = np.full(len(at), math.nan)
        np.subtract(after, before, out=rise, where=known)
        return at[np.argsort(rise if up else -rise, kind="stable")]  # NaN comes last

    def row(self, at: int) -> RowPair:
        """Return one pair as it travels."""
        a, b = int(self.a[at]), int(self.b[at])
        return RowPair(self._number(a), self._number(b), self._cells(a), self._cells(b))

    def _number(self, row: int) -> int | None:
        return int(self.table.number[row]) if row >= 0 else None

    def _cells(self, row: int) -> list[Any]:
        columns = self.table.columns.values()
        return [shown_cell(column.cells[row], False) if row >= 0 else None for column in columns]


def occurring(values: NDArray[np.int64]) -> Mask:
    """Return for each number from 0 on whether it is among some, without sorting them."""
    present = np.zeros(int(values.max(initial=-1)) + 1, bool)
    present[values] = True
    return present


def numbered(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a key of each value that also says how often it came before."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    before = np.empty_like(values)
    before[order] = np.arange(len(values)) - np.repeat(begins, np.diff(np.append(begins, len(values))))
    return (values << RUN_BITS) + before


class TableAnswers:
    """Answers about tables, and holds those asked for last. Safe for threads."""

    def __init__(self) -> None:
        self._pieces: Lru[tuple[Any, ...], Columns] = Lru(KEPT_CELLS, cells_of)
        self._tables: Lru[tuple[Any, ...], tuple[Table, list[str]]] = Lru(
            KEPT_CELLS, lambda value: value[0].cells
        )

    @get("tables")
    def listing(self, run: StoredRun, log: Log | None) -> TableList:
        """Return the tables of a run: recorded ones, and files beside it."""
        assert log is not None
        recorded = {
            tag.tag: TableFacts(
                tag.tag, tag.tag.removesuffix(TABLE_SUFFIX), f"{tag.count:x}-{tag.last_wall!r}"
            )
            for tag in run.records()
            if tag.kind == "table"
        }
        beside = {
            tag: TableFacts(
                tag, tag, "-".join(f"{time:x}.{size:x}" for time, size in (file.stamp for file in files))
            )
            for tag, files in tables_beside(log, run.name).items()
        }
        return TableList(run.name, [facts for _, facts in sorted((beside | recorded).items())])

    @get("table")
    def rows(
        self,
        log: Log | None,
        run: Runs,
        tag: Annotated[str, Meta(description="a table; api/v1/tables lists them")],
        where: Annotated[str, Meta(description="a filter, such as reward>0.5 prompt:word -flag=true")] = "",
        sort: Annotated[str, Meta(description="a column; default: the newest step first")] = "",
        up: Annotated[int, Meta(ge=0, le=1, description="1: the least first")] = 0,
        same: Annotated[str, Meta(description="a column in which rows must equal the row")] = "",
        row: Annotated[Count | None, Meta(description="number of a row")] = None,
        offset: Count = 0,
        limit: Annotated[int, Meta(ge=1, le=MAX_TABLE_ROWS)] = 100,
    ) -> TableRows:
        """Return rows of a table over all its steps, for some runs.

        With ``row`` alone this row, whose cells are whole; with ``same`` those that have its cell there.

        Raises:
            Refusal: No such table, column or row.
        """
        table, notes = self.table(log, run, tag)
        rows = np.flatnonzero(table.matching(where))
        if row is not None:
            at = np.flatnonzero(table.number == row)
            if not len(at):
                raise Refusal(404, f"no row {row} in {tag!r:.80}", "ask for its rows anew")
            column = table.column(same)
            if same and column is None:
                raise Refusal(400, f"no column {same!r:.80}", f"it has {', '.join(table.columns)}")
            rows = at if column is None else rows[column.ranks[rows] == column.ranks[at[0]]]
        rows = table.order(rows, sort or STEP, bool(up))
        shown = rows[offset : offset + limit]
        whole = row is not None and not same
        return TableRows(
            runs=run, tag=tag, total=len(table.run), found=len(rows), notes=notes,
            steps=[int(step) for step in np.unique(table.step.numbers[~np.isnan(table.step.numbers)])],
            columns=[facts_of(name, column, rows) for name, column in table.columns.items()],
            rows=[
                TableRow(
                    int(table.number[at]), int(table.run[at]), table.step.cells[at],
                    [shown_cell(column.cells[at], whole) for column in table.columns.values()],
                )
                for at in shown.tolist()
            ],
        )  # fmt: skip

    @get("table_differences")
    def differences(
        self,
        log: Log | None,
        run: Runs,
        tag: Annotated[str, Meta(description="a table; api/v1/tables lists them")],
        a: Annotated[int | None, Meta(description="step of the first run; default: its newest")] = None,
        b: Annotated[int | None, Meta(description="step of the second run; default: its newest")] = None,
        sort: Annotated[
            str, Meta(description="a column: by how much B is above A in it; default: as in A")
        ] = "",
        up: Annotated[int, Meta(ge=0, le=1, description="1: the least first")] = 0,
        same: Annotated[int, Meta(ge=0, le=1, description="1: also rows that do not differ")] = 0,
        offset: Count = 0,
        limit: Annotated[int, Meta(ge=1, le=MAX_TABLE_ROWS)] = 100,
    ) -> TableDifferences:
        """Return how a table differs between two runs, or, of one run given twice, between two steps.

        Raises:
            Refusal: Not two runs; no such table, column or step.
        """
        if len(run) != 2:
            raise Refusal(400, f"{len(run)} runs", "give run= twice: A and B")
        table, notes = self.table(log, run, tag)
        sides = [Side(table, place, step) for place, step in enumerate((a, b))]
        pairs = Pairs(table, *sides)
        order = pairs.order(sort, bool(up), all_rows=bool(same))
        return TableDifferences(
            tag=tag, steps=[side.step for side in sides], known=[side.known for side in sides],
            columns=[facts_of(name, column, pairs.rows) for name, column in table.columns.items()],
            key=pairs.key, compared=pairs.compared, changed=pairs.changed, found=len(order), notes=notes,
            rows=[pairs.row(at) for at in order[offset : offset + limit].tolist()],
        )  # fmt: skip

    def table(self, log: Log | None, runs: Sequence[str], tag: str) -> tuple[Table, list[str]]:
        """Return all rows of a table, and what could not be read."""
        sources = []
        for name in runs:
            log, stored = run_of(log, name)
            source = sources_of(stored, tag, {} if has(stored, tag) else tables_beside(log, name))
            sources.append(source)
        if not any(sources):
            raise Refusal(404, f"no table {tag!r:.80} in {', '.join(runs)!s:.200}", "see api/v1/tables")
        key = tuple(tuple(piece.key for piece in pieces) for pieces in sources)
        known = self._tables.get(key)
        if known is None:
            notes: list[str] = []
            parts = [[(piece.step, self.read(piece, notes)) for piece in pieces] for pieces in sources]
            known = Table(parts), list(dict.fromkeys(notes))
            self._tables.put(key, known)
        return known

    def read(self, piece: Piece, notes: list[str]) -> Columns:
        """Return the cells of a piece; none, and a note, if it cannot be read."""
        columns = self._pieces.get(piece.key)
        if columns is None:
            try:
                columns = piece.read()
            except (EventFileError, MissingPackageError) as error:
                notes.append(f"{error.message}: {error.hint}")
                return {}
            self._pieces.put(piece.key, columns)
        return columns


class Piece:
    """The rows of a table that were recorded together.

    Args:
        source: A file, or a series of recorded values with the place of the value.
        step: Of rows that do not say theirs.
        key: Another one if it changes.
    """

    def __init__(self, source: Any, step: int | None, key: tuple[Any, ...]) -> None:
        self._source, self.step, self.key = source, step, key

    def read(self) -> Columns:
        """Return its cells by column.

        Raises:
            EventFileError: It cannot be read.
            MissingPackageError: Nothing that reads it is installed.
        """
        if isinstance(self._source, TableFile):
            return self._source.read()
        series, at = self._source
        table = series[at]
        cells = list(zip(*table.rows, strict=False)) or [()] * len(table.columns)
        return {name: list(column) for name, column in zip(table.columns, cells, strict=False)}


def has(run: StoredRun, tag: str) -> bool:
    """Return whether a run recorded a table itself."""
    return any(record.tag == tag and record.kind == "table" for record in run.records())


def sources_of(run: StoredRun, tag: str, beside: dict[str, list[TableFile]]) -> list[Piece]:
    """Return the pieces of a table of a run, in the order of their steps."""
    if not has(run, tag):
        return [Piece(file, file.step, (file.path, *file.stamp)) for file in beside.get(tag, ())]
    pieces = []
    for attempt, at in history(attempts_of(run, tag)):
        series, place = attempt.place(at)
        key = (series.path, int(series.records.places.position[place]), tag)
        pieces.append(Piece((series, place), int(series.step[place]), key))
    return pieces


def cells_of(columns: Columns) -> int:
    """Return how many cells there are."""
    return sum(map(len, columns.values()))


def typed(name: str) -> str:
    """Return the name of a column as it can be typed into a filter."""
    return "".join(letter if letter.isalnum() or letter in "./-" else "_" for letter in name.lower())


def shown_cell(cell: Any, whole: bool) -> Any:
    """Return a cell as it travels: JSON has no NaN, and of a long text a row shows the beginning."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    if isinstance(cell, str) and not whole and len(cell) > CUT:
        return f"{cell[:CUT]}…"
    return cell


def facts_of(name: str, column: Column, rows: NDArray[np.int64]) -> TableColumn:
    """Return what a column holds in some rows."""
    if column.is_text:
        return TableColumn(name, typed(name), "text")
    numbers = column.numbers[rows]
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return TableColumn(name, typed(name), "number")
    return TableColumn(
        name, typed(name), "number", float(numbers.min()), float(numbers.mean()), float(numbers.max())
    )
