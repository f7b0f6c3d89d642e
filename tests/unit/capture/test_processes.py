import json
import os
import sys
import time

from stepscope.capture import processes
from stepscope.capture.processes import (
    Flag,
    Processes,
    ProcessSpans,
    Span,
    SpanRing,
    WorkerSampler,
    read_ring,
    read_stacks,
    trace_events,
)


def test_spans_that_overlap_the_capture_are_read(tmp_path):
    ring = SpanRing(tmp_path, "DataLoader worker 3")
    for number in range(5):
        ring.add(b"fetch", 100 * number, 100 * number + 50, number)
    found = read_ring(next(tmp_path.iterdir()), 220, 400)
    assert found == ProcessSpans(
        os.getpid(), "DataLoader worker 3", (Span("fetch", 200, 250, 2), Span("fetch", 300, 350, 3))
    )


def test_the_ring_keeps_the_last_spans(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "SPANS", 4)
    ring = SpanRing(tmp_path, "w")
    for number in range(10):
        ring.add(b"fetch", number, number + 1, number)
    found = read_ring(next(tmp_path.iterdir()), 0, 100)
    assert [span.number for span in found.spans] == [7, 8, 9], (
        "the oldest may be overwritten while it is read"
    )


def test_the_folder_exists_while_somebody_wants_it():
    place = Processes()
    assert place.during(0) == []
    folder = place.open()
    assert place.open() == folder
    SpanRing(folder, "w").add(b"fetch", time.time_ns() - 10, time.time_ns(), 0)
    (folder / "7.spans").write_bytes(b"torn")
    place.close()
    assert [process.name for process in place.during(time.time_ns() - 10**9)] == ["w"]
    place.close()
    assert not folder.exists()
    assert place.during(0) == []


def test_what_cannot_be_read_leaves_out_that_worker_alone():
    place = Processes()
    folder = place.open()
    try:
        (folder / "1.spans").write_bytes(b"torn")
        SpanRing(folder, "w").add(b"fetch", 5, 6, 0)
        assert [process.name for process in place.during(0)] == ["w"]
    finally:
        place.close()


def test_events_carry_process_name_and_batch_in_the_clock_of_the_file():
    found = [ProcessSpans(7, "DataLoader worker 0", (Span("fetch", 5_001_500, 5_003_500, 9),))]
    one, two, event = trace_events(found, 5_000_000)
    assert (one["name"], two["name"]) == ("process_name", "thread_name")
    assert one["args"] == {"name": "DataLoader worker 0"}
    assert (event["pid"], event["ts"], event["dur"], event["args"]) == (7, 1.5, 2.0, {"batch": 9})


# Stacks of loader workers: sampled in a batch while a capture wants it, and read by the parent.


def fetching(sampler: WorkerSampler, times: int) -> int:
    """Stand in for a fetch; returns the line that is sampled."""
    sampler.begin(sys._getframe())
    item(sampler, times)
    sampler.end()
    return item.__code__.co_firstlineno + 2


def item(sampler: WorkerSampler, times: int) -> None:
    for _ in range(times):
        sampler.sample()


def test_a_worker_samples_its_batch_while_a_capture_wants_it(tmp_path):
    flag, sampler = Flag(tmp_path), WorkerSampler(tmp_path, iter(range(100, 999)).__next__)
    fetching(sampler, 3)
    assert not list(tmp_path.glob("*.samples")), "nobody asked"
    flag.number = 7
    assert sampler.sample(), "between batches it notes nothing, and goes on"
    line = fetching(sampler, 3)
    flag.number = 0
    fetching(sampler, 2)
    (found,) = read_stacks(tmp_path, 7, shift_ns=-100)
    assert found["pid"] == os.getpid()
    assert (found["times_ns"], found["samples"]) == ([0, 1, 2], [0, 0, 0])
    frames = [found["frames"][at] for at in found["stacks"][0]]
    assert frames[0] == f"{__file__}({line}): item", "without what is around the fetch"
    assert read_stacks(tmp_path, 8) == []
    flag.number = 8
    fetching(sampler, 1)
    flag.number = 0
    sampler.sample()
    (again,) = read_stacks(tmp_path, 8)
    assert len(again["samples"]) == 1, "each capture has a file of its own"


def test_a_worker_that_is_writing_loses_its_last_line_alone(tmp_path):
    lines = [json.dumps(["a.py(1): f"]), "[5,0]", "[6,0]", "[7"]
    (tmp_path / "12-3.samples").write_text("\n".join(lines))
    (tmp_path / "13-3.samples").write_text("no JSON\n")
    (tmp_path / "14-3.samples").write_text("")
    assert read_stacks(tmp_path, 3, 10) == [
        {"pid": 12, "frames": ["a.py(1): f"], "stacks": [[0]], "times_ns": [15, 16], "samples": [0, 0]}
    ]


def test_captures_have_numbers_of_their_own_and_none_without_workers():
    place = Processes()
    assert (place.want_stacks(), place.stacks(1, 0)) == (0, [])
    place.want_no_stacks()
    folder = place.open()
    try:
        sampler = WorkerSampler(folder)
        assert not sampler.sample()
        assert place.want_stacks() == 1
        assert sampler.sample()
        place.want_no_stacks()
        assert not sampler.sample()
        assert place.want_stacks() == 2
    finally:
        place.close()
