"""Charts that follow a training: what the cell shows and what the notebook keeps, at each moment."""

import shutil
import threading
from xml.etree import ElementTree

import IPython.display
import pytest

import stepscope as ss
from stepscope.errors import UnknownTagError
from stepscope.serve.questions import cell_chart
from stepscope.serve.questions.cell_chart import PERIOD_S, VIEW
from stepscope.serve.questions.picture import COLOURS

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = {"text/plain", "image/svg+xml", "image/png"}


class Notebook:
    """A document with outputs that can be updated; it stands for IPython's display."""

    def __init__(self):
        self.outputs = []

    def display(self, bundle, *, raw, display_id):
        assert raw
        assert display_id
        self.outputs.append(bundle)
        return Output(self, len(self.outputs) - 1)


class Output:
    def __init__(self, notebook, at):
        self.notebook, self.at = notebook, at

    def update(self, bundle, *, raw):
        assert raw
        self.notebook.outputs[self.at] = bundle


@pytest.fixture
def reader(monkeypatch):
    """The reader, which draws when the test says so."""
    found = cell_chart.Reader()
    monkeypatch.setattr(cell_chart, "READER", found)
    monkeypatch.setattr(cell_chart, "PERIOD_S", 1e6)
    yield found
    found.end()


@pytest.fixture
def notebook(monkeypatch, reader):
    found = Notebook()
    monkeypatch.setattr(IPython.display, "display", found.display)
    monkeypatch.setattr(cell_chart, "widgets_shown", lambda: True)
    reader.begin_cell()
    return found


def steps_of(svg):
    """Return how many points the lines of a chart have, and its texts."""
    root = ElementTree.fromstring(svg)
    lines = [each for each in root.iter(f"{SVG}polyline") if each.get("stroke") in COLOURS]
    texts = " ".join(each.text or "" for each in root.iter(f"{SVG}text"))
    return sum(len(each.get("points").split()) for each in lines), texts


def train(run, steps):
    for step in steps:
        run.scalar("train/loss", 1 / (step + 1), step)
    run.flush()


def threads():
    return [each for each in threading.enumerate() if each.name == "stepscope-charts"]


def test_the_cell_shows_a_widget_while_it_runs_and_the_notebook_keeps_pictures(tmp_path, notebook, reader):
    run = ss.Run(tmp_path / "run")
    chart = ss.chart(run, "train/loss")
    chart._ipython_display_()
    assert chart.live
    assert set(notebook.outputs[0]) == PICTURES
    assert "no point is recorded yet" in notebook.outputs[0]["image/svg+xml"]

    train(run, range(20))
    reader.turn()
    assert notebook.outputs[0][VIEW]["model_id"] == chart._widget.model_id
    assert steps_of(chart._widget.svg)[0] == 20
    saved_then = notebook.outputs[0]
    train(run, range(20, 30))
    reader.turn()
    assert steps_of(chart._widget.svg)[0] == 30
    assert notebook.outputs[0] is saved_then, "the widget alone changes while a cell runs"

    for step in range(30, 40):
        run.scalar("train/loss", 0.1, step)
    reader.end_cell()
    assert set(notebook.outputs[0]) == PICTURES
    assert steps_of(notebook.outputs[0]["image/svg+xml"])[0] == 40
    assert chart.live

    train(run, range(40, 50))
    reader.turn()
    assert steps_of(notebook.outputs[0]["image/svg+xml"])[0] == 50, "drawn between cells, too"

    reader.begin_cell()
    run.close()
    reader.turn()
    assert not chart.live
    assert set(notebook.outputs[0]) == PICTURES
    assert chart._widget.comm is None


def test_one_thread_draws_all_charts_and_ends_with_the_last(tmp_path, notebook, reader):
    run = ss.Run(tmp_path / "run")
    charts = [ss.chart(run, "train/loss"), ss.chart(run, "train/*"), ss.chart(tmp_path, "train/loss")]
    assert not threads()
    for chart in charts:
        chart._ipython_display_()
    [thread] = threads()
    for chart in charts:
        assert thread.is_alive()
        chart.close()
    thread.join(20)
    assert not thread.is_alive()
    charts[0]._ipython_display_()
    assert not threads(), "a closed chart is a picture"
    run.close()


@pytest.mark.slow
def test_the_thread_draws_by_itself(tmp_path, notebook, reader, monkeypatch):
    monkeypatch.setattr(cell_chart, "PERIOD_S", 0.01)
    drawn = threading.Event()
    monkeypatch.setattr(reader, "turn", lambda turn=reader.turn: (turn(), drawn.set()))
    run = ss.Run(tmp_path / "run")
    chart = ss.chart(run, "train/loss")
    chart._ipython_display_()
    train(run, range(10))
    drawn.clear()
    assert drawn.wait(20)
    drawn.clear()
    assert drawn.wait(20)
    assert steps_of(chart.svg)[0] == 10
    run.close()
    [thread] = threads() or [None]
    if thread:
        thread.join(20)
    assert not chart.live
    assert PERIOD_S <= 1, "what is recorded is seen within two seconds"


def test_a_series_that_never_came_is_named_when_the_run_has_ended(tmp_path, notebook, reader):
    with ss.Run(tmp_path / "run") as run:
        chart = ss.chart(run, "train/los")
        chart._ipython_display_()
        train(run, range(5))
        reader.turn()
        assert "no point is recorded yet" in chart.svg
    reader.turn()
    _, texts = steps_of(notebook.outputs[0]["image/svg+xml"])
    assert "train/los" in texts
    assert "train/loss" in texts, "the nearest names"
    assert "no point is recorded yet" not in texts


def test_what_is_gone_leaves_the_last_picture(tmp_path, notebook, reader):
    run = ss.Run(tmp_path / "runs" / "run")
    train(run, range(5))
    chart = ss.chart(tmp_path / "runs", "train/loss")
    chart._ipython_display_()
    run.close()
    shutil.rmtree(tmp_path / "runs")
    reader.turn()
    assert not chart.live
    assert steps_of(notebook.outputs[0]["image/svg+xml"])[0] == 5


@pytest.mark.parametrize(("cells", "live"), [(("a", "a"), 1), (("a", "b"), 2), (("", ""), 2)])
def test_a_cell_that_runs_again_ends_the_chart_that_it_held(
    tmp_path, notebook, reader, monkeypatch, cells, live
):
    run = ss.Run(tmp_path / "run")
    charts = []
    for number, cell in enumerate(cells):
        monkeypatch.setattr(cell_chart, "_running_cell", lambda here=(cell, str(number)): here)
        charts.append(ss.chart(run, "train/loss"))
        charts[-1]._ipython_display_()
    assert [chart.live for chart in charts] == [live == 2, True]
    run.close()


def test_only_a_notebook_waits_for_a_series_and_only_of_a_run_that_goes_on(tmp_path, notebook, monkeypatch):
    with ss.Run(tmp_path / "run") as run:
        train(run, range(5))
        assert ss.chart(run, "train/loss").live
        with ss.open(tmp_path) as log:
            assert not ss.chart(log.run("run"), "train/loss").live
        monkeypatch.undo()
        assert not ss.chart(run, "train/loss").live
        with pytest.raises(UnknownTagError, match="nowhere"):
            ss.chart(run, "nowhere")
    monkeypatch.setattr(cell_chart, "widgets_shown", lambda: True)
    assert not ss.chart(tmp_path, "train/loss").live


def test_a_live_chart_of_a_directory_stays_with_its_run(tmp_path, notebook, reader):
    first = ss.Run(tmp_path / "first")
    train(first, range(5))
    chart = ss.chart(tmp_path, "train/loss")
    chart._ipython_display_()
    with ss.Run(tmp_path / "second") as second:
        train(second, range(100))
    reader.turn()
    assert steps_of(chart.svg)[0] == 5
    first.close()
