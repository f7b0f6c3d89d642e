"""Kernel and operator tables, memory, tasks and differences."""

import numpy as np
import pytest

from stepscope.analyze.diff import change, diff, side_of
from stepscope.analyze.kernel_details import kernel_details
from stepscope.analyze.memory import memory, memory_series
from stepscope.analyze.operators import operator_table
from stepscope.analyze.parameter_server import parameter_server
from stepscope.analyze.rank_test import rank_test
from stepscope.analyze.roofline import TENSOR_CORE
from stepscope.errors import EmptyTraceError


@pytest.fixture
def trace(make):
    e, K = make.event, make.Kind
    return make.build(
        [
            e("s", K.STEP, 0, 100, step=1),
            e("s", K.STEP, 100, 100, step=2),
            e("outer", K.HOST_OP, 10, 60),
            e("outer", K.HOST_OP, 20, 40),  # calls itself
            e("inner", K.HOST_OP, 30, 20, flops=7),
            e("launch", K.RUNTIME_CALL, 35, 5, correlation=1),
            e("launch", K.RUNTIME_CALL, 62, 5, correlation=2),
            e("inner", K.HOST_OP, 110, 10),
            e("gemm", K.KERNEL, 40, 30, device=0, stream=1, correlation=1),
            e("add", K.KERNEL, 70, 10, device=0, stream=1, correlation=2),
            e("gemm", K.KERNEL, 150, 20, device=0, stream=1),
        ],
        tables={"kernels": {"row": [8, 10], "occupancy": [0.5, 1.0], "blocks_per_sm": [np.nan, np.nan]}},
    )


def test_kernels(trace):
    gemm, add = kernel_details(trace).rows
    assert (gemm.name, gemm.calls, gemm.total_ns) == ("gemm", 2, 50)
    assert (gemm.call_min_ns, gemm.call_max_ns) == (20, 30)
    assert gemm.share_ratio == pytest.approx(50 / 60)
    # The second call has no launch, so that it belongs to the step in which it ran.
    assert (gemm.by_step_ns, gemm.step_median_ns) == ((30, 20), 25)
    assert add.by_step_ns == (10, 0)
    assert (gemm.operators, add.operators) == (("inner",), ("outer",))
    assert gemm.rate.bytes is None
    assert gemm.launch.occupancy_ratio == pytest.approx((0.5 * 30 + 1.0 * 20) / 50)
    assert gemm.launch.blocks_per_multiprocessor is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn", True),
        ("volta_sgemm_128x32_nt", False),
        ("turing_h1688cudnn_256x128", True),
        ("void at::native::vectorized_elementwise_kernel<4, float>", False),
    ],
)
def test_tensor_cores_by_name(name, expected):
    assert bool(TENSOR_CORE.search(name)) is expected


def test_operators(trace):
    inner, outer = operator_table(trace)
    assert (outer.calls, outer.host_total_ns, outer.host_self_ns) == (2, 60, 40)
    assert (outer.device_total_ns, outer.device_self_ns) == (40, 10)
    assert (inner.calls, inner.host_total_ns, inner.host_self_ns) == (2, 30, 30)
    assert (inner.device_total_ns, inner.device_self_ns) == (30, 30)
    assert (inner.flops, outer.flops) == (7, None)
    assert inner.host_per_step.median_ns == 15
    assert inner.device_per_step.max_ns == 30


def test_operators_without_launches(make):
    marked = [
        make.event("stepscope value 3", make.Kind.HOST_OP, 0, 9),
        make.event("op", make.Kind.HOST_OP, 0, 5),
    ]
    (op,) = operator_table(make.build(marked))
    assert op.device_total_ns is None
    assert op.device_per_step is None
    with pytest.raises(EmptyTraceError, match="no operator"):
        operator_table(make.build([make.event("k", make.Kind.KERNEL, 0, 5, device=0)]))


# --- memory -----------------------------------------------------------------------------------------------


def remembered(make, *, totals):
    """100 bytes from before; +50 (kept), +30 (freed), -100 of before, +40 at the peak's address again."""
    e, K = make.event, make.Kind
    changes = [(10, 50, 0xA), (20, 30, 0xB), (30, -30, 0xB), (40, 200, 0xB)]
    changes += [(50, -100, 0xF), (60, -200, 0xB)]
    total, rows = 100, []
    for time, size, address in changes:
        total += size
        rows.append({
            "time_ns": time, "device": 0, "action": 0 if size > 0 else 1, "address": address, "bytes": size,
            "allocated_bytes": total if totals else -1, "reserved_bytes": 512 if totals else -1,
            "row": time // 35,
        })  # fmt: skip
    events = [e("fwd", K.HOST_OP, 0, 35, scope="net/a"), e("MmBackward0", K.HOST_OP, 35, 40, scope="net/b")]
    return make.build(events, memory=rows, recorded={"timeline", "memory"})


def test_memory_with_recorded_totals(make):
    trace = remembered(make, totals=True)
    (device,) = memory(trace)
    assert (device.baseline_bytes, device.peak_reserved_bytes) == (100, 512)
    peak = device.peak
    assert (peak.time_ns, peak.bytes, peak.held_bytes, peak.before_bytes) == (40, 350, 250, 100)
    assert [(h.name, h.bytes) for h in peak.by_scope] == [("net/b", 200), ("net/a", 50)]
    assert [(h.name, h.bytes) for h in peak.by_operator] == [("MmBackward0", 200), ("fwd", 50)]
    assert [(h.name, h.bytes) for h in peak.by_phase] == [("backward", 200), ("forward", 50)]
    assert peak.by_stack is None
    assert memory_series(trace, np.arange(6)).reserved_bytes.tolist() == [512] * 6
    assert memory_series(trace, np.arange(0)).reserved_bytes is None


def test_memory_as_a_sum_of_changes(make):
    trace = remembered(make, totals=False)
    (device,) = memory(trace)
    assert device.baseline_bytes is None
    assert device.peak.bytes == 250
    assert device.peak.before_bytes is None
    assert device.capacity_ratio is None
    series = memory_series(trace, np.arange(6))
    assert series.allocated_bytes.tolist() == [50, 80, 50, 250, 150, -50]
    assert not series.recorded
    assert series.reserved_bytes is None


def test_memory_not_recorded(make):
    with pytest.raises(EmptyTraceError, match="cannot tell what used memory"):
        memory(make.build([make.event("op", make.Kind.HOST_OP, 0, 5)]))


# --- parameter servers ------------------------------------------------------------------------------------


def test_receives_of_a_worker(make):
    from dataclasses import replace

    e, K = make.event, make.Kind
    trace = make.build([
        e("s", K.STEP, 0, 100, step=3),
        e("RecvTensor", K.SEND_RECV, 0, 40, lane="w"), e("RecvTensor", K.SEND_RECV, 30, 20, lane="w2"),
        e("MatMul", K.HOST_OP, 35, 30, lane="w3"), e("Gather", K.HOST_OP, 0, 9, lane="p"),
    ])  # fmt: skip
    names = {"w": "/job:worker/replica:0/task:1/device:CPU:0", "p": "/job:ps/replica:0/task:0/device:CPU:0"}
    lanes = tuple(
        replace(lane, process=names.get(lane.thread[0], "python")) if lane.thread != "main" else lane
        for lane in trace.lanes
    )
    (task,) = parameter_server(replace(trace, lanes=lanes))
    (step,) = task.steps
    assert (task.task, task.server, step.receives) == ("worker:1", False, 2)
    assert (step.receive_ns, step.compute_ns, step.exposed_ns) == (50, 30, 35)
    assert (task.receive_ratio, task.exposed_ratio) == (0.5, 0.35)
    assert step.received_bytes is None
    with pytest.raises(EmptyTraceError, match="RecvTensor"):
        parameter_server(trace)


# --- differences ------------------------------------------------------------------------------------------


def steps_of(make, durations, name="k"):
    e, K = make.event, make.Kind
    events = []
    for n, duration in enumerate(durations):
        start = n * 10_000
        events += [
            e("s", K.STEP, start, 10_000, step=n),
            e("op", K.HOST_OP, start, 1_000, scope="net"),
            e("launch", K.RUNTIME_CALL, start + 1, 2, correlation=n),
            e(name, K.KERNEL, start + 10, duration, device=0, correlation=n),
        ]
    return make.build(events)


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([1000, 1100, 1050, 980], [1010, 1090, 1060, 1000], "unclear"),
        ([1000, 1001, 1002, 999], [1003, 1000, 1001, 1002], "same"),
        ([1000, 1010, 1005, 995], [2000, 2010, 2005, 1995], "slower"),
        ([2000, 2010, 2005, 1995], [1000, 1010, 1005, 995], "faster"),
        ([1000, 1000, 1000], [1009, 1009, 1009], "same"),  # below one per cent
        ([1000, 5000, 100, 9000], [3000, 200, 8000, 4000], "unclear"),  # noise
        (
            [1000, 1900, 1500, 1200],
            [2000, 2600, 2100, 3000],
            "slower",
        ),  # every one of B's
        ([1000, 1010, 1005], [2000, 2010, 2005], "unclear"),  # three against three are never certain
        ([1000, 1010], [2000, 2010, 2005], "unclear"),
        ([1000], [2000, 2010, 2005, 2001], "unclear"),
        # One step that lasts makes the mean go the other way than all others, or makes it differ alone.
        ([*range(1000, 1011), 9000], range(1100, 1112), "unclear"),
        ([*range(1000, 1012)], [*range(1000, 1011), 9000], "unclear"),
        ([*range(1000, 1012)], [*range(1000, 1012)], "same"),
    ],
)
def test_changes_are_judged_by_the_spread(make, a, b, verdict):
    (kernel,) = diff(steps_of(make, a), steps_of(make, b)).kernels
    assert kernel.verdict == verdict
    assert kernel.difference_ns == np.mean(b) - np.mean(a)


ALONE = (
    "these are the profiled steps alone, one recording of each side: they tell which steps took longer, not "
    "whether other runs would differ likewise"
)


def test_what_is_on_one_side_only(make):
    found = diff(steps_of(make, [1000] * 3), steps_of(make, [1000] * 3, name="other"))
    assert {c.name: c.verdict for c in found.kernels} == {"k": "removed", "other": "added"}
    assert found.step.verdict == "same"
    assert {c.name for c in found.operators} == {"op", "(nothing recorded)"}
    assert found.notes == (
        "3 steps against 3 can never be told apart with certainty (the smallest possible p is 0.1): record "
        "four or more of each",
        ALONE,
    )
    few = diff(steps_of(make, [1000]), steps_of(make, [1000] * 3))
    assert few.notes == ("A recorded 1 step: a single step does not show how steps vary",)
    assert few.step.verdict == "unclear"
    assert diff(steps_of(make, [1000] * 4), steps_of(make, [1000] * 4)).notes == (ALONE,)


def test_calls_in_a_scope_are_those_of_operators(make):
    e, K = make.event, make.Kind
    steps = [
        one
        for n in range(4)
        for one in (
            e("s", K.STEP, 1000 * n, 900, step=n),
            e("op", K.HOST_OP, 1000 * n, 300, scope="net"),
            e("op", K.HOST_OP, 1000 * n + 400, 300, scope="net"),
            e("frame", K.PYTHON_FRAME, 1000 * n + 750, 50, scope="net"),
        )
    ]
    trace = make.build(steps)
    scopes = {one.name: one.a for one in diff(trace, trace).scopes}
    assert scopes["net"].calls_per_step == 2


def test_operators_and_parts_add_up_to_the_step(make):
    found = diff(steps_of(make, [1000, 3000, 2000, 2500]), steps_of(make, [5000] * 5))
    for table in (found.operators, found.parts):
        assert sum(one.difference_ns for one in table) == pytest.approx(found.step.difference_ns)
    assert [len(side) for side in found.steps_ns] == [4, 5]
    assert sum(found.steps_ns[1]) / 5 == found.step.b.mean_ns
    for side in ("a", "b"):
        whole = getattr(found.step, side).mean_ns
        every = [getattr(one, side) for one in found.operators]
        assert sum(one.mean_ns for one in every if one) == pytest.approx(whole)


@pytest.mark.parametrize("steps", [3, 5, 10, 30])
def test_equal_noise_is_hardly_ever_a_change(steps):
    random = np.random.default_rng(7)
    verdicts = []
    for _ in range(400):
        a, b = random.normal(100_000, 5_000, steps), random.normal(100_000, 5_000, steps)
        verdicts.append(change("x", side_of(a), side_of(b), rank_test(a, b)).verdict)
    assert verdicts.count("slower") + verdicts.count("faster") <= 0.07 * len(verdicts)


def test_the_same_is_said_of_what_is_the_same_and_never_of_a_fifth_more():
    random = np.random.default_rng(8)
    for factor, forbidden in ((1.0, "slower"), (1.2, "same")):
        for _ in range(100):
            a, b = random.normal(100_000, 500, 10), random.normal(100_000 * factor, 500, 10)
            assert change("x", side_of(a), side_of(b), rank_test(a, b), limit=0.001).verdict != forbidden


def test_of_many_things_few_are_found_by_chance():
    from stepscope.analyze.diff import false_discoveries

    random = np.random.default_rng(9)
    assert false_discoveries(random.uniform(0.001, 1, 500).tolist()) < 0.001
    assert false_discoveries([0.002] * 10 + [0.9] * 5) == 0.002
    assert false_discoveries([]) == -1
