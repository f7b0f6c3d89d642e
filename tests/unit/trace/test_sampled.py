"""Stacks that were sampled beside a profile: joined by the steps, or not at all."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from stepscope.trace.model import Source
from stepscope.trace.sampled import load_samples, settled

MS = 1_000_000
AHEAD = 5_000_000_000
"""What the samples' clock is ahead of the trace's."""


def document(**other):
    return {
        "schema": 1, "interval_ns": MS, "cwd": "/home/u",
        "steps": [[4, AHEAD, 1], [5, AHEAD + 10 * MS, 1]],
        "frames": ["/home/u/train.py(3): main", "/home/u/train.py(9): load"],
        "stacks": [[], [0], [0, 1]],
        "times_ns": [AHEAD, AHEAD + MS, AHEAD + 3 * MS], "runnable_ns": [0, MS, MS], "samples": [0, 1, 2],
    } | other  # fmt: skip


@pytest.fixture
def traced(tmp_path, make):
    """Write a document beside a profile and return the trace."""

    def written(text: str | bytes, *, zipped: bool = True):
        events = [
            make.event(f"ProfilerStep#{n}", make.Kind.STEP, n * 10 * MS, 10 * MS, step=n) for n in (4, 5)
        ]
        path = tmp_path / "a.json.gz"
        data = text.encode() if isinstance(text, str) else text
        (tmp_path / "a.json.gz.stacks").write_bytes(gzip.compress(data) if zipped else data)
        return replace(make.build(events), sources=(Source(str(path), "kineto", 0, 2),))

    return written


def test_samples_have_the_traces_time(traced) -> None:
    (samples,) = load_samples(traced(json.dumps(document()))).values()
    assert samples.start_ns.tolist() == [40 * MS, 41 * MS]
    assert samples.end_ns.tolist() == [41 * MS, 43 * MS]
    assert samples.runnable_ns.tolist() == [MS, 0]
    assert samples.stack.tolist() == [1, 2]
    assert (samples.lane, samples.directory, len(samples)) == (0, "/home/u", 2)


def test_a_mark_that_came_late_moves_no_stack(traced) -> None:
    """The thread had to wait for a processor between what notes a step and the step's mark in the profile."""
    steps = [[4, AHEAD - 2 * MS, 1], [5, AHEAD + 10 * MS, 1]]
    (samples,) = load_samples(traced(json.dumps(document(steps=steps)))).values()
    assert samples.start_ns.tolist() == [40 * MS, 41 * MS]


@pytest.mark.parametrize(
    ("ran", "queued", "expected"),
    [
        pytest.param([10, 6, 10], [0, 4, 0], [0, 4, 0], id="short waits stay where they are"),
        pytest.param([10, 0, 0, 5], [0, 0, 0, 25], [0, 10, 10, 5], id="a wait that is told when it is over"),
        pytest.param([4, 0, 10], [0, 13, 0], [3, 10, 0], id="none is put where the thread ran"),
        pytest.param([10, 0], [0, 99], [0, 10], id="none before the first sample"),
    ],
)
def test_a_wait_for_a_processor_is_counted_where_it_took_place(ran, queued, expected) -> None:
    runnable, told = settled(np.full(len(ran), 10), np.array(ran) + np.array(queued), np.array(queued))
    assert told.tolist() == expected
    assert (runnable - told).tolist() == ran


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ([0, 4, 9], [4, 5]),
        ([-1, -1, -1], None),
        ([0, 4], None),
        ("x", None),
        (["x", 1, 2], None),
        (None, None),
    ],
)
def test_waits_for_a_processor_are_known_where_they_were_counted(traced, told, known) -> None:
    (samples,) = load_samples(traced(json.dumps(document(queued_ns=told)))).values()
    found = samples.queued_ns
    assert (None if found is None else found.tolist()) == known


def test_workers_have_the_traces_time_and_what_lies_between_their_batches_is_nothing(traced) -> None:
    worker = {
        "pid": 9, "frames": ["/home/u/data.py(7): item"], "stacks": [[0]], "samples": [0, 0, 0],
        "times_ns": [AHEAD, AHEAD + 4 * MS, AHEAD + 90 * MS],
    }  # fmt: skip
    damaged = [worker | {"samples": [0, 1, 5]}, worker | {"times_ns": "x"}, {}, 3, worker | {"stacks": [[8]]}]
    (samples,) = load_samples(traced(json.dumps(document(workers=[worker, *damaged])))).values()
    (one,) = samples.workers
    assert one.start_ns.tolist() == [40 * MS, 120 * MS], "10 ms at most"
    assert one.end_ns.tolist() == [44 * MS, 130 * MS]
    assert (one.frames, one.directory) == (("/home/u/data.py(7): item",), "/home/u")
    for odd in (None, 3, {}):
        (samples,) = load_samples(traced(json.dumps(document(workers=odd)))).values()
        assert samples.workers == ()


def test_threads_that_python_did_not_start_have_their_stacks(traced) -> None:
    times = [AHEAD + MS, AHEAD + 2 * MS, AHEAD + 90 * MS]
    called = [{"times_ns": times, "samples": [2, 2, 2]}, {"times_ns": times, "samples": [9, 9, 9]}, 3]
    (samples,) = load_samples(traced(json.dumps(document(called=called)))).values()
    (one,) = samples.called
    assert one.start_ns.tolist() == [41 * MS, 128 * MS], "twice the interval at most"
    assert one.stacks[one.stack[0]] == (0, 1)


def test_what_was_compiled_has_the_traces_time(traced) -> None:
    good = [[AHEAD + MS, "jit(f)", ["x[1]"]]]
    (samples,) = load_samples(traced(json.dumps(document(compiled=good)))).values()
    assert samples.compiled == ((41 * MS, "jit(f)", ("x[1]",)),)
    for odd in (None, 3, [3], [["x", "y", "z"]], [[1, "f", None]]):
        (samples,) = load_samples(traced(json.dumps(document(compiled=odd)))).values()
        assert samples.compiled == ()


def test_what_the_system_does_not_count_is_not_0(traced) -> None:
    (samples,) = load_samples(traced(json.dumps(document(runnable_ns=[-1, -1, -1])))).values()
    assert np.all(samples.runnable_ns == -1)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"schema": 2}, id="of another version"),
        pytest.param({"steps": []}, id="no step"),
        pytest.param({"steps": [[9, AHEAD, 1]]}, id="other steps"),
        pytest.param({"steps": [[4, AHEAD, 1], [5, AHEAD + 90 * MS, 1]]}, id="steps of other lengths"),
        pytest.param({"steps": [[4, AHEAD, 9], [5, AHEAD + 10 * MS, 1]]}, id="a step in no stack"),
        pytest.param({"samples": [0, 1, 3]}, id="a stack that is not there"),
        pytest.param({"samples": [0, 1]}, id="columns of two lengths"),
        pytest.param({"stacks": [[], [0], [2]]}, id="a frame that is not there"),
        pytest.param({"times_ns": [AHEAD, AHEAD + 2, AHEAD + 1]}, id="time that runs back"),
        pytest.param({"times_ns": ["x"]}, id="no numbers"),
        pytest.param({"times_ns": [2**70]}, id="numbers too large"),
        pytest.param({"stacks": 3}, id="no list"),
    ],
)
def test_what_cannot_be_joined_is_left_out(traced, other) -> None:
    assert load_samples(traced(json.dumps(document(**other)))) == {}


@pytest.mark.parametrize("zipped", [True, False])
def test_a_damaged_file_is_left_out(traced, zipped) -> None:
    assert load_samples(traced(b"\x1f\x8b no JSON", zipped=zipped)) == {}


def test_a_profile_without_has_none(make) -> None:
    assert load_samples(make.build([make.event("a", make.Kind.HOST_OP, 0, 10)])) == {}


def test_the_captures_of_a_run_are_one_sample(tmp_path, make) -> None:
    """Frames of the same line have one number, and each capture has the offset of its own clock."""
    events = [
        make.event(f"ProfilerStep#{n}", make.Kind.STEP, n * 10 * MS, 10 * MS, step=n) for n in (4, 5, 9)
    ]
    for name, steps, shift in (("a", (4, 5), 0), ("b", (9,), 70 * MS)):
        told = document(
            steps=[[n, AHEAD + shift + (n - steps[0]) * 10 * MS, 1] for n in steps],
            times_ns=[AHEAD + shift + each * MS for each in (0, 1, 3)],
            frames=["/home/u/train.py(3): main", f"/home/u/train.py(9): {name}"],
            settings={"torch.detect_anomaly": True, "odd": [1]},
        )
        (tmp_path / f"{name}.stacks").write_bytes(gzip.compress(json.dumps(told).encode()))
    sources = tuple(Source(str(tmp_path / name), "kineto", 0, 2) for name in "abc")
    (samples,) = load_samples(replace(make.build(events), sources=sources)).values()
    assert samples.start_ns.tolist() == [40 * MS, 41 * MS, 90 * MS, 91 * MS]
    assert [samples.frames[samples.stacks[at][0]] for at in samples.stack] == [
        "/home/u/train.py(3): main"
    ] * 4
    assert samples.frames == tuple(
        f"/home/u/train.py({n}): {x}" for n, x in ((3, "main"), (9, "a"), (9, "b"))
    )
    assert samples.steps == {4, 5, 9}
    assert samples.settings == {"torch.detect_anomaly": True}


@pytest.mark.parametrize("found", [None, 3, [1], {"a": None}])
def test_damaged_settings_are_unknown(traced, found) -> None:
    (samples,) = load_samples(traced(json.dumps(document(settings=found)))).values()
    assert samples.settings == {}


@pytest.mark.parametrize(
    ("recorded", "read"),
    [
        ({"looks": 400, "shares": {"/u/train.py(3): main": 0.25}}, (400, {"/u/train.py(3): main": 0.25})),
        ({}, (0, {})),
        (None, (0, {})),
        ({"looks": 400, "shares": [3]}, (0, {})),
        ({"looks": "many", "shares": {}}, (0, {})),
    ],
)
def test_looks_at_the_whole_training_are_read_or_unknown(traced, recorded, read) -> None:
    (samples,) = load_samples(traced(json.dumps(document(looked=recorded)))).values()
    assert (samples.looked.looks, samples.looked.shares) == read
