"""Work by shapes: rates, what bounds it, and utilisation."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stepscope.analyze.roofline import roofline
from stepscope.analyze.shapes import shape_table
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Device

SMALL, LARGE = [[64, 64], [64, 64]], [[4096, 4096], [4096, 4096]]
RECORDED = {"timeline", "steps", "device", "launches", "shapes"}


def products(make, shapes, *, kernel_ns=8_000_000, host_ns=50_000, apart_ns=20_000_000, ahead=False):
    """One product after the other; ``ahead``: the host hands all of them over before the device is done."""
    e, K = make.event, make.Kind
    events = [e("s", K.STEP, 0, apart_ns * len(shapes), step=1)]
    rows, kernels = [], []
    for n in range(len(shapes)):
        at = n * (host_ns if ahead else apart_ns)
        rows.append(len(events))
        events += [
            e("aten::mm", K.HOST_OP, at, host_ns),
            e("launch", K.RUNTIME_CALL, at + 5, 5, correlation=n + 1),
        ]
        begin = n * kernel_ns + 100 if ahead else at + 100
        kernels.append(e("gemm", K.KERNEL, begin, kernel_ns, device=0, stream=7, correlation=n + 1))
    return make.build(
        [*events, *kernels],
        tables={
            "operators": {
                "row": rows, "shapes": [json.dumps(each, indent=2) for each in shapes],
                "types": [json.dumps(["float", "float"])] * len(rows), "values": ["[]"] * len(rows),
            }
        },
        recorded=RECORDED,
        devices=(Device(rank=0, index=0, name="NVIDIA A100-SXM4-40GB", memory_bytes=40 << 30),),
    )  # fmt: skip


def test_a_row_has_all_calls_of_one_shape(make):
    table = shape_table(products(make, [LARGE, LARGE, SMALL]))
    large, small = table.rows
    assert (large.name, large.kind, large.shapes) == ("aten::mm", "product", "[4096,4096] [4096,4096]")
    assert (large.calls, large.total_ns, large.flops) == (2, 16_000_000, 2 * 4096**3)
    assert large.bytes == 3 * 4096**2 * 4
    assert large.flops_per_second == pytest.approx(2 * 4096**3 / 8e-3)
    assert large.efficiency_ratio == pytest.approx(2 * 4096**3 / 8e-3 / 19.5e12)
    assert (large.bound, small.calls, large.share_ratio) == ("compute", 1, pytest.approx(2 / 3))


def test_what_has_few_operations_per_byte_is_bound_by_memory(make):
    (row,) = shape_table(products(make, [[[1, 4096], [4096, 4096]]])).rows
    assert row.bound == "memory"
    assert row.attainable_flops_per_second == pytest.approx(row.intensity * 1555e9)


def test_a_device_that_ran_dry_is_bound_by_launches(make):
    (row,) = shape_table(products(make, [SMALL] * 3, kernel_ns=3000)).rows
    assert row.bound == "launch"


def test_a_host_that_runs_ahead_bounds_nothing(make):
    (row,) = shape_table(products(make, [LARGE] * 5, kernel_ns=60_000, host_ns=50_000, ahead=True)).rows
    assert row.bound == "compute"


def test_utilisation_is_that_of_the_steps_and_says_what_it_counts(make):
    trace = products(make, [LARGE, LARGE])
    table = shape_table(trace)
    assert table.utilisation_ratio == pytest.approx(2 * 2 * 4096**3 / (40e-3 * 19.5e12))
    assert table.utilisation_ratio == pytest.approx(roofline(trace).steps[0].utilisation_ratio)
    assert "at least 35.2 %; the work below takes 100.0 % of the device's time" in table.text


def test_without_shapes_nothing_is_said(make):
    with pytest.raises(EmptyTraceError, match="how many operations there were"):
        shape_table(make.build([make.event("aten::mm", make.Kind.HOST_OP, 0, 5)]))


def test_an_instruction_of_xla_stands_with_all_its_kernels(make):
    e, K = make.event, make.Kind
    kernel = {"device": 0, "stream": 7}
    trace = make.build(
        [
            e("im2col", K.KERNEL, 0, 100, flops=-1, **kernel),
            e("gemm", K.KERNEL, 100, 300, flops=-1, **kernel),
            e("im2col", K.KERNEL, 500, 100, flops=-1, **kernel),
            e("gemm", K.KERNEL, 600, 300, flops=-1, **kernel),
        ],
        tables={
            "instructions": {
                "row": [0, 1, 2, 3], "calls": [1, 0, 1, 0], "label": ["jit_f/conv.1"] * 4,
                "instruction": ["conv.1"] * 4, "module": ["jit_f"] * 4, "opcode": ["custom-call"] * 4,
                "framework": ["jit(f)/conv"] * 4, "line": [""] * 4, "shapes": ["bf16[2] -> bf16[2]"] * 4,
                "number_format": ["bf16"] * 4, "bytes": [50] * 4,
            }
        },
        recorded={"timeline", "device", "flops"},
    )  # fmt: skip
    trace.flops[[0, 2]] = 1000
    (row,) = shape_table(trace).rows
    assert (row.name, row.kind, row.calls, row.total_ns) == ("jit_f/conv.1", "convolution", 2, 800)
    assert (row.flops, row.bytes, row.number_format) == (1000, 50, "bfloat16")


def test_as_json_types_a_table_has_the_peak_that_it_is_compared_with(make):
    table = shape_table(products(make, [LARGE]))
    found = table.as_dict()
    assert found["peak"]["name"] == table.peak.name
    assert replace(table, peak=None).as_dict()["peak"] is None
    assert [row["calls"] for row in found["rows"]] == [row.calls for row in table.rows]
