"""What a notebook shows: charts, tables and cards that need no server, with every text escaped."""

import io
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import stepscope as ss
from stepscope.cell import card_html, table_html
from stepscope.errors import UnknownTagError, UsageError
from stepscope.serve.questions.answer import Answer, Quote, Table
from stepscope.serve.questions.picture import COLOURS, THEMES, Curve, chart
from stepscope.store.findings import WrittenFinding

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<img src=x onerror="alert(1)">&'


class Tags(HTMLParser):
    """Notes the elements and the text of a document, and whether each element ends."""

    def __init__(self, html):
        super().__init__()
        self.names, self.text, self.open = [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def html_of(shown):
    return getattr(shown, "_repr_html_")()  # noqa: B009  by its name, as a notebook asks for it


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for number in range(2):
        with ss.Run(place / f"run{number}", config={"lr": 0.1 * (number + 1)}) as run:
            for step in range(50):
                run.scalar("train/loss", 1 / (step + 1) + number, step)
                run.scalar(f"train/{HOSTILE}", float(step), step)
    return place


def polylines(svg):
    return [
        each for each in ElementTree.fromstring(svg).iter(f"{SVG}polyline") if each.get("stroke") in COLOURS
    ]


@pytest.mark.parametrize(
    ("values", "pieces", "dots"),
    [
        ([1.0, 2.0, 3.0], 1, 0),
        ([1.0, np.nan, 3.0], 0, 2),
        ([1.0, 2.0, np.inf, 3.0, 4.0], 2, 0),
        ([5.0], 0, 1),
        ([np.nan], 0, 0),
        ([], 0, 0),
    ],
)
def test_values_that_are_not_finite_leave_gaps_and_single_points_are_dots(values, pieces, dots):
    drawing = chart("loss", [Curve("loss", np.arange(len(values), dtype=float), np.array(values, float))])
    svg = drawing.svg("loss")
    assert len(polylines(svg)) == pieces
    assert len(list(ElementTree.fromstring(svg).iter(f"{SVG}circle"))) == dots
    assert Image.open(io.BytesIO(drawing.png())).size == (800, 450)


def test_a_logarithmic_chart_leaves_out_what_is_not_positive():
    curve = Curve("loss", np.arange(4.0), np.array([-1.0, 1.0, 10.0, 100.0]))
    [line] = polylines(chart("loss", [curve], log=True).svg("loss"))
    heights = [float(point.split(",")[1]) for point in line.get("points").split()]
    assert np.diff(heights) == pytest.approx([heights[1] - heights[0]] * 2, abs=0.2)


@pytest.mark.parametrize("of", ["directory", "stored", "live", "several"])
def test_a_chart_is_drawn_from_whatever_holds_the_run(runs, of, tmp_path):
    if of == "live":
        with ss.Run(tmp_path / "live") as run:
            for step in range(5):
                run.scalar("train/loss", float(step), step)
            made = ss.chart(run, "train/loss")
    elif of == "stored":
        with ss.open(runs) as log:
            made = ss.chart(log.run("run0"), "train/loss")
    else:
        made = ss.chart(runs, "train/loss", runs="run" if of == "several" else "")
    assert made.title == "train/loss"
    assert len(polylines(made.svg)) == (2 if of == "several" else 1)
    assert made._repr_html_() == made.svg
    assert repr(made) == "<chart of train/loss>"


def test_without_a_tag_the_most_telling_series_is_drawn(runs):
    assert ss.chart(runs).title == "train/loss"


def test_a_stored_run_needs_a_tag_and_an_unknown_one_is_refused(runs):
    with ss.open(runs) as log, pytest.raises(UsageError, match="expected the tag of a series"):
        ss.chart(log.run("run0"))
    with pytest.raises(UnknownTagError, match="nowhere"):
        ss.chart(runs, "nowhere")


def test_names_in_charts_tables_and_cards_are_text(runs):
    made = ss.chart(runs, f"train/{HOSTILE}")
    root = ElementTree.fromstring(made.svg)
    assert {each.tag.removeprefix(SVG) for each in root.iter()} <= {
        "svg", "title", "style", "rect", "polyline", "circle", "text",
    }  # fmt: skip
    assert THEMES in made.svg
    assert made.svg.count("<style") == 1
    for html in (
        card_html(HOSTILE, [(HOSTILE, HOSTILE), ("none", None)], text=HOSTILE),
        table_html([HOSTILE], [[HOSTILE], [None], [0.25]], caption=HOSTILE),
        Answer(
            "runs", (HOSTILE,), (Table(HOSTILE, (HOSTILE,), ((HOSTILE,),)),),
            (Quote(HOSTILE, f"{HOSTILE}\n</pre>", 9),), HOSTILE,
        )._repr_html_(),
    ):  # fmt: skip
        seen = Tags(html)
        assert not seen.open
        assert "img" not in seen.names
        assert seen.text.count(HOSTILE) >= 3


def test_a_table_holds_the_runs_that_match_with_the_columns_asked_for(runs):
    answer = ss.table("run1", runs, columns=["lr", "train/loss"])
    [table] = answer.tables
    assert [row[0] for row in table.rows] == ["run1"]
    seen = Tags(answer._repr_html_())
    assert "run1" in seen.text
    assert "0.2" in seen.text
    assert "table" in seen.names


def test_the_card_of_a_run_names_its_state_and_its_most_telling_series_first(runs):
    with ss.open(runs) as log:
        seen = Tags(html_of(log.run("run0")))
    assert "finished" in seen.text
    assert seen.text.index("train/loss") < seen.text.index("stepscope/")
    assert "more series" not in seen.text


def test_the_card_of_a_run_with_many_series_says_how_many_it_leaves_out(tmp_path):
    with ss.Run(tmp_path / "run") as run:
        for number in range(12):
            run.scalar(f"train/metric_{number}", 1.0, 0)
    with ss.open(tmp_path) as log:
        stored = log.runs()[0]
        assert f"{len(stored.tags()) - 8} more series: run.tags()" in Tags(stored._repr_html_()).text


def test_the_card_of_a_finding_says_since_when_and_what_to_do():
    finding = WrittenFinding(
        rule="nan", severity="high", title="NaN in the loss", summary="The loss is NaN.", tag="train/loss",
        layer=None, rank=None, first_step=9, step=1200, wall=0.0, action=HOSTILE, closed_step=1300,
    )  # fmt: skip
    text = Tags(finding._repr_html_()).text
    assert text.startswith("high: NaN in the lossThe loss is NaN.")
    assert "since step1,200, over by 1,300" in text
    assert HOSTILE in text
    assert "layer" not in text


def test_the_card_of_a_profile_says_what_was_not_recorded():
    path = next((Path(__file__).parents[1] / "data" / "traces" / "kineto").glob("*.json*"))
    trace = ss.load_trace(path, cache=False)
    text = Tags(trace._repr_html_()).text
    assert text.startswith(f"{trace.format} profile")
    assert f"events{len(trace):,}" in text
    assert all(name in text for name in trace.not_recorded)


def test_the_picture_of_an_answer_is_within_the_cell(runs):
    assert 'src="data:image/png;base64,' in ss.ask("image", runs, tag="train/loss")._repr_html_()
