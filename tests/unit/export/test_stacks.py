"""Speedscope files, folded stacks and tables."""

import json

import polars as pl
import pytest

from stepscope.errors import UsageError
from stepscope.export.folded import folded_stacks, write_folded
from stepscope.export.speedscope import write_speedscope
from stepscope.export.tables import write_table, write_tables


@pytest.fixture
def trace(make):
    e, K = make.event, make.Kind
    return make.build(
        [
            e("step", K.STEP, 0, 100, step=1),
            e("a;b", K.HOST_OP, 10, 50),
            e("launch", K.RUNTIME_CALL, 20, 10, correlation=3),
            e("a;b", K.HOST_OP, 70, 10),
            e("k", K.KERNEL, 40, 30, device=0, stream=1, correlation=3),
            e("lonely", K.KERNEL, 60, 5, device=0, stream=1),
            e("late", K.KERNEL, 68, 5, device=0, stream=1),
        ]
    )


def test_folded_host_is_self_time(trace):
    assert folded_stacks(trace) == {
        "python 1 main;step": 40,
        "python 1 main;step;a:b": 50,
        "python 1 main;step;a:b;launch": 10,
    }


def test_folded_device_is_by_launch(trace):
    assert folded_stacks(trace, time="device") == {
        "python 1 main;step;a:b;launch;k": 30,
        "GPU 0 stream 1;lonely": 5,
        "GPU 0 stream 1;late": 5,
    }


def test_folded_file(trace, tmp_path):
    assert write_folded(trace, tmp_path / "x.folded", time="device") == 3
    lines = (tmp_path / "x.folded").read_text().splitlines()
    assert lines[0] == "GPU 0 stream 1;late 5"
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 40
    with pytest.raises(UsageError, match="host or device"):
        folded_stacks(trace, time="gpu")


def test_speedscope(trace, tmp_path):
    assert write_speedscope(trace, tmp_path / "x.json") == 7
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = document["shared"]["frames"]
    # "late" overlaps "k" in part, so the stream becomes two profiles.
    assert [p["name"] for p in document["profiles"]] == [
        "python 1 main",
        "GPU 0 stream 1",
        "GPU 0 stream 1 (2)",
    ]
    for profile in document["profiles"]:
        assert profile["type"] == "evented"
        assert profile["unit"] == "nanoseconds"
        check_evented(profile, len(frames))
    main = document["profiles"][0]["events"]
    assert [(x["type"], frames[x["frame"]]["name"], x["at"]) for x in main[:4]] == [
        ("O", "step", 0),
        ("O", "a;b", 10),
        ("O", "launch", 20),
        ("C", "launch", 30),
    ]


def check_evented(profile, frames):
    """Rules of speedscope's importer: time never goes back, and what closes is what opened last."""
    at, stack = profile["startValue"], []
    for event in profile["events"]:
        assert event["at"] >= at
        at = event["at"]
        assert 0 <= event["frame"] < frames
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"]
    assert not stack
    assert at == profile["endValue"]


def test_tables(trace, tmp_path):
    written = write_tables(trace, tmp_path / "tables", "parquet")
    assert set(written) == {"events", "steps"}
    events = pl.read_parquet(written["events"])
    assert events.shape[0] == 7
    assert events["name"].to_list() == [trace.name_of(row) for row in range(7)]
    assert events.filter(pl.col("name") == "lonely")["launch"].to_list() == [None]
    assert write_table(trace, tmp_path / "steps.csv", table="steps") == 1
    assert pl.read_csv(tmp_path / "steps.csv")["end_ns"].to_list() == [100]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t, d: write_table(t, d / "x.txt"), "ending in .csv or .parquet"),
        (lambda t, d: write_table(t, d / "x.csv", table="nope"), "no table 'nope'"),
        (lambda t, d: write_tables(t, d, "xlsx"), "csv or parquet"),
    ],
)
def test_wrong_use(trace, tmp_path, call, message):
    with pytest.raises(UsageError, match=message):
        call(trace, tmp_path)
