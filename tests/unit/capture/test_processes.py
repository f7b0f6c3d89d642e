import os
import time

from stepscope.capture import processes
from stepscope.capture.processes import Processes, ProcessSpans, Span, SpanRing, read_ring, trace_events


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
