"""The tables of ``stepscope top``: runs, findings, ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text
from textual.containers import Vertical
from textual.widgets import DataTable, Static

from stepscope.cli.top.picture import RANK_HEAD

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from textual.app import ComposeResult

    from stepscope.cli.top.board import RunLine

RUN_HEAD = ("", "RUN", "STATE", "STEP", "PACE", "ETA", "RANKS", "UPDATED", "PROBLEMS")
FINDING_HEAD = ("SEVERITY", "STEP", "FINDING", "EVIDENCE")
STATE_TONES = {"running": "#4cc27a", "failed": "#ff7f76", "stalled": "#e5a93f", "stopped": "#e5a93f"}


class RunTable(DataTable[Text]):
    """A line for each run, updated if it changes, so that the cursor stays."""

    def __init__(self) -> None:
        super().__init__(id="runs", cursor_type="row", zebra_stripes=False)

    def on_mount(self) -> None:
        """Name the columns."""
        self.add_columns(*RUN_HEAD)

    def show(self, runs: Sequence[RunLine], drawn: Collection[str], chosen: str) -> str:
        """Show the runs.

        Args:
            runs: In their order.
            drawn: Names of those whose charts are drawn.
            chosen: Name of the one to put the cursor on when the list is another.

        Returns:
            Name of the run that the cursor was put on, "" if it was left alone.
        """
        keys = [run.name for run in runs]
        if [row.value for row in self.rows] != keys:
            return self._replace(runs, drawn, chosen)
        columns = list(self.columns)
        for run in runs:
            for column, cell in zip(columns, cells_of(run, run.name in drawn), strict=True):
                if self.get_cell(run.name, column) != cell:
                    self.update_cell(run.name, column, cell, update_width=True)
        return ""

    def _replace(self, runs: Sequence[RunLine], drawn: Collection[str], chosen: str) -> str:
        self.clear()
        for run in runs:
            self.add_row(*cells_of(run, run.name in drawn), key=run.name)
        keys = [run.name for run in runs]
        chosen_run = chosen if chosen in keys else newest_of(runs)
        if chosen_run:
            self.move_cursor(row=keys.index(chosen_run))
        return chosen_run


class FindingsPane(Vertical):
    """Findings of health in the chosen run; below them everything about the one under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self._details: list[Any] = []
        self._rows: list[list[Text]] = []

    def compose(self) -> ComposeResult:
        """Lay the pane out."""
        yield Static(id="verdict")
        table: DataTable[Text] = DataTable(id="findings", cursor_type="row")
        table.add_columns(*FINDING_HEAD)
        yield table
        yield Static(id="detail")

    def show(self, verdict: Any, findings: Sequence[tuple[list[Text], Any]]) -> None:
        """Show a verdict and findings, each a row with its details."""
        self.query_one("#verdict", Static).update(verdict)
        self._details = [detail for _, detail in findings]
        rows = [row for row, _ in findings]
        table: DataTable[Text] = self.query_one("#findings", DataTable)
        if rows != self._rows:
            self._rows = rows
            refill(table, rows)
        self._show_detail(table.cursor_row)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Follow the cursor."""
        event.stop()
        self._show_detail(event.cursor_row)

    def _show_detail(self, row: int) -> None:
        text = self._details[row] if 0 <= row < len(self._details) else ""
        self.query_one("#detail", Static).update(text)


class RanksPane(Vertical):
    """The ranks of the chosen run."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[list[str]] = []

    def compose(self) -> ComposeResult:
        """Lay the pane out."""
        yield Static(
            "This run has no ranks to compare: it is one process, or another tool wrote it.", id="no-ranks"
        )
        table: DataTable[Text] = DataTable(id="ranks", cursor_type="row")
        table.add_columns(*RANK_HEAD)
        yield table

    def show(self, ranks: Sequence[Sequence[str]]) -> None:
        """Show a row for each rank."""
        rows = [list(row) for row in ranks]
        self.query_one("#no-ranks", Static).display = not rows
        if rows != self._rows:
            self._rows = rows
            refill(self.query_one("#ranks", DataTable), [[Text(cell) for cell in row] for row in rows])


def refill(table: DataTable[Text], rows: Sequence[Sequence[Text]]) -> None:
    """Replace the rows of a table; the cursor stays, or at the last row."""
    at = table.cursor_row
    table.clear()
    for row in rows:
        table.add_row(*row)
    table.move_cursor(row=min(at, max(0, len(rows) - 1)))


def cells_of(run: RunLine, drawn: bool) -> list[Text]:
    """Return the cells of a run."""
    state = run.state + (f" ({run.reason})" if run.reason else "")
    return [
        Text("■" if drawn else "□", run.colour),
        Text(run.name),
        Text(state, STATE_TONES.get(run.state, "")),
        *(Text(cell, justify="right") for cell in (run.step, run.pace, run.eta, run.ranks)),
        Text(run.updated),
        Text(str(run.problems or "-"), "#e5a93f" if run.problems else ""),
    ]


def newest_of(runs: Sequence[RunLine]) -> str:
    """Return the run to begin at: the last that is running, else the last of all."""
    running = [run.name for run in runs if run.state == "running"]
    return (running or [run.name for run in runs] or [""])[-1]
