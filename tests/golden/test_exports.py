"""Exports of recorded traces, read back by other readers than the one that wrote them."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest
from support.recordings import recorded

from stepscope.export.folded import folded_stacks
from stepscope.export.speedscope import write_speedscope
from stepscope.export.timeline import write_timeline
from stepscope.trace.load import load_trace

TRACES = (
    "traces/kineto/a100_ddp_rank0of2.json.gz", "traces/kineto/b200_rank0of8.json.gz",
    "traces/critical_path/alexnet.json.gz", "traces/xplane/jax_mi300_8dev.xplane.pb",
    "tf_estimator/distributed/worker_2", "traces/dlrm_8xv100",
)  # fmt: skip


@pytest.fixture(scope="module", params=TRACES)
def trace(request):
    return load_trace(recorded(request.param), cache=False)


def test_a_timeline_holds_every_event(trace, tmp_path):
    written = write_timeline(trace, tmp_path / "out.json.gz")
    with gzip.open(tmp_path / "out.json.gz") as file:
        events = json.load(file)["traceEvents"]
    phases = Counter(event["ph"] for event in events)
    assert phases["X"] + phases["C"] + phases["i"] == written
    assert phases["s"] == phases["f"]
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == len(trace)
    found = np.array([[round(e["ts"] * 1000), round(e["dur"] * 1000)] for e in slices])
    assert np.array_equal(found, np.stack([trace.start_ns, trace.duration_ns], axis=1))
    assert Counter(e["name"] for e in slices) == Counter(
        json.loads(json.dumps(trace.name_of(row))) for row in range(len(trace))
    )
    check_rows(slices, events)


def check_rows(slices, events):
    """Every row is named, and its events nest: Perfetto drops those that do not."""
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    rows = {}
    for event in slices:
        start = round(event["ts"] * 1000)
        row = (event["pid"], event["tid"])
        rows.setdefault(row, []).append((start, start + round(event["dur"] * 1000)))
    assert set(rows) <= named
    for spans in rows.values():
        until = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while until and until[-1] <= start:
                until.pop()
            assert not until or end <= until[-1]
            until.append(end)


def test_our_own_reader_finds_the_same(trace, tmp_path):
    write_timeline(trace, tmp_path / "out.json")
    again = load_trace(tmp_path / "out.json", cache=False)
    assert len(again) == len(trace)
    assert again.duration_ns.sum() == trace.duration_ns.sum()
    assert sorted(again.duration_ns.tolist()) == sorted(trace.duration_ns.tolist())


def test_speedscope_profiles_are_well_formed(trace, tmp_path):
    write_speedscope(trace, tmp_path / "out.json")
    document = json.loads((tmp_path / "out.json").read_text())
    frames, opened = len(document["shared"]["frames"]), 0
    for profile in document["profiles"]:
        at, stack = profile["startValue"], []
        for event in profile["events"]:
            assert event["at"] >= at
            at = event["at"]
            if event["type"] == "O":
                opened += 1
                assert event["frame"] < frames
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert not stack
        assert at <= profile["endValue"]
    assert opened == len(trace)


def test_folded_stacks_add_up(trace):
    assert sum(folded_stacks(trace).values()) == trace.self_ns[trace.device < 0].sum()
    work = trace.device_work()
    assert sum(folded_stacks(trace, time="device").values()) == trace.duration_ns[work].sum()
