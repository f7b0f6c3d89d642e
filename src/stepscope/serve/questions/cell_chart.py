"""A chart in a notebook: drawn without a server, live while its run is recorded, saved as a picture.

A saved notebook holds pictures alone, which every viewer shows without running scripts. While a run is
recorded the cell shows a widget instead (anywidget), whose picture one thread of this process replaces.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stepscope.errors import StepscopeError, UnknownTagError, UsageError
from stepscope.serve.questions.desk import Desk

if TYPE_CHECKING:
    from stepscope.serve.questions.picture import Drawing
    from stepscope.store import StoredRun

PERIOD_S = 1.0
"""Between two drawings: a point is seen within two seconds."""
MAX_SHARE = 0.02
"""Share of a core that drawing may take from the training; a large log is read less often instead."""
VIEW = "application/vnd.jupyter.widget-view+json"


class LiveRun(Protocol):
    """A run that is being recorded."""

    log_dir: str

    def flush(self) -> bool:
        """Write what was recorded so far."""


class CellChart:
    """A chart in a notebook, which stays in the saved notebook.

    Attributes:
        title: Of the chart.
        drawing: Its lines and texts; replaced while the chart is live.
        live: Whether it is drawn anew while a run is recorded, once a notebook shows it.
    """

    def __init__(self, title: str, drawing: Drawing, subject: Subject | None = None) -> None:
        self.title, self.drawing, self.live = title, drawing, subject is not None
        self.subject = subject
        self._widget: Any = None
        self._outputs: list[Any] = []
        self._cell = ("", "")
        self._saved: Drawing | None = drawing

    @property
    def png(self) -> bytes:
        """The chart as PNG."""
        return self.drawing.png()

    @property
    def svg(self) -> str:
        """The chart as SVG, light or dark as the viewer prefers."""
        return self.drawing.svg(self.title)

    def close(self) -> None:
        """Draw it no more; the notebook keeps the last picture."""
        with READER.reading:
            READER.remove(self)
            if self.live:
                self.live = False
                self.save()
                if self._outputs:
                    self._widget.close()

    def show(self, title: str, drawing: Drawing) -> None:
        """Show a newer drawing: while a cell runs in the widget, else as a picture that can be saved."""
        if (title, drawing) == (self.title, self.drawing):
            return
        self.title, self.drawing = title, drawing
        with self._widget.hold_sync():  # one message
            self._widget.title, self._widget.svg = title, self.svg
        if READER.cell_runs:
            view = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
            if self._saved is not None:
                self._update({VIEW: view})
            self._saved = None
        else:
            self.save()

    def save(self) -> None:
        """Have the notebook keep the newest drawing, and no widget."""
        if self._saved is not self.drawing:
            self._update({})
            self._saved = self.drawing

    def replaces(self, other: CellChart) -> bool:
        """Return whether it is in the output of a cell that held another one before."""
        return bool(self._cell[0]) and self._cell[0] == other._cell[0] and self._cell[1] != other._cell[1]

    def _update(self, more: dict[str, Any]) -> None:
        """Replace what the notebook holds by pictures, and more."""
        pictures = self._pictures() if self._outputs else {}
        for output in self._outputs:
            output.update(pictures | more, raw=True)

    def _pictures(self) -> dict[str, Any]:
        """Return the chart for every viewer: those that do not trust a notebook show only the PNG."""
        return {"text/plain": repr(self), "image/svg+xml": self.svg, "image/png": self.png}

    def _followed(self) -> Any:
        """Return the widget, whose picture is replaced from now on."""
        if self._widget is None:
            self._widget = widget_type()(title=self.title, svg=self.svg)
            READER.add(self)
        return self._widget

    def _ipython_display_(self) -> None:
        from IPython.display import display

        output = display(self._pictures(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        if self.live:
            self._outputs.append(output)
            self._cell = _running_cell()
            self._followed()
            READER.shown(self)

    def _display_(self) -> Any:
        """Return what marimo shows."""
        if self.live:
            return self._followed()
        from marimo import Html

        return Html(self.svg)

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<chart of {self.title}>"


def chart(
    run: str | os.PathLike[str] | StoredRun | LiveRun, *tags: str, runs: str = "", log: bool = False
) -> CellChart:
    """Draw series over their steps; a notebook shows the chart, without a server.

    With ``stepscope[notebook]`` the chart in a notebook is live: it is drawn anew every second while a run of
    it is recorded, in the kernel or elsewhere, and may be shown before the first point. The saved notebook
    keeps the last picture. ``close()`` ends that earlier.

    Args:
        run: A run of :func:`stepscope.open`, drawn as it was read; a run that is being recorded; or a log
            directory, whose newest run is drawn.
        tags: The series, or patterns with ``*``; none: the most telling one of a directory.
        runs: Query of the directory's runs, as of :func:`table`: of several runs the first series is drawn.
        log: Whether values have a logarithmic scale; those that are not positive are left out then.

    Raises:
        UsageError: A stored run without a tag.
        UnknownTagError: No such series.
        UnknownRunError: No run matches.
        LogDirectoryError: Nothing can be read there.
    """
    from stepscope.serve.questions import picture
    from stepscope.serve.questions.curves import drawn
    from stepscope.store import StoredRun

    if isinstance(run, StoredRun):
        if not tags:
            raise UsageError(
                "expected the tag of a series, found none",
                hint=f"tags of the run: {', '.join(run.tags()[:8])}",
            )
        title, curves = drawn(None, [run], tags)
        return CellChart(title, picture.chart(title, curves, log=log))
    if isinstance(run, str | os.PathLike):
        subject = Subject(os.fspath(run), tags, runs, log=log)
    else:
        subject = Subject(run.log_dir, tags, log=log, recorded=run)
        run.flush()
    desk = Desk(subject.place)
    try:
        desk.refresh()
        running = subject.find(desk) and widgets_shown()
        return CellChart(*subject.draw(desk, waiting=running), subject if running else None)
    finally:
        desk.close()


class Subject:
    """The series that a chart draws, and where they are recorded.

    Args:
        place: A log directory.
        tags: Series, or patterns with ``*``.
        query: Of runs; "": the newest one, and that one from then on.
        log: Whether values have a logarithmic scale.
        recorded: The run, if this process records it.
    """

    def __init__(
        self,
        place: str,
        tags: tuple[str, ...],
        query: str = "",
        *,
        log: bool,
        recorded: LiveRun | None = None,
    ) -> None:
        self.place, self.tags, self.log, self.recorded = place, tags, log, recorded
        self._query, self._run = query, ""
        self._runs: list[StoredRun] = []

    def find(self, desk: Desk) -> bool:
        """Find the runs, and return whether one of them is being recorded.

        Raises:
            UnknownRunError: There is none.
        """
        from stepscope.serve.questions.curves import chosen_runs

        self._runs = chosen_runs(desk, self._query)[0] if self._query else [desk.run(self._run)]
        self._run = self._runs[0].name
        return any(run.state == "running" for run in self._runs)

    def draw(self, desk: Desk, *, waiting: bool) -> tuple[str, Drawing]:
        """Return title and drawing.

        Args:
            desk: Of the place.
            waiting: Whether a series that is not there yet may still come.

        Raises:
            UnknownTagError: No such series.
        """
        from stepscope.serve.questions import picture
        from stepscope.serve.questions.curves import drawn

        try:
            title, curves = drawn(desk, self._runs, self.tags)
        except UnknownTagError:
            if not waiting:
                raise
            title = ", ".join(self.tags[:4])
            return title, picture.chart(title, [], note="no point is recorded yet")
        return title, picture.chart(title, curves, log=self.log)


class Reader:
    """The one thread that draws the charts of this process anew; it runs while there are live charts."""

    def __init__(self) -> None:
        self._charts: list[CellChart] = []
        self._desks: dict[str, Desk] = {}
        self._drawn: dict[CellChart, int] = {}
        self.reading = threading.RLock()
        self.cell_runs = False
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None

    def add(self, chart: CellChart) -> None:
        """Draw a chart anew from now on."""
        with self._changed:
            self._charts.append(chart)
            if self._thread is None:
                _watch_cells(self)
                self._thread = threading.Thread(target=self._loop, name="stepscope-charts", daemon=True)
                self._thread.start()

    def shown(self, chart: CellChart) -> None:
        """Close the charts whose place in the notebook a chart has taken."""
        for other in [other for other in self._charts if chart.replaces(other)]:
            other.close()

    def remove(self, chart: CellChart) -> None:
        """Draw a chart no more."""
        with self._changed:
            self._charts = [other for other in self._charts if other is not chart]
            self._changed.notify_all()
        self._forget()

    def turn(self) -> None:
        """Read and draw new points; close the charts whose runs have ended."""
        with self.reading:
            for place in {chart.subject.place for chart in self._charts if chart.subject}:
                charts = [chart for chart in self._charts if chart.subject and chart.subject.place == place]
                try:
                    if place not in self._desks:
                        self._desks[place] = Desk(place)
                    desk = self._desks[place]
                    desk.refresh()
                except StepscopeError:
                    for chart in charts:
                        chart.close()
                    continue
                for chart in charts:
                    self._draw(chart, desk)

    def begin_cell(self) -> None:
        """Note that a cell runs."""
        self.cell_runs = True

    def end_cell(self) -> None:
        """Draw all charts, and have the notebook keep the drawings."""
        for chart in list(self._charts):
            if chart.subject and chart.subject.recorded:
                chart.subject.recorded.flush()
        with self.reading:
            self.cell_runs = False
            self.turn()
            for chart in list(self._charts):
                chart.save()

    def end(self) -> None:
        """Close all charts, as the process ends."""
        for chart in list(self._charts):
            chart.close()

    def _draw(self, chart: CellChart, desk: Desk) -> None:
        from stepscope.serve.questions import picture

        assert chart.subject
        generation = desk.log.generation
        running = False
        try:
            running = chart.subject.find(desk)
            if generation != self._drawn.get(chart) or not running:
                chart.show(*chart.subject.draw(desk, waiting=running))
                self._drawn[chart] = generation
        except UnknownTagError as error:
            note = f"{error.message}; {error.hint}"
            chart.show(chart.title, picture.chart(chart.title, [], note=note))
        except StepscopeError:
            pass  # the run is gone: the last picture stays
        if not running:
            chart.close()

    def _forget(self) -> None:
        """Close directories that no chart needs any more."""
        places = {chart.subject.place for chart in self._charts if chart.subject}
        for place in self._desks.keys() - places:
            self._desks.pop(place).close()
        self._drawn = {chart: number for chart, number in self._drawn.items() if chart in self._charts}

    def _loop(self) -> None:
        cost_s = 0.0
        try:
            while True:
                with self._changed:
                    pause_s = max(PERIOD_S, cost_s * (1 / MAX_SHARE - 1))
                    self._changed.wait_for(lambda: not self._charts, pause_s)
                    if not self._charts:
                        self._thread = None
                        return
                began = time.thread_time()
                self.turn()
                cost_s = time.thread_time() - began
        except BaseException:
            self._thread = None  # the next chart starts another
            raise


READER = Reader()


def widgets_shown() -> bool:
    """Return whether this is the kernel of a notebook that shows widgets, and anywidget is installed."""
    marimo = sys.modules.get("marimo")
    shell = _shell()
    in_notebook = hasattr(shell, "kernel") or bool(marimo and marimo.running_in_notebook())
    return in_notebook and find_spec("anywidget") is not None


@cache
def widget_type() -> Any:
    """Return the class of the widget."""
    import anywidget
    import traitlets

    class ChartWidget(anywidget.AnyWidget):
        _esm = Path(__file__).with_suffix(".js").read_text("utf-8")
        title = traitlets.Unicode().tag(sync=True)
        svg = traitlets.Unicode().tag(sync=True)

    return ChartWidget


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _running_cell() -> tuple[str, str]:
    """Return which cell runs, if the notebook says so, and in which execution."""
    parent = _shell().get_parent() if hasattr(_shell(), "get_parent") else {}
    return parent.get("metadata", {}).get("cellId", ""), parent.get("header", {}).get("msg_id", "")


@cache
def _watch_cells(reader: Reader) -> None:
    """Tell the reader when cells run, and when the kernel ends."""
    shell = _shell()
    if shell is not None:
        reader.begin_cell()
        shell.events.register("pre_run_cell", lambda _info: reader.begin_cell())
        shell.events.register("post_run_cell", lambda _result: reader.end_cell())
        atexit.register(reader.end)
