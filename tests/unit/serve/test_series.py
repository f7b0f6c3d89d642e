import json

import numpy as np
import pytest
from support.records import write_series

from stepscope import store
from stepscope.events import EventWriter
from stepscope.serve import series
from stepscope.serve.encode import number
from stepscope.serve.frame import array_of, unpack
from stepscope.serve.reply import Refusal
from stepscope.serve.series import DrawnCharts
from stepscope.serve.types import MAX_BUCKETS, MAX_CHARTS, MAX_LINES, LineRequest
from stepscope.store import derive

VALUES = [1.0, float("nan"), 3.0, float("inf"), 0.5]


@pytest.fixture
def views():
    return DrawnCharts()


@pytest.fixture
def log(tmp_path):
    for name in ("a", "b/eval", "b"):
        writer = EventWriter(tmp_path / name)
        for step, value in enumerate(VALUES):
            writer.scalar("train/loss", value, step * 10, 100.0 + step)
        for step in range(1000):
            writer.scalar("long", float(step % 7), step, 100.0 + step)
        writer.close()
    return store.open(tmp_path, cache=False)


def chart(*lines, **options):
    return {"id": "x", "lines": [{"run": run, "tag": tag} for run, tag in lines], **options}


def ask(log, views, *charts):
    return unpack(series.answer(json.dumps({"charts": charts}).encode(), log, views))


def test_raw_points_come_back_as_written(log, views):
    header, body = ask(log, views, chart(("a", "train/loss")))
    [answer] = header.charts
    [line] = answer.lines
    assert (answer.mode, answer.total_points, answer.shown_points, answer.x_column) == ("raw", 5, 5, None)
    np.testing.assert_array_equal(array_of(body, line.columns["x"]), [0, 10, 20, 30, 40])
    np.testing.assert_array_equal(array_of(body, line.columns["value"]), np.array(VALUES, "f4"))
    assert (line.points, line.nonfinite, line.split, line.attempt) == (5, 2, "train", 1)
    assert (line.last.step, line.last.wall, line.last.value) == (40, 104.0, 0.5)


def test_buckets_share_one_x_and_hold_every_point(log, views):
    header, body = ask(log, views, chart(("a", "long"), ("b", "long"), buckets=50, smoothing=0.5))
    [answer] = header.charts
    assert answer.mode == "buckets"
    assert 25 <= answer.buckets <= 50
    assert answer.x_column.count == answer.buckets
    assert answer.total_points == 2000
    for line in answer.lines:
        columns = {name: array_of(body, column) for name, column in line.columns.items()}
        assert columns.keys() == {"first", "min", "max", "last", "count", "nonfinite", "smoothed"}
        assert all(len(column) == answer.buckets for column in columns.values())
        assert columns["count"].sum() == 1000
        assert (np.nanmin(columns["min"]), np.nanmax(columns["max"])) == (0, 6)


def test_the_split_of_a_run_counts_where_the_tag_says_nothing(log, views):
    [answer] = ask(log, views, chart(("b/eval", "long"), ("b", "long")))[0].charts
    assert [line.split for line in answer.lines] == ["eval", None]


def test_what_is_not_there_does_not_fail_the_rest(log, views):
    [answer] = ask(log, views, chart(("a", "long"), ("a", "gone"), ("gone", "long")))[0].charts
    assert answer.missing == [LineRequest("a", "gone"), LineRequest("gone", "long")]
    assert len(answer.lines) == 1


def test_before_anything_has_been_read_every_line_is_missing(views):
    [answer] = ask(None, views, chart(("a", "long")))[0].charts
    assert (answer.lines, len(answer.missing), answer.x0, answer.total_points) == ([], 1, None, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"charts": 3}',
        json.dumps({"charts": [chart(x="epoch")]}).encode(),
        json.dumps({"charts": [chart(buckets=0)]}).encode(),
        json.dumps({"charts": [chart(buckets=MAX_BUCKETS + 1)]}).encode(),
        json.dumps({"charts": [chart(buckets=1.5)]}).encode(),
        json.dumps({"charts": [chart(smoothing=1)]}).encode(),
        json.dumps({"charts": [chart(smoothing=-0.1)]}).encode(),
        json.dumps({"charts": [chart(x0="a")]}).encode(),
        json.dumps({"charts": [chart(x0=float("nan"))]}).encode(),
        b'{"charts": [{"id": "x", "lines": [], "x0": 1e999}]}',
        json.dumps({"charts": [chart()] * (MAX_CHARTS + 1)}).encode(),
        json.dumps({"charts": [chart(*[("a", "b")] * (MAX_LINES + 1))]}).encode(),
        b"[" * 100_000,
    ],
)
def test_what_is_no_request_is_refused_in_words(log, views, body):
    with pytest.raises(Refusal) as caught:
        series.answer(body, log, views)
    assert caught.value.status == 400
    assert caught.value.error
    assert caught.value.hint


def test_a_limit_is_named_with_its_place(log, views):
    with pytest.raises(Refusal, match=r"<= 2000 - at `\$.charts\[0\].buckets`"):
        ask(log, views, chart(buckets=5000))


def test_the_same_chart_is_drawn_once_for_all(log, views):
    for _ in range(3):
        ask(log, views, chart(("a", "long"), buckets=50))
    assert views.drawn == 1
    ask(log, views, chart(("a", "long"), buckets=60))
    ask(log, views, chart(("b", "long"), buckets=50))
    assert views.drawn == 3


def test_a_chart_with_new_points_is_drawn_anew(tmp_path, views, writer_in):
    writer = writer_in(tmp_path / "a")
    log = store.open(tmp_path, cache=False)
    for step in range(3):
        writer.scalar("loss", 1.0, step, 1.0)
        writer.flush()
        log.refresh()
        [answer] = ask(log, views, chart(("a", "loss")))[0].charts
        assert answer.total_points == step + 1


@pytest.mark.parametrize("expression", [False, True], ids=["recorded", "derived"])
def test_of_a_chart_that_grows_the_newest_alone_is_kept(tmp_path, views, writer_in, expression):
    writer = writer_in(tmp_path / "a")
    log = store.open(tmp_path, cache=False)
    line = {"run": "a", "tag": "loss / 2" if expression else "loss", "expression": expression}
    sizes, derived = [], []
    for round_ in range(20):
        for step in range(100):
            writer.scalar("loss", 1.0, 100 * round_ + step, 1.0)
        writer.flush()
        log.refresh()
        ask(log, views, {"id": "x", "lines": [line], "buckets": 100})
        sizes.append(views.views.total)
        derived.append(derive._known.total)
    assert views.drawn == 20
    assert max(sizes) == sizes[-1] < 2 * sizes[1]
    assert derived[-1] - derived[0] <= 2000 * 3 * 8


def test_what_is_kept_is_bounded(log):
    views = DrawnCharts(kept_bytes=5000)
    for buckets in range(20, 120):
        ask(log, views, chart(("a", "long"), buckets=buckets))
        assert views.views.total <= 5000
    assert views.drawn == 100
    ask(log, views, chart(("a", "long"), buckets=119))
    assert views.drawn == 100


@pytest.mark.parametrize(
    ("value", "sent"),
    [(1.5, 1.5), (float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")],
)
def test_a_last_value_that_json_cannot_carry_is_a_word(value, sent):
    assert number(value) == sent


def test_expressions_are_lines_like_others(log, views):
    lines = [
        {"run": "a", "tag": "long * 2", "expression": True},
        {"run": "gone", "tag": "long", "expression": True},
    ]
    header, body = ask(log, views, {"id": "x", "lines": lines, "buckets": 2000})
    [answer] = header.charts
    [line] = answer.lines
    assert (line.run, line.tag, line.points) == ("a", "long * 2", 1000)
    assert array_of(body, line.columns["value"])[:8].tolist() == [0, 2, 4, 6, 8, 10, 12, 0]
    assert [each.run for each in answer.missing] == ["gone"]


def test_a_wrong_expression_is_told_and_fails_nothing(log, views):
    lines = [{"run": "a", "tag": "long +", "expression": True}, {"run": "a", "tag": "long"}]
    [answer] = ask(log, views, {"id": "x", "lines": lines})[0].charts
    assert (answer.mistake.text, answer.mistake.start) == ("long +", 6)
    assert len(answer.lines) == 1
    lines = [{"run": "a", "tag": "gone + 1", "expression": True}]
    [answer] = ask(log, views, {"id": "x", "lines": lines})[0].charts
    assert answer.mistake is None
    assert "no tag 'gone'" in answer.notes[0].text


def test_another_tag_is_the_axis(log, views):
    header, body = ask(log, views, chart(("a", "train/loss"), x="tag", x_tag="long", buckets=2000))
    [answer] = header.charts
    assert sorted(array_of(body, answer.lines[0].columns["x"])) == sorted(
        float(step % 7) for step in range(0, 50, 10)
    )
    assert (answer.x, answer.x_interpolated, answer.x_missing) == ("tag", 0, 0)
    [answer] = ask(log, views, chart(("b/eval", "long"), x="tag", x_tag="train/loss"))[0].charts
    assert answer.x_missing == 1000 - 41
    with pytest.raises(Refusal, match="no tag is named"):
        ask(log, views, chart(("a", "long"), x="tag"))


def test_groups_come_back_as_means(log, views):
    lines = [{"run": run, "tag": "long", "group": "g"} for run in ("a", "b")]
    header, body = ask(log, views, {"id": "x", "lines": lines, "buckets": 2000})
    [answer] = header.charts
    [line] = answer.lines
    assert (answer.mode, line.group, line.members, line.filled, line.run) == ("groups", "g", 2, 0, "a")
    assert answer.x_column.count == 1000
    assert array_of(body, line.columns["mean"])[:8].tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
    again = views.drawn
    ask(log, views, {"id": "x", "lines": lines, "buckets": 2000})
    assert views.drawn == again
    ask(log, views, {"id": "x", "lines": lines, "buckets": 2000, "band": "minmax"})
    assert views.drawn == again + 1


@pytest.mark.parametrize("buckets", [600, 4])
def test_finite_points_between_nans_are_all_in_the_answer(tmp_path, views, buckets):
    values = [float("nan") if step % 2 else float(step) for step in range(20)]
    write_series(tmp_path / "a", {"between": values}, start=100.0)
    log = store.open(tmp_path, cache=False)
    header, body = ask(log, views, chart(("a", "between"), buckets=buckets, smoothing=0.6))
    [line] = header.charts[0].lines
    columns = {name: array_of(body, column) for name, column in line.columns.items()}
    assert (line.points, line.nonfinite) == (20, 10)
    if buckets == 600:
        seen = columns["value"]
        assert np.isfinite(columns["smoothed"]).tolist() == np.isfinite(seen).tolist()
        assert seen[np.isfinite(seen)].tolist() == list(range(0, 20, 2))
    else:
        assert columns["nonfinite"].sum() == 10
        assert (columns["min"].min(), columns["max"].max()) == (0, 18)
        assert np.isfinite(columns["smoothed"]).all()


def by_epoch(tmp_path, *, step=lambda epoch: epoch, start=0.0):
    """Write a loss of each iteration and another of each epoch, which has steps and times of its own."""
    writer = EventWriter(tmp_path / "a", clock=lambda: 1e9)
    for at in range(0, 150_000, 500):
        writer.scalar("loss/train", 1.0, at, 1e9 + at)
    for epoch in range(30):
        writer.scalar("loss/val", 1.0, step(epoch), 1e9 + start + 5000 * epoch * (1 - start / 150_000))
    writer.close()
    return store.open(tmp_path, cache=False)


@pytest.mark.parametrize("tags", [("loss/train", "loss/val"), ("loss/val",)])
def test_a_line_whose_steps_count_epochs_has_a_note(tmp_path, views, tags):
    log = by_epoch(tmp_path)
    asked = chart(*(("a", tag) for tag in tags), x0=0, x1=149_500)
    [answer] = ask(log, views, asked)[0].charts
    [note] = answer.notes
    assert note.text == "loss/val has steps 0 to 29 of 0 to 149,500, recorded over most of the run"
    assert "such as epochs: choose time as the x axis" in note.hint
    assert ask(log, views, asked | {"x": "relative"})[0].charts[0].notes == []
    assert ask(log, views, chart(("a", "loss/val")))[0].charts[0].notes == []


@pytest.mark.parametrize(
    "options",
    [{"step": lambda epoch: 5000 * epoch}, {"step": lambda epoch: 149_000 + epoch, "start": 149_000.0}],
    ids=["the same count", "a late and short part of the run"],
)
def test_a_line_that_counts_as_the_others_has_none(tmp_path, views, options):
    log = by_epoch(tmp_path, **options)
    [answer] = ask(log, views, chart(("a", "loss/train"), ("a", "loss/val")))[0].charts
    assert answer.notes == []
