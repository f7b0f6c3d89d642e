"""The analyses on recorded traces, against what their READMEs say and what the files themselves record."""

import json
import zlib
from functools import cache

import pytest
from support.recordings import recorded, whole

from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.diff import diff
from stepscope.analyze.kernel_details import kernel_details
from stepscope.analyze.memory import memory
from stepscope.analyze.operators import operator_table
from stepscope.analyze.parameter_server import parameter_server
from stepscope.trace.load import load_trace


@cache
def trace(name, find=recorded):
    return load_trace(find(name), cache=False)


def kineto(name, find=recorded):
    return trace(f"traces/kineto/{name}.json.gz", find)


@cache
def document(name, find=recorded):
    return json.loads(zlib.decompress(find(name).read_bytes(), wbits=47))["traceEvents"]


def test_resnet_without_workers_waits_for_its_input():
    assert 0.3 <= breakdown(kineto("resnet50_v100_workers0")).ratio("data_loading") <= 0.4


def test_resnet_with_workers_does_not():
    assert breakdown(kineto("resnet50_v100_workers4")).ratio("data_loading") <= 0.017


@pytest.mark.parametrize(
    ("name", "steps"),
    [("resnet50_v100_workers0", 2), ("v100_rank1of2", 1), ("a100_ddp_rank0of2", 1), ("b200_rank0of8", 1)],
)
def test_parts_add_up_to_the_step(name, steps):
    found = breakdown(kineto(name))
    assert len(found.steps) == steps
    for step in found.steps:
        assert sum(value or 0 for value in step.parts_ns.values()) == step.wall_ns
        assert step.parts_ns["other"] == (0 if name != "b200_rank0of8" else step.parts_ns["other"])


def test_a_backward_pass_costs_twice_the_forward():
    for name in ("a100_ddp_rank0of2", "v100_rank1of2"):
        found = breakdown(kineto(name))
        assert 1.8 < found.total_ns("backward") / found.total_ns("forward") < 2.2


def test_inference_is_a_forward_pass_alone():
    found = breakdown(kineto("b200_rank0of8"))  # its stacks show the calls of modules
    assert {"backward", "optimizer", "data_loading"} <= set(found.missing)
    assert found.ratio("forward") > found.ratio("other")
    assert found.ratio("communication") > 0


def test_phases_of_tensorflow_are_name_scopes():
    (step,) = breakdown(trace("tf_estimator/single/timeline-800.json.gz")).steps
    assert all(step.parts_ns[part] > 0 for part in ("data_loading", "forward", "backward", "optimizer"))
    assert step.parts_ns["copy"] is None


def test_kernels_are_all_counted():
    table = kernel_details(kineto("v100_rank1of2")).rows
    counted = {}
    for event in document("traces/kineto/v100_rank1of2.json.gz"):
        if event.get("cat", "").lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"):
            calls, time = counted.get(event["name"], (0, 0))
            counted[event["name"]] = calls + 1, time + event["dur"]
    assert {row.name: (row.calls, row.total_ns // 1000) for row in table} == counted
    nccl = next(row for row in table if row.kind == "collective")
    assert nccl.calls == sum(calls for name, (calls, _) in counted.items() if name.startswith("nccl")) > 100
    assert sum(row.share_ratio for row in table) == pytest.approx(1)


def test_operators_are_all_counted():
    table = operator_table(kineto("v100_rank1of2"))
    counted = {}
    for event in document("traces/kineto/v100_rank1of2.json.gz"):
        if event.get("cat", "").lower() in ("cpu_op", "operator"):
            counted[event["name"]] = counted.get(event["name"], 0) + 1
    found = {row.name: row.calls for row in table}
    assert found == {name: counted[name] for name in found}
    device = sum(row.total_ns for row in kernel_details(kineto("v100_rank1of2")).rows)
    assert 0.99 < sum(row.device_self_ns for row in table) / device <= 1


@pytest.mark.slow
def test_memory_is_what_the_recorder_counted():
    events = [
        e["args"] for e in document("traces/kineto/v100_rank1of2.json.gz", whole) if e["name"] == "[memory]"
    ]
    gpu = [e for e in events if e["Device Type"] == 1]
    device = memory(kineto("v100_rank1of2", whole))[0]
    assert len(events) == 28010
    assert device.peak.bytes == max(e["Total Allocated"] for e in gpu)
    assert device.peak_reserved_bytes == max(e["Total Reserved"] for e in gpu)
    # What was allocated before the recording is known only as a difference: it must be what was there first.
    assert device.peak.before_bytes == device.baseline_bytes == 4096614400
    assert device.peak.held_bytes == sum(holder.bytes for holder in device.peak.by_operator)


def test_workers_wait_for_parameter_servers():
    found = {}
    for folder in sorted(recorded("tf_estimator/distributed").glob("worker_*")):
        tasks = parameter_server(trace(f"tf_estimator/distributed/{folder.name}"))
        worker = next(task for task in tasks if not task.server)
        assert worker.task == folder.name.replace("_", ":")
        assert len(worker.steps) == 3
        assert {task.task for task in tasks if task.server} == {"ps:0", "ps:1"}
        found[worker.task] = worker.receive_ratio
        for task in tasks:
            for step in task.steps:
                assert 0 < step.exposed_ns <= step.receive_ns <= step.wall_ns
    assert all(0.2 < ratio < 0.6 for ratio in found.values())


def test_receives_are_all_counted():
    name = "tf_estimator/distributed/worker_0/timeline-5484.json.gz"
    events = document(name)
    pids = {e["pid"]: e["args"]["name"] for e in events if e.get("name") == "process_name"}
    mine = [e for e in events if e.get("ph") == "X" and e["name"] == "RecvTensor"]
    mine = [e for e in mine if "job:worker" in pids[e["pid"]] and "Compute" in pids[e["pid"]]]
    (task,) = [t for t in parameter_server(trace(name)) if not t.server]
    assert task.steps[0].receives == len(mine) == 22


def test_more_workers_are_a_change_and_nothing_else_is():
    before, after = kineto("resnet50_v100_workers0", whole), kineto("resnet50_v100_workers4", whole)
    found = diff(before, after)
    assert found.step.verdict == "faster"
    parts = {change.name: change for change in found.parts}
    assert parts["data_loading"].verdict == "faster"
    assert abs(parts["forward"].ratio - 1) < 0.03
    assert abs(parts["backward"].ratio - 1) < 0.03
    itself = diff(before, before)
    for part in (itself.parts, itself.kernels, itself.operators):
        assert {change.verdict for change in part} <= {"same", "unclear"}
        assert all(change.p_value == 1 for change in part)
