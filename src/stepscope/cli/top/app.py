"""The terminal application of ``stepscope top``: keys, panes, and the thread that reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from stepscope.cli.top.board import Board
from stepscope.cli.top.panes import FindingsPane, RanksPane, RunTable
from stepscope.cli.top.picture import AXES, SIZES, SMOOTHINGS, Choices, Picture, picture
from stepscope.errors import StepscopeError

if TYPE_CHECKING:
    from stepscope.store import Log

T = TypeVar("T")

READ_S = 0.5
"""Longest that one look at the log directory may delay the picture."""


NEXT: dict[str, Callable[[Choices], dict[str, Any]]] = {
    "size": lambda wanted: {"size": (wanted.size - 1) % len(SIZES)},
    "axis": lambda wanted: {"x": following(AXES, wanted.x)},
    "smooth": lambda wanted: {"smoothing": following(SMOOTHINGS, wanted.smoothing)},
    "log": lambda wanted: {"log": not wanted.log},
}
"""How the charts are drawn next: fewer and larger, then many; over another axis; smoother."""


def following(choices: Sequence[T], at: T) -> T:
    """Return the choice after one, the first after the last."""
    return choices[(choices.index(at) + 1) % len(choices)]


class Top(App[None]):
    """Runs above; charts, findings and ranks of the chosen ones below.

    Args:
        log: The log directory, opened; it is refreshed here and by nobody else.
        first: The run that the cursor begins at; None for the newest.
        wanted: Words that the titles of charts must hold, to begin with.
        every_s: Seconds between two looks.
    """

    TITLE = "stepscope top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 1; color: $text-muted; padding: 0 1; }
    #runs { height: auto; max-height: 30%; }
    #words { display: none; height: 3; }
    #words.open { display: block; }
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    #choice { height: 1; color: $text-muted; padding: 0 1; }
    #charts { height: 1fr; }
    #verdict { height: 1; padding: 0 1; }
    #findings { height: auto; max-height: 60%; }
    #detail { height: auto; max-height: 40%; padding: 0 1; border-top: solid $panel; }
    #no-ranks { padding: 0 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("space", "mark", "Overlay"),
        Binding("a", "mark_all", "All", show=False),
        Binding("1", "pane('charts')", "Charts"),
        Binding("2", "pane('findings')", "Findings"),
        Binding("3", "pane('ranks')", "Ranks"),
        Binding("slash", "words", "Filter"),
        Binding("left", "page(-1)", "Back", priority=True, show=False),
        Binding("right", "page(1)", "More charts", priority=True),
        Binding("z", "next('size')", "Size"),
        Binding("x", "next('axis')", "X axis"),
        Binding("s", "next('smooth')", "Smooth"),
        Binding("l", "next('log')", "Log"),
        Binding("escape", "close", "Close", show=False),
    ]

    def __init__(self, log: Log, *, first: str | None = None, wanted: str = "", every_s: float = 1.0) -> None:
        super().__init__()
        self.log_directory, self.every_s = log, every_s
        self.board = Board(log)
        self.wanted = Choices(run=first or "", words=wanted)
        self.shown: Picture | None = None
        self.failure = ""
        self._wake, self._ending = threading.Event(), threading.Event()

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Static(id="head")
        yield RunTable()
        yield Input(placeholder="words in the titles of charts; Enter keeps them, Escape clears", id="words")
        with TabbedContent(id="panes"):
            with TabPane("Charts", id="charts-pane"):
                yield Static(id="choice")
                yield Static(id="charts")
            with TabPane("Findings", id="findings-pane"):
                yield FindingsPane()
            with TabPane("Ranks", id="ranks-pane"):
                yield RanksPane()
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(RunTable).focus()
        self.run_worker(self._follow, thread=True, name="stepscope-top")

    def on_unmount(self) -> None:
        """Let the reading thread end."""
        self._ending.set()
        self._wake.set()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self.ask)

    # --- reading: a thread of its own --------------------------------------------------------------

    def _follow(self) -> None:
        read_at = float("-inf")
        while not self._ending.is_set():
            self._wake.clear()
            if time.monotonic() - read_at >= self.every_s:
                self._read()
                read_at = time.monotonic()
            drawn = picture(self.board, self.wanted, now=time.time())
            if self._ending.is_set():
                return
            self.call_from_thread(self.show, drawn)
            self._wake.wait(max(0.0, self.every_s - (time.monotonic() - read_at)))

    def _read(self) -> None:
        try:
            self.log_directory.refresh(max_seconds=READ_S)
            self.failure = ""
        except (StepscopeError, OSError) as error:
            self.failure = str(error).replace("\n", "; ")

    # --- showing -----------------------------------------------------------------------------------

    def show(self, drawn: Picture) -> None:
        """Put a picture on the screen, unless the screen is being closed."""
        with suppress(NoMatches):
            self._show(drawn)

    def _show(self, drawn: Picture) -> None:
        self.shown = drawn
        head = Text(drawn.head)
        if self.failure:
            head.append(f"   {self.failure}", "#ff7f76")
        self.query_one("#head", Static).update(head)
        chosen = self.query_one(RunTable).show(drawn.runs, self.wanted.names, self.wanted.run)
        if chosen:
            self.choose(run=chosen)
        if drawn.wanted.pane == "charts":
            self._show_charts(drawn)
        elif drawn.wanted.pane == "findings":
            self.query_one(FindingsPane).show(drawn.verdict, drawn.findings)
        else:
            self.query_one(RanksPane).show(drawn.ranks)

    def _show_charts(self, drawn: Picture) -> None:
        wanted = drawn.wanted
        across, down = wanted.grid
        last = min(drawn.count, wanted.first + across * down)
        shown = f"charts {wanted.first + 1} to {last} of {drawn.count}" if drawn.count else "no charts"
        words = f"   titles with {wanted.words!r}" if wanted.words else ""
        scale = "   log y" if wanted.log else ""
        smooth = f"   smoothed {wanted.smoothing:g}" if wanted.smoothing else ""
        self.query_one("#choice", Static).update(Text(f"{shown}   over {wanted.x}{scale}{smooth}{words}"))
        charts = self.query_one("#charts", Static)
        charts.update(drawn.charts)
        if charts.size and (charts.size.width, charts.size.height) != wanted.cells:
            self.ask()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Follow the cursor."""
        if event.data_table.id == "runs" and event.row_key.value not in (None, self.wanted.run):
            self.choose(run=event.row_key.value, first=0)

    # --- keys --------------------------------------------------------------------------------------

    def ask(self) -> None:
        """Redraw the picture now, for the current size of the pane."""
        charts_box = self.query("#charts")
        size = charts_box.first().size if charts_box else None
        cells = (size.width, size.height) if size else self.wanted.cells
        self.wanted = replace(self.wanted, cells=cells)
        self._wake.set()

    def choose(self, **changes: Any) -> None:
        """Change the choice, if it is another."""
        wanted = replace(self.wanted, **changes)
        if wanted != self.wanted:
            self.wanted = wanted
            self.ask()

    def action_pane(self, name: str) -> None:
        """Open a pane."""
        self.query_one("#panes", TabbedContent).active = f"{name}-pane"

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Show the content of the open pane."""
        self.choose(pane=str(event.pane.id).removesuffix("-pane"))

    def action_mark(self) -> None:
        """Draw the run under the cursor together with the others that are marked, or no longer."""
        self.choose(marked=self.wanted.marked ^ {self.wanted.run} if self.wanted.run else frozenset())

    def action_mark_all(self) -> None:
        """Draw all runs together, or only that under the cursor."""
        names = frozenset(run.name for run in self.shown.runs) if self.shown else frozenset()
        self.choose(marked=frozenset() if self.wanted.marked == names else names)

    def action_page(self, by: int) -> None:
        """Show the next charts, or those before."""
        words = self.query_one("#words", Input)
        if words.has_focus:
            words.action_cursor_right() if by > 0 else words.action_cursor_left()
            return
        across, down = self.wanted.grid
        count = self.shown.count if self.shown else 0
        first = self.wanted.first + by * across * down
        if 0 <= first < count or (by < 0 < self.wanted.first):
            self.choose(first=max(0, first))

    def action_next(self, choice: str) -> None:
        """Go on to the next size, axis, smoothing or scale of the charts."""
        self.choose(**NEXT[choice](self.wanted))

    def action_words(self) -> None:
        """Ask for words in the titles of charts."""
        self.action_pane("charts")
        words = self.query_one("#words", Input)
        words.add_class("open")
        words.value = self.wanted.words
        words.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while the words are typed."""
        self.choose(words=event.value, first=0)

    def on_input_submitted(self) -> None:
        """Keep the words."""
        self._leave_words()

    def action_close(self) -> None:
        """Give up the words."""
        if self.query_one("#words", Input).has_class("open"):
            self.choose(words="", first=0)
            self._leave_words()

    def _leave_words(self) -> None:
        self.query_one("#words", Input).remove_class("open")
        self.query_one(RunTable).focus()
        self.call_after_refresh(self.ask)
