"""Stacks of loader workers: sampled in a batch while a capture wants it, and read by the parent."""

import json
import os
import sys

from stepscope.capture.processes import Flag, Processes, WorkerSampler, read_stacks


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
