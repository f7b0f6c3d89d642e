import gzip
import json
from decimal import Decimal

import numpy as np
import pytest

from stepscope.export.timeline import write_timeline
from stepscope.trace.model import Kind


@pytest.fixture
def trace(make):
    e, K = make.event, make.Kind
    return make.build(
        [
            e("ProfilerStep#7", K.STEP, 0, 100_000, step=7),
            e("aten::mm", K.HOST_OP, 1_001, 20_000, scope="net/linear"),
            e("cudaLaunchKernel", K.RUNTIME_CALL, 2_000, 5_000, correlation=4),
            e('odd "name"\n\\ ü \x00', K.HOST_OP, 30_000, 1),
            e("gemm", K.KERNEL, 15_123, 40_456, device=0, stream=7, correlation=4, bytes=12),
            # Overlaps the first in part: a viewer would drop it from the same row.
            e("copy", K.MEMCPY, 50_000, 30_000, device=0, stream=7),
        ],
        memory=[
            {
                "time_ns": 5,
                "device": 0,
                "action": 0,
                "bytes": 512,
                "allocated_bytes": 512,
                "reserved_bytes": -1,
            }
        ],
    )


def read(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(data, parse_float=Decimal)


def check_format(document):
    """What the Trace Event Format and Perfetto's importer ask of the events."""
    rows = {}
    flows = {}
    for event in document["traceEvents"]:
        assert set(event) <= {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp", "s"}
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert event["ph"] in "XsfCMi"
        if event["ph"] == "X":
            assert event["dur"] >= 0
            rows.setdefault((event["pid"], event["tid"]), []).append(
                (event["ts"], event["ts"] + event["dur"])
            )
        if event["ph"] in "sf":
            flows.setdefault((event["cat"], event["id"]), []).append(event)
        if event["ph"] == "C":
            assert all(isinstance(value, (int, Decimal)) for value in event["args"].values())
    for spans in rows.values():
        open_until = []
        for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], "overlaps in part"
            open_until.append(end)
    for ends in flows.values():
        assert [end["ph"] for end in ends] == ["s", "f"]
        for end in ends:
            assert any(s <= end["ts"] <= e for s, e in rows[end["pid"], end["tid"]])


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_written_and_read_back(trace, tmp_path, name):
    assert write_timeline(trace, tmp_path / name) == 7
    document = read(tmp_path / name)
    check_format(document)
    events = {event["name"]: event for event in document["traceEvents"] if event["ph"] == "X"}
    assert len(events) == 6
    gemm = events["gemm"]
    assert (gemm["ts"], gemm["dur"]) == (Decimal("15.123"), Decimal("40.456"))
    assert gemm["cat"] == "kernel"
    assert gemm["args"] == {"step": 7, "device": 0, "stream": 7, "correlation": 4, "bytes": 12}
    assert events["aten::mm"]["args"] == {"step": 7, "scope": "net/linear"}
    assert 'odd "name"\n\\ ü \x00' in events
    assert events["copy"]["tid"] != gemm["tid"]
    flow = [event for event in document["traceEvents"] if event["ph"] == "s"]
    assert [(f["cat"], f["ts"]) for f in flow] == [("ac2g", Decimal("2.000"))]
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_names_of_rows(trace, tmp_path):
    write_timeline(trace, tmp_path / "out.json")
    named = [
        e for e in read(tmp_path / "out.json")["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"
    ]
    assert [e["args"]["name"] for e in named] == ["main", "stream 7", "stream 7 (2)"]


def test_secrets_stay_at_home(make, tmp_path):
    name = "python /home/jane/train.py --api-key=sk-abcdefghijklmnopqrstuvwx hf_abcdefghijklmnopqrstu"
    trace = make.build(
        [make.event(name, Kind.HOST_OP, 0, 5, scope="hf_zyxwvutsrqponmlkjihg")],
        not_recorded={"x": "https://me:hunter2@host/"},
        tables={
            "marks": {"lane": [0, -1], "time_ns": [1, 2], "name": [0, 0]},
            "counters": {"lane": [0, 0], "time_ns": [1, 2], "name": [0, 0], "value": [1.5, float("nan")]},
        },
    )
    write_timeline(trace, tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text()
    for secret in ("sk-abc", "hf_abc", "hf_zyx", "jane", "hunter2"):
        assert secret not in text
    assert "~/train.py" in text
    events = read(tmp_path / "out.json")["traceEvents"]
    assert [e["args"]["value"] for e in events if e["ph"] == "C"] == [Decimal("1.5")]
    assert [(e["s"], e["ts"]) for e in events if e["ph"] == "i"] == [
        ("t", Decimal("0.001")),
        ("g", Decimal("0.002")),
    ]
    write_timeline(trace, tmp_path / "raw.json", scrubbed=False)
    assert "hf_abc" in (tmp_path / "raw.json").read_text()


def test_nothing_to_write(make, tmp_path):
    trace = make.build([make.event("x", Kind.HOST_OP, 0, 5)])
    keep = np.zeros(0, np.int64)
    from dataclasses import replace

    from stepscope.trace.model import COLUMNS

    empty = replace(trace, **{name: getattr(trace, name)[keep] for name in COLUMNS})
    assert write_timeline(empty, tmp_path / "out.json") == 0
    assert all(event["ph"] == "M" for event in read(tmp_path / "out.json")["traceEvents"])


def test_a_failed_write_leaves_nothing(trace, tmp_path):
    with pytest.raises(OSError, match="missing"):
        write_timeline(trace, tmp_path / "missing" / "out.json")
    assert not list(tmp_path.iterdir())
