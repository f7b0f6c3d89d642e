"""Each rule: where it fires, where it does not, and when it cannot tell."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stepscope.analyze.advise import RULES, Advice, Facts, Finding, advise
from stepscope.analyze.advise.dtypes import is_full_precision
from stepscope.trace.model import Device, Kind
from stepscope.trace.tables import MemoryAction
from stepscope.trace.tfprof import Node, Profile

STEP = 1_000_000


@pytest.fixture
def steps(make: SimpleNamespace):
    """Build a trace of steps of 1 ms, each with the events that a function gives for it."""

    def built(content, *, count: int = 3, lengths=None, **facts):
        events = []
        for step in range(count):
            at = step * 2 * STEP
            length = lengths[step] if lengths else STEP
            events.append(make.event(f"ProfilerStep#{step}", Kind.STEP, at, length, step=step))
            events += content(step, at)
        return make.build(events, **facts)

    return built


def found(trace, rule: str) -> list[Finding]:
    return [one for one in advise(Facts(trace)).findings if one.rule == rule]


def missing(trace, rule: str) -> str:
    return next((one.missing for one in advise(Facts(trace)).abstained if one.rule == rule), "")


def kernel(
    make, at: int, duration: int, *, number: int, call_at: int | None = None, call: int = 10, name: str = "k"
):
    """Device work and the call that launches it."""
    launched = at - 50 if call_at is None else call_at
    return [
        make.event("cudaLaunchKernel", Kind.RUNTIME_CALL, launched, call, correlation=number),
        make.event(name, Kind.KERNEL, at, duration, lane="gpu", device=0, stream=7, correlation=number),
    ]


def test_every_rule_of_the_issue_is_there() -> None:
    assert list(RULES) == [
        "accelerator-utilization", "operation", "expensive-operation", "input-bound", "communication-bound",
        "host-bound", "launch-bound", "small-kernels", "sync-points", "dtype-hints", "memory-near-limit",
        "pageable-copies", "step-variation", "python-overhead",
    ]  # fmt: skip


@pytest.mark.parametrize(("busy", "severity"), [(0.9, None), (0.3, "medium"), (0.1, "high")])
def test_accelerator_utilization(make, steps, busy: float, severity: str | None) -> None:
    trace = steps(lambda step, at: kernel(make, at + 100, int(busy * STEP), number=step))
    findings = found(trace, "accelerator-utilization")
    assert [one.severity for one in findings] == ([severity] if severity else [])
    if findings:
        assert findings[0].evidence["utilization_ratio"] == pytest.approx(busy)
        assert findings[0].threshold == {"utilization_ratio": 0.5}


@pytest.mark.parametrize(("share", "severity"), [(0.01, None), (0.1, "medium"), (0.4, "high")])
def test_input_bound(make, steps, share: float, severity: str | None) -> None:
    def content(step, at):
        loading = make.event("enumerate(DataLoader)#x", Kind.DATA_LOADING, at, int(share * STEP))
        start = at + int(share * STEP)
        return [loading, *kernel(make, start, at + STEP - start, number=step, call_at=start - 20, call=5)]

    findings = found(steps(content), "input-bound")
    assert [one.severity for one in findings] == ([severity] if severity else [])
    if findings:
        assert findings[0].evidence["input_ratio"] == pytest.approx(share, abs=0.01)


def test_input_bound_abstains_without_loading(make, steps) -> None:
    assert "loading" in missing(
        steps(lambda step, at: kernel(make, at + 100, 1000, number=step)), "input-bound"
    )


@pytest.mark.parametrize(("exposed", "severity"), [(0.01, None), (0.1, "low"), (0.3, "high")])
def test_communication_bound(make, steps, exposed: float, severity: str | None) -> None:
    def content(step, at):
        split = int((1 - exposed) * STEP)
        gathered = make.event(
            "ncclKernel_AllReduce", Kind.COLLECTIVE, at + 100 + split, int(exposed * STEP) - 100, lane="gpu",
            device=0, stream=7,
        )  # fmt: skip
        return [*kernel(make, at + 100, split, number=step), gathered]

    assert [one.severity for one in found(steps(content), "communication-bound")] == (
        [severity] if severity else []
    )


def test_host_bound_counts_only_what_was_launched_too_late(make, steps) -> None:
    def late(step, at):
        first = kernel(make, at + 100_000, 100_000, number=2 * step)
        return [*first, *kernel(make, at + 600_000, 300_000, number=2 * step + 1, call_at=at + 590_000)]

    def early(step, at):
        first = kernel(make, at + 100_000, 100_000, number=2 * step, call_at=at + 10)
        return [*first, *kernel(make, at + 600_000, 300_000, number=2 * step + 1, call_at=at + 30)]

    (finding,) = found(steps(late), "host-bound")
    assert finding.evidence["host_wait_ratio"] >= 0.4
    assert finding.severity == "high"
    inside = [one.evidence["host_wait_ratio"] for one in found(steps(early), "host-bound")]
    assert not inside or inside[0] < finding.evidence["host_wait_ratio"]


def test_launch_bound(make, steps) -> None:
    def content(step, at):
        return [e for i in range(10) for e in kernel(
            make, at + i * 90_000 + 50_000, 5_000, number=step * 10 + i, call_at=at + i * 90_000, call=40_000
        )]  # fmt: skip

    (finding,) = found(steps(content), "launch-bound")
    assert finding.evidence["launch_ratio"] == pytest.approx(0.4)
    assert finding.evidence["short_kernel_ratio"] == 1
    assert finding.severity == "high"


def test_small_kernels(make, steps) -> None:
    def content(step, at):
        return [e for i in range(120) for e in kernel(
            make, at + i * 8_000 + 100, 3_000, number=step * 120 + i, call=5, name="tiny"
        )]  # fmt: skip

    (finding,) = found(steps(content), "small-kernels")
    assert finding.evidence["kernels_per_step"] == 120
    assert finding.evidence["most"] == [{"name": "tiny", "calls": 360}]
    assert not found(steps(lambda step, at: kernel(make, at + 100, 3_000, number=step)), "small-kernels")


def test_sync_points_name_the_operator(make, steps) -> None:
    def content(step, at):
        return [
            make.event("aten::item", Kind.HOST_OP, at + 1000, 200_000),
            make.event("cudaStreamSynchronize", Kind.RUNTIME_CALL, at + 2000, 150_000),
        ]

    (finding,) = found(steps(content), "sync-points")
    assert finding.evidence["sync_ratio"] == pytest.approx(0.15)
    assert finding.evidence["calls"] == [
        {"name": "cudaStreamSynchronize", "operator": "aten::item", "calls": 3, "total_ns": 450_000}
    ]
    assert missing(steps(lambda step, at: []), "sync-points")


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("volta_sgemm_128x64_nn", True),
        ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>", True),
        ("ampere_sgemm_32x128_tn", True),
        ("cutlass_80_simt_sgemm_128x64_8x5_nn_align1", True),
        ("ampere_bf16_s16816gemm_bf16_128x128", False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n", False),
        ("cutlass_80_tensorop_s1688gemm_128x256", False),
        ("volta_fp16_s884gemm_fp16_128x64", False),
        ("turing_h1688gemm_256x64", False),
    ],
)
def test_kernel_names_tell_their_precision(name: str, full: bool) -> None:
    assert is_full_precision(name) is full


@pytest.mark.parametrize(("capability", "hint"), [("7.0", "no TF32"), ("8.0", "allow TF32"), ("6.1", None)])
def test_dtype_hints_fit_the_device(make, steps, capability: str, hint: str | None) -> None:
    trace = steps(
        lambda step, at: kernel(make, at + 100, 500_000, number=step, name="volta_sgemm_128x64_nn"),
        devices=(Device(rank=0, index=0, name="a", capability=capability),),
    )
    findings = found(trace, "dtype-hints")
    assert [hint in one.action for one in findings] == ([True] if hint else [])


@pytest.mark.parametrize(("held", "severity"), [(80, None), (92, "medium"), (99, "high")])
def test_memory_near_limit(make, steps, held: int, severity: str | None) -> None:
    trace = steps(
        lambda step, at: kernel(make, at + 100, 1000, number=step),
        devices=(Device(rank=0, index=0, name="a", memory_bytes=100),),
        recorded={"timeline", "steps", "device", "launches", "memory"},
        memory=[
            {
                "time_ns": 5,
                "address": 1,
                "device": 0,
                "action": MemoryAction.ALLOCATE,
                "bytes": held,
                "allocated_bytes": held,
            }
        ],
    )
    assert [one.severity for one in found(trace, "memory-near-limit")] == ([severity] if severity else [])


def test_memory_near_limit_says_what_it_lacks(make, steps) -> None:
    trace = steps(lambda step, at: kernel(make, at + 100, 1000, number=step))
    assert "allocations" in missing(trace, "memory-near-limit")


def test_pageable_copies(make, steps) -> None:
    def content(step, at):
        return [
            make.event(name, Kind.MEMCPY, at + after, spent, lane="gpu", device=0, stream=7, bytes=1000)
            for name, after, spent in (
                ("Memcpy HtoD (Pageable -> Device)", 100, 60_000),
                ("Memcpy HtoD (Pinned -> Device)", 70_000, 100_000),
            )
        ]

    (finding,) = found(steps(content), "pageable-copies")
    assert finding.evidence["pageable_ratio"] == pytest.approx(0.06)
    assert finding.severity == "medium"
    assert finding.evidence["moved_bytes"] == 3000


@pytest.mark.parametrize(("longest", "severity"), [(1.1, None), (1.5, "medium"), (2.0, "high")])
def test_step_variation(steps, longest: float, severity: str | None) -> None:
    trace = steps(lambda step, at: [], count=4, lengths=[STEP, STEP, STEP, int(longest * STEP)])
    assert [one.severity for one in found(trace, "step-variation")] == ([severity] if severity else [])


def test_two_steps_are_too_few_to_vary(steps) -> None:
    trace = steps(lambda step, at: [], count=2, lengths=[STEP, 2 * STEP])
    assert not found(trace, "step-variation")
    assert missing(trace, "step-variation") == "fewer than 3 marked steps"


def test_python_overhead(make, steps) -> None:
    trace = steps(
        lambda step, at: [
            make.event("train.py(3): main", Kind.PYTHON_FRAME, at + 1000, 600_000),
            make.event("mm", Kind.HOST_OP, at + 2000, 100_000),
        ],
        recorded={"timeline", "steps", "stacks"},
    )
    (finding,) = found(trace, "python-overhead")
    assert finding.evidence["python_ratio"] == pytest.approx(0.5)
    assert finding.evidence["frames"] == [{"name": "train.py(3): main", "self_ns": 1_500_000}]


def test_waiting_for_data_and_what_lies_outside_of_steps_is_no_overhead_of_python(make, steps) -> None:
    trace = steps(
        lambda step, at: [
            make.event("loop.py(1): run", Kind.PYTHON_FRAME, at + 10, 900_000),
            make.event("data_loading", Kind.DATA_LOADING, at + 100_000, 500_000),
            make.event("wait.py(2): get", Kind.PYTHON_FRAME, at + 100_010, 400_000),
            make.event("train.py(3): main", Kind.PYTHON_FRAME, at + 10 + STEP * 100, 900_000),
        ],
        recorded={"timeline", "steps", "stacks"},
    )
    (finding,) = found(trace, "python-overhead")
    assert finding.evidence["python_ratio"] == pytest.approx(0.4, abs=1e-3)
    assert [one["name"] for one in finding.evidence["frames"]] == ["loop.py(1): run"]


def test_layout_conversions(make, steps) -> None:
    trace = steps(
        lambda step, at: [
            *kernel(make, at + 100, 80_000, number=2 * step),
            *kernel(make, at + 90_000, 20_000, number=2 * step + 1, name="void nchwToNhwcKernel<float>"),
        ]
    )
    (finding,) = found(trace, "operation")
    assert finding.evidence["conversion_ratio"] == pytest.approx(0.2)


def test_the_most_expensive_operators_are_named(make, steps) -> None:
    trace = steps(
        lambda step, at: [
            make.event("mm", Kind.HOST_OP, at + 10, 300),
            make.event("add", Kind.HOST_OP, at + 500, 100),
        ]
    )
    (finding,) = found(trace, "expensive-operation")
    assert [one["name"] for one in finding.evidence["operators"]] == ["mm", "add"]
    assert finding.evidence["operators"][0]["host_ratio"] == 0.75


def test_a_tfprof_profile_gets_tfprofs_rules_and_the_others_abstain() -> None:
    node = Node("BatchNorm/add", op="Add", types={"Add"})
    advice = advise(Facts(None, Profile(nodes={node.name: node})))
    assert [one.rule for one in advice.findings] == ["operation"]
    assert {one.rule for one in advice.abstained} >= {
        "input-bound",
        "python-overhead",
        "accelerator-utilization",
    }
    assert (
        next(one for one in advice.abstained if one.rule == "input-bound").missing == "no timeline of events"
    )


def test_the_json_has_exactly_the_agreed_keys(make, steps) -> None:
    advice = advise(Facts(steps(lambda step, at: kernel(make, at + 100, 1000, number=step)))).as_dict()
    assert set(advice) == {"findings", "abstained"}
    for finding in advice["findings"]:
        assert list(finding) == ["rule", "severity", "summary", "evidence", "threshold", "action"]
    for abstention in advice["abstained"]:
        assert list(abstention) == ["rule", "missing"]


def test_nothing_found_is_said() -> None:
    assert Advice([], []).text == "nothing found\n"


def test_many_ranks_with_one_problem_are_one_finding(make) -> None:
    events = []
    for rank, busy in ((0, 0.4), (1, 0.1), (2, 0.9)):
        events.append(make.event("ProfilerStep#0", Kind.STEP, 0, STEP, rank=rank, step=0))
        events.append(
            make.event("k", Kind.KERNEL, 0, int(busy * STEP), lane="gpu", rank=rank, device=0, stream=7)
        )
    (finding,) = found(make.build(events), "accelerator-utilization")
    assert finding.summary.startswith("rank 1 device 0, the worst of 2: ")
    assert (finding.severity, finding.evidence["affected"], finding.evidence["of"]) == ("high", 2, 3)
    assert finding.evidence["next"] == [{"rank": 0, "device": 0, "utilization_ratio": 0.4}]
