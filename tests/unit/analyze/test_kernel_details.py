"""Kernels with their launch, their rate and the roof."""

import json

import pytest

from stepscope.analyze.chosen import keep_steps
from stepscope.analyze.kernel_details import kernel_details
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import view
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Device

SHAPES = json.dumps([[4096, 4096], [4096, 4096]])
FLOPS = 2 * 4096**3


def trained(make, *, steps=3, device="NVIDIA A100-SXM4-40GB", helper=0):
    """Steps of 10 ms; in each a product whose kernel takes 500 us and more each step, and a copy."""
    e, kind = make.event, make.Kind
    events, operators, kernels = [], [], []
    for step in range(steps):
        at, call = step * 10_000_000, step * 10
        events += [
            e(f"s{step}", kind.STEP, at, 10_000_000, step=step),
            e("aten::mm", kind.HOST_OP, at + 1000, 1_000_000),
            e("launch", kind.RUNTIME_CALL, at + 2000, 5000, correlation=call + 1),
            e("ampere_sgemm_tensorop", kind.KERNEL, at + 107_000, 500_000 + 1000 * step, device=0, stream=7,
              correlation=call + 1),
            e("memcpy", kind.RUNTIME_CALL, at + 2_000_000, 5000, correlation=call + 3),
            e("Memcpy HtoD", kind.MEMCPY, at + 2_010_000, 1000, device=0, stream=7, correlation=call + 3,
              bytes=12_000),
        ]  # fmt: skip
        if helper:
            events += [
                e("launch", kind.RUNTIME_CALL, at + 8000, 1000, correlation=call + 2),
                e(
                    "splitKreduce",
                    kind.KERNEL,
                    at + 800_000,
                    helper,
                    device=0,
                    stream=7,
                    correlation=call + 2,
                ),
            ]
    devices = (Device(rank=0, index=0, name=device, memory_bytes=40 << 30),) if device else ()
    plain = make.build(events)
    for row in range(len(plain)):
        name = plain.name_of(row)
        if name == "aten::mm":
            operators.append(row)
        if name == "ampere_sgemm_tensorop":
            kernels.append(row)
    count = len(operators)
    tables = {
        "operators": {
            "row": operators, "shapes": [SHAPES] * count, "types": ['["float","float"]'] * count,
            "values": ["[]"] * count,
        },
        "kernels": {
            "row": kernels, "stream": [7] * count, "grid": [256] * (count - 1) + [512],
            "block": [128] * count, "registers": [64] * count, "shared_bytes": [2048] * count,
            "occupancy": [0.5] * count, "blocks_per_sm": [2.0] * count,
        },
    }  # fmt: skip
    return make.build(
        events, tables=tables, devices=devices, recorded={"timeline", "device", "launches", "shapes"}
    )


def by_name(found):
    return {row.name: row for row in found.rows}


def test_a_kernel_has_its_launch_rate_and_roof(make):
    found = kernel_details(trained(make))
    gemm = by_name(found)["ampere_sgemm_tensorop"]
    assert (gemm.calls, gemm.call_min_ns, gemm.call_max_ns, gemm.operators) == (
        3,
        500_000,
        502_000,
        ("aten::mm",),
    )
    assert (gemm.step_mean_ns, gemm.step_min_ns, gemm.step_median_ns, gemm.step_max_ns) == (
        501_000, 500_000, 501_000, 502_000,
    )  # fmt: skip
    assert gemm.by_step_ns == (500_000, 501_000, 502_000)
    assert (gemm.total_ns, gemm.call_mean_ns) == (1_503_000, 501_000)
    launch = gemm.launch
    assert (launch.grid_least, launch.grid_most, launch.block_least, launch.registers) == (256, 512, 128, 64)
    assert (launch.occupancy_ratio, launch.blocks_per_multiprocessor) == (0.5, 2.0)
    assert (launch.delay_median_ns, launch.delay_max_ns) == (100_000, 100_000)
    assert gemm.tensor_core
    rate = gemm.rate
    assert rate.flops == 3 * FLOPS
    assert rate.flops_per_second == pytest.approx(3 * FLOPS / 1503e-6)
    assert (rate.number_format, rate.bound) == ("tf32", "compute")
    assert rate.efficiency_ratio == pytest.approx(rate.flops_per_second / 156e12)
    assert found.peak.name == "A100 40GB"


def test_copies_move_what_was_recorded_and_have_no_grid(make):
    copy = by_name(kernel_details(trained(make)))["Memcpy HtoD"]
    assert (copy.kind, copy.tensor_core, copy.launch.grid_most, copy.launch.occupancy_ratio) == (
        "memcpy",
        None,
        None,
        None,
    )
    assert (copy.rate.bytes, copy.rate.bytes_recorded, copy.rate.bytes_per_second) == (36_000, True, 12e9)
    assert copy.rate.flops is None


def test_a_helper_takes_its_share_of_the_rate_but_no_credit(make):
    rows = by_name(kernel_details(trained(make, helper=100_000)))
    assert rows["splitKreduce"].rate.flops is None
    assert rows["ampere_sgemm_tensorop"].rate.flops_per_second == pytest.approx(3 * FLOPS / 1803e-6)


def test_what_is_not_known_is_none(make):
    found = kernel_details(trained(make, device="Some Accelerator"))
    gemm = by_name(found)["ampere_sgemm_tensorop"]
    assert found.peak is None
    assert any("Some Accelerator" in note for note in found.notes)
    assert gemm.rate.efficiency_ratio is None
    assert gemm.rate.flops_per_second is not None
    assert (
        by_name(kernel_details(trained(make, device="Some Accelerator", helper=5)))[
            "splitKreduce"
        ].tensor_core
        is None
    )


def test_means_are_those_of_the_kernel_view(make):
    trace = trained(make, helper=100_000)
    for steps in ("", "1", "0-1"):
        kept = keep_steps(trace, steps)
        answer = view("kernel", kept, ViewOptions(max_depth=1000))
        columns = {column.key: column.values for column in answer.columns}
        shown = {line.name: columns["device_ns"][at] for at, line in enumerate(answer.lines) if at}
        assert shown == pytest.approx({row.name: row.step_mean_ns for row in kernel_details(kept).rows})


def test_without_a_device_the_operators_are_the_work(make):
    e, kind = make.event, make.Kind
    trace = make.build([e("outer", kind.HOST_OP, 0, 100), e("inner", kind.HOST_OP, 10, 60)])
    found = kernel_details(trace)
    assert not found.on_device
    assert [(row.name, row.total_ns, row.kind) for row in found.rows] == [
        ("inner", 60, "host_op"),
        ("outer", 40, "host_op"),
    ]
    assert (found.windows, found.steps, found.rows[0].launch.delay_median_ns) == (1, (), None)


def test_nothing_at_all_is_said(make):
    e, kind = make.event, make.Kind
    with pytest.raises(EmptyTraceError, match="which kernels ran"):
        kernel_details(make.build([e("frame", kind.PYTHON_FRAME, 0, 100)]))
