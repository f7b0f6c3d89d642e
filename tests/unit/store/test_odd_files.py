"""Files that other tools left in an odd state: nothing is lost silently, nothing raises when looked at."""

import json
import math
import struct

import numpy as np
import polars as pl
import pytest
from support.records import NAME, write_events

import stepscope as ss
from stepscope.cli import main
from stepscope.errors import EventFileError
from stepscope.events.framing import frame
from stepscope.events.messages import (
    Event,
    Histogram,
    Metadata,
    Shape,
    Summary,
    Tensor,
    Value,
    encode_event,
)
from stepscope.events.wire import length_prefixed

SCALARS = Metadata.of("scalars")


def said(step, *values, wall=1.0):
    return Event(wall, step, summary=Summary(list(values)))


@pytest.mark.parametrize("wall", [0.0, math.nan, -1.0])
def test_a_file_without_times_is_read(wall, tmp_path):
    histogram = Histogram(0, 1, 1, 1, 1, [1.0, 2.0], [0.0, 1.0])
    write_events(
        tmp_path,
        [
            Event(wall, file_version="brain.Event:2"),
            *(said(step, Value("loss", simple_value=step / 2), wall=wall) for step in range(3)),
            said(2, Value("h", histo=histogram), wall=wall),
        ],
    )
    write_events(tmp_path, [said(7, Value("timed", simple_value=1.0), wall=50.0)], NAME.replace("1.0", "2.0"))
    with ss.open(tmp_path) as log:
        [run] = log.runs()
        assert run.tags() == ["loss", "timed"]
        assert run.columns("loss")[0].value.tolist() == [0.0, 0.5, 1.0]
        assert run.columns("timed")[0].value.tolist() == [1.0]
        assert len(run.record("h")) == 1
        assert run.last_wall == 50.0
        assert len(log.frame()) == 4


def test_what_is_not_what_its_plugin_says_is_counted_and_left_out(tmp_path):
    odd = [
        Value("text", tensor=Tensor(7, Shape(), string_val=[b"x"]), metadata=SCALARS),
        Value("short", tensor=Tensor(1, Shape(), tensor_content=b"abc"), metadata=SCALARS),
        Value("array", tensor=Tensor(1, Shape.of(3), float_val=[1.0, 2.0, 3.0]), metadata=SCALARS),
        Value("type", tensor=Tensor(99, Shape(), float_val=[1.0]), metadata=SCALARS),
        Value("several", tensor=Tensor(1, float_val=[1.0, 2.0]), metadata=SCALARS),
        Value("several of one", tensor=Tensor(1, Shape.of(1), float_val=[1.0, 2.0]), metadata=SCALARS),
        Value("several doubles", tensor=Tensor(2, double_val=[1.0, 2.0]), metadata=SCALARS),
        Value("several whole", tensor=Tensor(9, int64_val=[1, 300]), metadata=SCALARS),
        Value("several halves", tensor=Tensor(19, half_val=[1, 2]), metadata=SCALARS),
        Value("more limits", histo=Histogram(0, 1, 1, 1, 1, [1.0, 2.0], [1.0])),
        Value("more counts", histo=Histogram(0, 1, 1, 1, 1, [1.0], [1.0, 2.0])),
        Value("fine", histo=Histogram(0, 1, 1, 1, 1, [1.0], [1.0])),
        Value("number", simple_value=2.0),
    ]
    write_events(tmp_path, [said(step, value) for step, value in enumerate(odd)])
    with ss.open(tmp_path) as log:
        run = log.run(".")
        assert run.tags() == ["number"]
        assert [record.tag for record in run.records()] == ["fine"]
        assert [list(series) for series in run.record("fine")]
        [problem] = run.problems
        assert (problem.kind, problem.count) == ("malformed", 11)


def test_a_list_that_is_not_packed_is_counted_and_not_read_as_its_first_number(tmp_path):
    value = bytearray(bytes(Value("several", metadata=SCALARS)))
    tensor = b"\x08\x01" + b"".join(b"\x2d" + struct.pack("<f", number) for number in (1.0, 2.0))
    value += b"\x42" + length_prefixed(tensor)
    event = encode_event(Event(1.0, 1)) + b"\x2a" + length_prefixed(b"\x0a" + length_prefixed(bytes(value)))
    (tmp_path / NAME).write_bytes(frame(event))
    with ss.open(tmp_path) as log:
        assert log.run(".").tags() == []
        assert [problem.count for problem in log.run(".").problems] == [1]


def test_wall_times_that_are_no_date_are_none_of_the_runs_and_break_no_listing(tmp_path, capsys):
    walls = [0.0, math.nan, math.inf, -1e300, 1e300, 1.7e9]
    write_events(
        tmp_path, [said(step, Value("a", simple_value=1.0), wall=wall) for step, wall in enumerate(walls)]
    )
    with ss.open(tmp_path) as log:
        run = log.run(".")
        assert (run.first_wall, run.last_wall) == (1.7e9, 1.7e9)
        assert len(run.series("a")) == len(walls)
    assert main(["ls", "--json", str(tmp_path)]) == 0
    [found] = json.loads(capsys.readouterr().out)["runs"]
    assert found["updated"] == 1.7e9


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(7, Shape(), string_val=[b"x"]),
        Tensor(2, Shape.of(2, 2), double_val=[1.0, 2.0, 3.0, 4.0]),
        Tensor(2, Shape.of(3, 3), tensor_content=b"abc"),
        Tensor(2, Shape(), double_val=[1.0]),
    ],
)
def test_a_tensor_that_is_no_histogram_is_counted_and_left_out(tensor, tmp_path):
    write_events(tmp_path, [said(1, Value("h", tensor=tensor, metadata=Metadata.of("histograms")))])
    with ss.open(tmp_path) as log:
        run = log.run(".")
        assert run.records() == []
        assert [(problem.kind, problem.count) for problem in run.problems] == [("malformed", 1)]


def test_a_value_that_changes_after_it_was_listed_says_so(tmp_path):
    """The file is read again when a value is looked at: what stands there now may be something else."""
    about, rows = Metadata.of("histograms"), struct.pack("<3d", 0, 1, 2)
    write_events(
        tmp_path, [said(1, Value("h", tensor=Tensor(2, Shape.of(1, 3), tensor_content=rows), metadata=about))]
    )
    with ss.open(tmp_path) as log:
        series = log.run(".").record("h")[0]
        write_events(tmp_path, [said(1, Value("h", tensor=Tensor(2, Shape.of(3), tensor_content=rows)))])
        with pytest.raises(EventFileError):
            series[0]


def test_well_formed_files_have_no_such_problem(tmp_path):
    with pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("h", np.arange(9.0), 0)
        writer.add_histogram_raw("raw", 0, 0, 0, 0, 0, [], [], 0)
        writer.add_scalar("s", 1.0, 0, new_style=True)
        writer.add_scalar("d", 1.0, 0, new_style=True, double_precision=True)
    with ss.open(tmp_path) as log:
        assert log.run(".").problems == []
        assert log.run(".").tags() == ["d", "s"]


def test_a_tag_that_begins_as_an_expression_can_be_asked_for(tmp_path):
    from stepscope.serve.points import series_of

    write_events(tmp_path, [said(1, Value("=loss", simple_value=3.0), Value("loss", simple_value=1.0))])
    with ss.open(tmp_path) as log:
        assert series_of(log, ".", "=loss")[0].value.tolist() == [3.0]
        assert series_of(log, ".", "=loss * 2")[0].value.tolist() == [2.0]


def test_values_of_frames_have_one_type(tmp_path):
    wide = Value("wide", tensor=Tensor(2, Shape(), double_val=[1 / 3]), metadata=SCALARS)
    write_events(tmp_path, [said(1, wide, Value("narrow", simple_value=0.5))])
    with ss.open(tmp_path) as log:
        run = log.run(".")
        frames = [run.series("wide").polars(), run.series("narrow").polars()]
        assert pl.concat(frames)["value"].to_list() == [1 / 3, 0.5]
        assert run.series("narrow").value.dtype == log.frame(tags="none").value.dtype == np.float64


def test_wall_times_that_equal_steps_stay_what_they_are(tmp_path):
    points = [said(step, Value("a", simple_value=1.0), wall=float(step)) for step in range(4)]
    write_events(tmp_path, [*points, said(0, Value("b", simple_value=1.0), wall=1.5)])
    with ss.open(tmp_path) as log:
        [series] = log.run(".").columns("a")
        assert (series.step.dtype.kind, series.wall.dtype.kind) == ("i", "f")
        assert log.frame()["wall_time"].tolist() == [0.0, 1.0, 2.0, 3.0, 1.5]


def test_files_of_the_debugger_are_said_to_be_that(tmp_path):
    write_events(tmp_path / "run", [said(1, Value("loss", simple_value=1.0))])
    for part in ("metadata", "execution", "graphs"):
        (tmp_path / "run" / f"tfdbg_events.1600000000.host.{part}").write_bytes(b"x")
    with ss.open(tmp_path) as log:
        [problem] = log.problems
        assert (problem.kind, problem.count, problem.file) == ("debugger", 3, f"{tmp_path}/run")
        assert "Debugger V2" in problem.text
        assert log.run("run").problems == []
