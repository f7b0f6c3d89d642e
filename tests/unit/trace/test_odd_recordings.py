"""Recordings with parts that no profiler writes: every command answers, or says what is wrong."""

import json

import pytest

from stepscope.cli import main
from stepscope.trace.load import load_trace
from stepscope.trace.structure import NAMELESS

LANE = {"ph": "X", "pid": 1, "tid": 1}
STEPS = [
    {**LANE, "cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": 1000 * step, "dur": 1000}
    for step in (1, 2)
]
OPERATORS = [{**LANE, "cat": "cpu_op", "name": "aten::mm", "ts": at, "dur": 500} for at in (1010, 2010)]
EVENTS = [*STEPS, *OPERATORS]
ODD = {
    "an operator without a name": {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1600, "dur": 300},
    "a kernel without a name": {
        "ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 1600, "dur": 300,
        "args": {"device": 0, "stream": 7, "correlation": 3},
    },
    "half a character in a process": {
        "ph": "M", "name": "process_name", "pid": 1, "args": {"name": "\ud800"},
    },
    "half a character in a name": {
        "ph": "X", "cat": "cpu_op", "name": "\udfff", "pid": 1, "tid": 1, "ts": 1600, "dur": 300,
    },
    "a time near the end of numbers": {
        "ph": "X", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": 9.2e18, "dur": 300,
    },
}  # fmt: skip


@pytest.fixture(params=ODD)
def path(request, tmp_path):
    found = tmp_path / "odd.pt.trace.json"
    spread = {"rank": 0, "world_size": 10**12, "backend": "\ud800"}
    events = [*EVENTS, ODD[request.param]]
    found.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": spread, "traceEvents": events}))
    return found


@pytest.mark.parametrize("command", ["glance", "advise", "ranks", "timeline", "diff", "profile"])
def test_every_command_answers(path, command, tmp_path, capsys):
    more = {
        "diff": [str(path)], "timeline": ["-o", str(tmp_path / "out.json.gz")], "profile": [],
    }.get(command, [])  # fmt: skip
    words = [command, *(["op"] if command == "profile" else []), "--no-cache", str(path), *more]
    assert main(words) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err


def test_every_event_has_a_name_and_every_text_can_be_written(path):
    trace = load_trace(path, cache=False)
    assert (trace.name >= 0).all()
    assert trace.frame()["name"].null_count() == 0
    for lane in trace.lanes:
        (lane.process + lane.thread).encode()


def test_an_event_without_a_name_is_named_as_that(tmp_path):
    path = tmp_path / "a.pt.trace.json"
    path.write_text(
        json.dumps({"schemaVersion": 1, "traceEvents": [*EVENTS, ODD["an operator without a name"]]})
    )
    trace = load_trace(path, cache=False)
    assert [trace.name_of(row) for row in trace.named(NAMELESS)] == [NAMELESS]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": EVENTS}))
    assert NAMELESS not in load_trace(path, cache=False).strings.texts()
