"""Which parameter server holds the workers up, and when none can be named; a worker's step in three parts."""

import json

import pytest
from support.recordings import recorded

from stepscope.analyze.advise.communication import about_servers
from stepscope.analyze.parameter_server import (
    TaskStep,
    bottleneck,
    parameter_server,
    parts_of,
    traffic,
)
from stepscope.analyze.ranks.job import Job
from stepscope.serve.job_report import verdict
from stepscope.trace.load import load_trace


def held(server, shares):
    """Return steps of a server that holds a worker up for these shares of them."""
    return [
        TaskStep(0, step, server, 1000, 10, 10, 0, 1, None, holds_ns=round(1000 * share))
        for step, share in enumerate(shares)
    ]


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ([0.2] * 12, [0.4] * 12, "ps:1"),
        ([0.2] * 12, [0.22] * 12, None),  # in all steps, and hardly longer
        ([0.1, 0.5] * 6, [0.5, 0.2] * 6, None),  # longer, in half of the steps
        ([0.2] * 3, [0.4] * 3, None),  # too few
    ],
)
def test_the_server_that_holds_workers_up_is_named_where_it_stands_out(first, second, named):
    worker = [TaskStep(0, 0, "worker:0", 1000, 300, 200, 500, 4, None, transfer_ns=300, waiting_ns=200)]
    tasks = traffic([*worker, *held("ps:0", first), *held("ps:1", second)])
    assert bottleneck(tasks) == named
    said = verdict(Job("profiles", (0,), tasks=tasks))
    assert said.startswith("worker:0 computes for 50 % of its steps, 20 % is waiting and 30 % transfer; ")
    assert ("ps:1 makes the workers wait for 40 %" in said) == (named == "ps:1")
    assert ("no parameter server stands out" in said) == (named is None)


LANES = {1: "/job:worker/replica:0/task:0/device:CPU:0", 2: "/job:ps/replica:0/task:0/device:CPU:0"}


def tasks_of(tmp_path, *operations):
    """The tasks of one step, from operations as (process, name, start and length in µs)."""
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{name} Compute"}}
        for pid, name in LANES.items()
    ]
    for pid, name, start, length in operations:
        args = {"name": f"{name}_{start}", "op": name}
        each = {"ph": "X", "cat": "Op", "name": name, "pid": pid, "tid": 0, "ts": start, "dur": length}
        events.append(each | {"args": args})
    (tmp_path / "timeline-7.json").write_text(json.dumps({"traceEvents": events}))
    return parameter_server(load_trace(tmp_path / "timeline-7.json", cache=False))


def test_a_step_is_own_compute_waiting_and_transfer(tmp_path):
    """The worker computes 0 to 40 µs, the server 40 to 60; a tensor comes 50 to 90; then 10 µs of nothing."""
    (worker,) = tasks_of(
        tmp_path,
        (1, "MatMul", 0, 40),
        (2, "ApplyGradientDescent", 40, 20),
        (1, "RecvTensor", 50, 40),
        (1, "NoOp", 99, 1),
    )
    (step,) = worker.steps
    assert (step.wall_ns, step.compute_ns) == (100_000, 41_000)
    assert (step.transfer_ns, step.waiting_ns) == (30_000, 29_000)
    parts = parts_of(worker)
    assert (parts.compute, parts.waiting, parts.transfer) == pytest.approx((0.41, 0.29, 0.3))


def test_a_server_waits_for_nothing_of_its_own(tmp_path):
    """It receives a gradient 40 to 60 µs and applies it: all else is the workers' time."""
    found = tasks_of(
        tmp_path, (1, "MatMul", 0, 40), (2, "RecvTensor", 40, 20), (2, "ApplyGradientDescent", 60, 10)
    )
    (server,) = [task for task in found if task.server]
    (step,) = server.steps
    assert (step.receive_ns, step.compute_ns) == (20_000, 10_000)
    assert (step.transfer_ns, step.waiting_ns) == (0, 0)


def test_remedies_are_those_for_servers_and_only_where_there_are_some(tmp_path):
    """Of the timelines that TensorFlow's own hook left of a job with two parameter servers."""
    servers = about_servers(load_trace(recorded("tf_estimator/distributed/worker_0/timeline-6998.json.gz")))
    assert "spread the variables" in servers
    assert "stepscope ranks says how long the workers wait for each server" in servers
    assert about_servers(load_trace(recorded("tf_estimator/single/timeline-400.json.gz"))) == ""
