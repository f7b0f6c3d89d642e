import csv
import io
import json

import numpy as np
import pytest
from support.addresses import Addresses

from stepscope import store
from stepscope.events import EventWriter
from stepscope.serve import points
from stepscope.serve.reply import Refusal

VALUES = [0.1, float("nan"), -float("inf"), 1e-30, 3.0]


@pytest.fixture
def log(tmp_path):
    for name in ("a", "b,c"):
        writer = EventWriter(tmp_path / name)
        for step, value in enumerate(VALUES):
            writer.scalar("loss", value, step, 1.7e9 + step / 8)
        writer.close()
    return store.open(tmp_path, cache=False)


def body(log, *query):
    return b"".join(Addresses(log=log).ask("points", query).data).decode()


def test_csv_holds_every_point_exactly(log):
    rows = list(
        csv.DictReader(io.StringIO(body(log, ("run", "a"), ("tag", "loss"), ("format", "csv")), newline=""))
    )
    assert [row["step"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert [row["value"] for row in rows] == ["0.1", "NaN", "-Infinity", "1e-30", "3.0"]
    np.testing.assert_array_equal(
        np.array([float(row["value"]) for row in rows], "f4"), np.array(VALUES, "f4")
    )
    assert [float(row["wall_time"]) for row in rows] == [1.7e9 + step / 8 for step in range(5)]
    assert {(row["run"], row["tag"], row["attempt"]) for row in rows} == {("a", "loss", "1")}


def test_json_is_valid_and_exact(log):
    [series] = json.loads(body(log, ("run", "a"), ("tag", "loss")), parse_constant=pytest.fail)["series"]
    assert series["step"] == [0, 1, 2, 3, 4]
    assert series["value"] == [0.1, "NaN", "-Infinity", 1e-30, 3.0]
    assert series["wall_time"] == [1.7e9 + step / 8 for step in range(5)]
    assert (series["run"], series["tag"], series["attempt"]) == ("a", "loss", 1)


def test_several_series_in_one_answer(log):
    query = [("run", "a"), ("tag", "loss"), ("run", "b,c"), ("tag", "loss")]
    assert [series["run"] for series in json.loads(body(log, *query))["series"]] == ["a", "b,c"]
    rows = list(csv.reader(io.StringIO(body(log, *query, ("format", "csv")), newline="")))
    assert len(rows) == 11
    assert [row[0] for row in rows[1:]] == ["a"] * 5 + ["b,c"] * 5


@pytest.mark.parametrize("form", ["csv", "json"])
def test_pieces_join_without_a_seam(log, monkeypatch, form):
    query = [("run", "a"), ("tag", "loss"), ("format", form)]
    whole = body(log, *query)
    monkeypatch.setattr(points, "PIECE", 2)
    assert body(log, *query) == whole
    assert len(list(Addresses(log=log).ask("points", query).data)) > 3


def test_a_series_that_grows_meanwhile_stays_whole(tmp_path, monkeypatch, writer_in):
    monkeypatch.setattr(points, "PIECE", 1)
    writer = writer_in(tmp_path / "a")
    log = store.open(tmp_path, cache=False)

    def more(step):
        writer.scalar("loss", 1.0, step, 1.0)
        writer.flush()
        log.refresh()

    more(0)
    parts = []
    for step, part in enumerate(Addresses(log=log).ask("points", "run=a&tag=loss").data, 1):
        parts.append(part)
        more(step)
    [series] = json.loads(b"".join(parts))["series"]
    assert len(series["step"]) == len(series["wall_time"]) == len(series["value"]) < len(parts)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ([], 400, "no run given"),
        ([("run", "a")], 400, "no tag given"),
        ([("run", "a"), ("run", "b"), ("tag", "loss")], 400, "2 runs and 1 tag"),
        ([("run", "a"), ("tag", "loss"), ("format", "xls")], 400, "format is 'xls': expected csv or json"),
        ([("run", "a"), ("tag", "loss"), ("depth", "1")], 400, "unknown parameter 'depth'"),
        ([("run", "z"), ("tag", "loss")], 404, "no run 'z'"),
        ([("run", "a"), ("tag", "lost")], 404, "no tag 'lost'"),
    ],
)
def test_what_is_no_series_is_refused(log, query, status, words):
    with pytest.raises(Refusal, match=words) as caught:
        Addresses(log=log).ask("points", query)
    assert caught.value.status == status
    assert caught.value.hint


@pytest.mark.parametrize(
    ("run", "tag", "name"),
    [
        ("a", "loss", "a-loss.csv"),
        ("x/y", 'l"o\r\nss', "x-y-l-o-ss.csv"),
        ("../..", "é", "points.csv"),
        ("a" * 300, "loss", "a" * 100 + ".csv"),
    ],
)
def test_the_file_name_fits_any_file_system_and_header(run, tag, name):
    assert points.file_name(run, tag, more=0) + ".csv" == name


def test_before_anything_has_been_read():
    with pytest.raises(Refusal, match="nothing has been read yet"):
        Addresses().ask("points", "run=a&tag=loss")


def test_another_tag_as_x_is_a_column(tmp_path):
    writer = EventWriter(tmp_path / "a")
    for step in range(5):
        writer.scalar("loss", step / 8, step, 1.7e9)
    for step in (1, 3):
        writer.scalar("-tokens", 1000.0 * step, step, 1.7e9)
    writer.close()
    log = store.open(tmp_path, cache=False)
    query = [("run", "a"), ("tag", "loss"), ("x_tag", "-tokens")]
    rows = list(csv.DictReader(io.StringIO(body(log, *query, ("format", "csv")), newline="")))
    assert [row["x"] for row in rows] == ["", "1000.0", "2000.0", "3000.0", ""]
    assert {row["x_tag"] for row in rows} == {"'-tokens"}, "no formula of a spreadsheet"
    assert [row["value"] for row in rows] == ["0.0", "0.125", "0.25", "0.375", "0.5"]
    [series] = json.loads(body(log, *query), parse_constant=pytest.fail)["series"]
    assert series["x"] == ["NaN", 1000.0, 2000.0, 3000.0, "NaN"]
    assert series["x_tag"] == "-tokens"
    [series] = json.loads(body(log, ("run", "a"), ("tag", "loss"), ("x_tag", "none")))["series"]
    assert series["x"] == ["NaN"] * 5


def test_a_series_that_grew_since_it_was_placed_is_cut(log):
    series = log.run("a").columns("loss")[0]
    rows = b"".join(points.csv_pieces([(series, np.array([7.0, 8.0]))], "x")).decode().splitlines()
    assert [row.rsplit(",", 1)[-1] for row in rows] == ["x", "7.0", "8.0"]
