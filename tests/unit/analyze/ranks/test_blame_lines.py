"""The line that others wait for: innermost, of the thread that trains, and the parts sum to all waiting."""

from __future__ import annotations

import json

import pytest

from stepscope.job import load_ranks

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
    """Two ranks that all-reduce over gloo in each step; rank 1 sleeps before it comes to that."""
    for rank in range(2):
        whole = STEPS * STEP_US
        events = [
            event("train.py(30): <module>", "python_function", 0, whole),
            event("aten::linear", "cpu_op", 20, 10),
            event("threading.py(900): run", "python_function", 0, whole, 200),
            event("threading.py(331): wait", "python_function", 1, whole - 2, 200),
            event("<method 'acquire' of '_thread.lock' objects>", "python_function", 2, whole - 4, 200),
        ]
        for step in range(STEPS):
            at = step * STEP_US
            events.append(event(f"ProfilerStep#{step}", "user_annotation", at, STEP_US - 10))
            if rank == 1:
                events += [
                    event("train.py(9): hold_up", "python_function", at + 100, DELAY_US),
                    event("<built-in function sleep>", "python_function", at + 110, DELAY_US - 20),
                ]
            arrival, end = at + (100 + DELAY_US if rank else 100), at + 100 + DELAY_US + TRANSFER_US
            events.append(event("gloo:all_reduce", "user_annotation", arrival, end - arrival, 300))
        content = {
            "traceEvents": events,
            "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 2, "pg_config": GROUPS},
            "deviceProperties": [],
            "schemaVersion": 1,
        }
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content))
    return load_ranks(tmp_path, cache=False)


def test_the_innermost_line_of_the_thread_that_trains(job):
    worst = job.blame[0]
    assert (worst.rank, worst.cause) == (1, "Python")
    assert (worst.name, worst.line) == ("<built-in function sleep>", "train.py(9): hold_up")
    assert worst.share > 0.9


def test_what_lies_around_a_step_is_not_counted_twice(job):
    assert job.waits.total_ns == pytest.approx(STEPS * DELAY_US * 1000, rel=0.02)
    assert sum(row.wait_caused_ns for row in job.blame) == job.waits.total_ns
    assert sum(row.share for row in job.blame) == pytest.approx(1)
