"""Files that other tools left in an odd state: nothing is lost silently, nothing raises when looked at."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import stepscope as ss
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

NAME = "events.out.tfevents.1.host.1.0"
SCALARS = Metadata.of("scalars")


def write(directory, events, name=NAME):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(b"".join(frame(encode_event(event)) for event in events))


def said(step, *values, wall=1.0):
    return Event(wall, step, summary=Summary(list(values)))


@pytest.mark.parametrize("wall", [0.0, math.nan, -1.0])
def test_a_file_without_times_is_read(wall, tmp_path):
    histogram = Histogram(0, 1, 1, 1, 1, [1.0, 2.0], [0.0, 1.0])
    write(
        tmp_path,
        [
            Event(wall, file_version="brain.Event:2"),
            *(said(step, Value("loss", simple_value=step / 2), wall=wall) for step in range(3)),
            said(2, Value("h", histo=histogram), wall=wall),
        ],
    )
    write(tmp_path, [said(7, Value("timed", simple_value=1.0), wall=50.0)], NAME.replace("1.0", "2.0"))
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
        Value("more limits", histo=Histogram(0, 1, 1, 1, 1, [1.0, 2.0], [1.0])),
        Value("more counts", histo=Histogram(0, 1, 1, 1, 1, [1.0], [1.0, 2.0])),
        Value("fine", histo=Histogram(0, 1, 1, 1, 1, [1.0], [1.0])),
        Value("number", simple_value=2.0),
    ]
    write(tmp_path, [said(step, value) for step, value in enumerate(odd)])
    with ss.open(tmp_path) as log:
        run = log.run(".")
        assert run.tags() == ["number"]
        assert [record.tag for record in run.records()] == ["fine"]
        assert [list(series) for series in run.record("fine")]
        [problem] = run.problems
        assert (problem.kind, problem.count) == ("malformed", 6)


def test_well_formed_files_have_no_such_problem(tmp_path):
    torch = pytest.importorskip("torch.utils.tensorboard")
    with torch.SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("h", np.arange(9.0), 0)
        writer.add_histogram_raw("raw", 0, 0, 0, 0, 0, [], [], 0)
        writer.add_scalar("s", 1.0, 0, new_style=True)
        writer.add_scalar("d", 1.0, 0, new_style=True, double_precision=True)
    with ss.open(tmp_path) as log:
        assert log.run(".").problems == []
        assert log.run(".").tags() == ["d", "s"]


def test_a_tag_that_begins_as_an_expression_can_be_asked_for(tmp_path):
    from stepscope.serve.points import series_of

    write(tmp_path, [said(1, Value("=loss", simple_value=3.0), Value("loss", simple_value=1.0))])
    with ss.open(tmp_path) as log:
        assert series_of(log, ".", "=loss")[0].value.tolist() == [3.0]
        assert series_of(log, ".", "=loss * 2")[0].value.tolist() == [2.0]


def test_values_of_frames_have_one_type(tmp_path):
    wide = Value("wide", tensor=Tensor(2, Shape(), double_val=[1 / 3]), metadata=SCALARS)
    write(tmp_path, [said(1, wide, Value("narrow", simple_value=0.5))])
    with ss.open(tmp_path) as log:
        run = log.run(".")
        frames = [run.series("wide"), run.series("narrow")]
        assert pl.concat(frames)["value"].to_list() == [1 / 3, 0.5]
        assert (
            log.frame(tags="narrow").schema["value"] == log.frame(tags="none").schema["value"] == pl.Float64
        )


def test_files_of_the_debugger_are_said_to_be_that(tmp_path):
    write(tmp_path / "run", [said(1, Value("loss", simple_value=1.0))])
    for part in ("metadata", "execution", "graphs"):
        (tmp_path / "run" / f"tfdbg_events.1600000000.host.{part}").write_bytes(b"x")
    with ss.open(tmp_path) as log:
        [problem] = log.problems
        assert (problem.kind, problem.count, problem.file) == ("debugger", 3, f"{tmp_path}/run")
        assert "Debugger V2" in problem.text
        assert log.run("run").problems == []
