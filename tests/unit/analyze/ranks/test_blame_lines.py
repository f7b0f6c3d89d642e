"""The line that others wait for: innermost, of the thread that trains, and the parts sum to all waiting."""

import gzip
import json

import pytest

from stepscope.job import load_ranks
from stepscope.serve.job_report import verdict
from stepscope.serve.profiles.job import answer_of

GROUPS = [
    {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "pg_size": 2, "ranks": [0, 1]}
]
STEPS, STEP_US, DELAY_US, TRANSFER_US = 8, 1000, 600, 50


def event(name, category, start, length, thread=100, **args):
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": start, "dur": length,
        "args": args,
    }  # fmt: skip


@pytest.fixture
def job(tmp_path):
    return made(tmp_path)


def made(tmp_path, steps=STEPS, *, stacks=True):
    """Return two ranks that all-reduce over gloo in each step; rank 1 sleeps before it comes to that."""
    for rank in range(2):
        whole = steps * STEP_US
        events = [
            event("train.py(30): <module>", "python_function", 0, whole),
            event("aten::linear", "cpu_op", 20, 10),
            event("threading.py(900): run", "python_function", 0, whole, 200),
            event("threading.py(331): wait", "python_function", 1, whole - 2, 200),
            event("<method 'acquire' of '_thread.lock' objects>", "python_function", 2, whole - 4, 200),
        ]
        for step in range(steps):
            at = step * STEP_US
            events.append(event(f"ProfilerStep#{step}", "user_annotation", at, STEP_US - 10))
            if rank == 1:
                events += [
                    event("train.py(9): hold_up", "python_function", at + 100, DELAY_US),
                    event("<built-in function sleep>", "python_function", at + 110, DELAY_US - 20),
                ]
            arrival, end = at + (100 + DELAY_US if rank else 100), at + 100 + DELAY_US + TRANSFER_US
            events.append(event("gloo:all_reduce", "user_annotation", arrival, end - arrival, 300))
        if not stacks:
            events = [each for each in events if each["cat"] != "python_function"]
        content = {
            "traceEvents": events,
            "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2, "pg_config": GROUPS},
            "deviceProperties": [],
            "schemaVersion": 1,
            "host_name": "node1",
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content))
        if not stacks:
            sampled(tmp_path / f"rank{rank}.json.stacks", steps, asleep=rank == 1)
    return load_ranks(tmp_path, cache=False)


def test_the_innermost_line_of_the_thread_that_trains(job):
    worst = job.blame[0]
    assert (worst.rank, worst.cause) == (1, "waiting for a thread or a timer")
    assert (worst.name, worst.line) == ("<built-in function sleep>", "train.py(9): hold_up")
    assert worst.share > 0.9


def test_what_lies_around_a_step_is_not_counted_twice(job):
    assert job.waits.total_ns == pytest.approx(STEPS * DELAY_US * 1000, rel=0.02)
    assert sum(row.wait_caused_ns for row in job.blame) == job.waits.total_ns
    assert sum(row.share for row in job.blame) == pytest.approx(1)


def sampled(path, steps, *, asleep):
    """Write the stacks that were sampled beside a profile, every 0.1 ms, by another clock."""
    begin, every = 5_000_000_000, 100_000
    times = [begin + every * number for number in range(10 * steps)]
    inside = [int(asleep and 1 < number % 10 <= (100 + DELAY_US) // 100) for number in range(10 * steps)]
    document = {
        "schema": 1, "times_ns": times, "samples": inside, "runnable_ns": [0] * len(times),
        "frames": ["/home/ann/train.py(30): <module>", "/home/ann/train.py(9): hold_up"],
        "stacks": [[0], [0, 1]], "interval_ns": every, "cwd": "/home/ann",
        "steps": [[step, begin + step * STEP_US * 1000, 0] for step in range(steps)],
    }  # fmt: skip
    path.write_bytes(gzip.compress(json.dumps(document).encode()))


def test_the_line_comes_from_samples_where_the_profile_has_no_stacks(tmp_path):
    worst = made(tmp_path, stacks=False).blame[0]
    assert worst.rank == 1
    assert worst.line == "train.py:9 hold_up"


def test_two_collectives_of_two_ranks_are_said_to_be_too_few(tmp_path):
    job = made(tmp_path, steps=2)
    assert job.stragglers == ()
    assert (
        "2 collectives are too few to tell a slow rank from chance, 6 are enough: capture more steps"
        in verdict(job)
    )
    assert answer_of("made", job).wait.needed == 6


def test_eight_collectives_are_enough(job):
    assert "rank 1 causes 100 % of it" in verdict(job)
    assert answer_of("made", job).wait.needed is None


@pytest.mark.parametrize(
    ("on_device", "cause"), [(False, "host operators"), (True, "waiting for its device")]
)
def test_a_value_is_waited_for_only_on_a_device(tmp_path, on_device, cause):
    made(tmp_path, stacks=False)
    for rank in range(2):
        path = tmp_path / f"rank{rank}.json"
        content = json.loads(path.read_text())
        if rank:
            content["traceEvents"] += [
                event("aten::item", "cpu_op", step * STEP_US + 110, DELAY_US - 20) for step in range(STEPS)
            ]
        if on_device:
            content["traceEvents"].append(event("k", "kernel", 5, 5, 7, device=0, stream=7))
        path.write_text(json.dumps(content))
    worst = load_ranks(tmp_path, cache=False).blame[0]
    assert (worst.rank, worst.cause, worst.name) == (1, cause, "aten::item")
