from __future__ import annotations

import json

import pytest

from stepscope.analyze.flops import FORMULAS, attention, convolution, product
from stepscope.analyze.peaks import peak_of
from stepscope.analyze.roofline import roofline
from stepscope.errors import EmptyTraceError
from stepscope.trace.model import Device


def test_formulas():
    assert product([4, 8], [8, 16]).flops == 2 * 4 * 8 * 16
    assert product([5, 4, 8], [5, 8, 16]).elements == 5 * (4 * 8 + 8 * 16 + 4 * 16)
    # Eight groups: each output channel sees one input channel.
    assert convolution(2, [8, 1, 3, 3], [10, 10], 2 * 8 * 100).flops == 2 * 2 * 8 * 9 * 100
    assert attention([2, 4, 10, 16], [2, 4, 20, 16], [2, 4, 20, 16]).flops == 2 * 2 * 4 * 10 * 20 * 32
    with pytest.raises(ValueError, match="not a matrix product"):
        product([4, 8], [9, 16])


def test_grouped_and_strided_convolution_from_recorded_inputs():
    shapes = [[2, 8, 10, 10], [16, 2, 3, 3], [16], [], [], [], [], [], []]
    values = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "4"]
    assert FORMULAS["aten::convolution"](shapes, values).flops == 2 * 2 * 16 * 2 * 9 * 5 * 5
    backward = [[2, 16, 5, 5], *shapes[:2]]
    mask = ["", "", "", "[16]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "4", "[False, True, True]"]
    assert FORMULAS["aten::convolution_backward"](backward, mask).flops == 2 * 2 * 16 * 2 * 9 * 5 * 5


@pytest.mark.parametrize(
    ("name", "gib", "peak"),
    [
        ("Tesla V100-SXM2-32GB", 32, "V100 SXM2"),
        ("Tesla V100-PCIE-16GB", 16, "V100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", 79, "A100 80GB"),
        ("NVIDIA A100-PG509-200", 39, "A100 40GB"),
        ("NVIDIA H100 80GB HBM3", 79, "H100 SXM"),
        ("NVIDIA H100 PCIe", 79, "H100 PCIe"),
        ("NVIDIA H200", 140, "H200 SXM"),
        ("AMD Instinct MI300X", 191, "MI300X"),
        ("NVIDIA GeForce GTX 970", 4, None),
        ("NVIDIA A1000 Laptop GPU", 4, None),
        ("", 0, None),
    ],
)
def test_devices(name, gib, peak):
    found = peak_of(Device(rank=0, index=0, name=name, memory_bytes=gib << 30))
    assert (found.name if found else None) == peak


def trained(make, *, kernel="ampere_sgemm", kind="float", device="NVIDIA A100-SXM4-40GB", shapes=None):
    """One step of 1 ms with one product of 4096 cubed that takes 500 us."""
    e, K = make.event, make.Kind
    shapes = shapes or [[4096, 4096], [4096, 4096]]
    return make.build(
        [
            e("s", K.STEP, 0, 10_000_000, step=1),
            e("aten::linear", K.HOST_OP, 0, 100),
            e("aten::mm", K.HOST_OP, 10, 50),
            e("launch", K.RUNTIME_CALL, 20, 5, correlation=1),
            e(kernel, K.KERNEL, 100, 8_000_000, device=0, correlation=1),
        ],
        tables={
            "operators": {
                "row": [2], "shapes": [json.dumps(shapes)], "types": [json.dumps([kind, kind])],
                "values": ["[]"],
            }
        },
        recorded={"timeline", "steps", "device", "launches", "shapes"},
        devices=(Device(rank=0, index=0, name=device, memory_bytes=40 << 30),),
    )  # fmt: skip


def test_a_product_under_the_roof(make):
    found = roofline(trained(make))
    (product_,) = found.operators
    assert product_.flops == 2 * 4096**3
    assert product_.bytes == 3 * 4096**2 * 4
    assert product_.achieved_flops_per_second == pytest.approx(2 * 4096**3 / 8e-3)
    assert (product_.number_format, product_.bound) == ("float32", "compute")
    assert product_.attainable_flops_per_second == 19.5e12
    assert product_.efficiency_ratio == pytest.approx(2 * 4096**3 / 8e-3 / 19.5e12)
    assert found.steps[0].utilisation_ratio == pytest.approx(2 * 4096**3 / (10e-3 * 19.5e12))
    assert found.counted_ratio == 1


def test_tensor_cores_have_another_roof(make):
    (product_,) = roofline(trained(make, kernel="ampere_s1688gemm_128x128_tn")).operators
    assert (product_.number_format, product_.attainable_flops_per_second) == ("tf32", 156e12)


def test_little_work_per_byte_is_bound_by_memory(make):
    (product_,) = roofline(trained(make, kind="c10::BFloat16", shapes=[[1, 4096], [4096, 4096]])).operators
    assert product_.bound == "memory"
    assert product_.attainable_flops_per_second == pytest.approx(product_.intensity * 1555e9)


def test_what_is_not_known_is_not_claimed(make):
    found = roofline(trained(make, device="NVIDIA A1000"))
    assert found.peak is None
    assert found.steps[0].utilisation_ratio is None
    assert found.operators[0].achieved_flops_per_second > 0
    assert found.operators[0].efficiency_ratio is None
    assert found.notes == ("the peak of NVIDIA A1000 is not known",)
    (product_,) = roofline(trained(make, kind="Mystery")).operators
    assert (product_.number_format, product_.bytes, product_.efficiency_ratio) == ("", None, None)
    with pytest.raises(EmptyTraceError, match="shapes"):
        roofline(make.build([make.event("aten::mm", make.Kind.HOST_OP, 0, 5)]))
    with pytest.raises(EmptyTraceError, match="no matrix product"):
        roofline(trained(make, shapes=[[2], [3]]))


def test_work_that_cannot_be_told_leaves_utilisation_open(make):
    from dataclasses import replace

    trace = trained(make)
    other = make.build([make.event("aten::convolution", make.Kind.HOST_OP, 0, 5)])
    assert other.strings.find("aten::convolution") >= 0
    name = trace.name.copy()
    name[trace.named("aten::linear")] = len(trace.strings)
    from stepscope.trace.names import Strings

    found = roofline(
        replace(trace, name=name, strings=Strings.of([*trace.strings.texts(), "aten::convolution"]))
    )
    assert found.steps[0].utilisation_ratio is None
    assert "1 calls of aten::convolution" in found.notes[-1]


@pytest.mark.parametrize(
    ("kind", "place", "back"),
    [
        ("flash_attention", 4, 11),
        ("efficient_attention", 6, 11),
        ("cudnn_attention", 6, 14),
        ("flash_attention_for_cpu", 4, 7),
    ],
)
def test_causal_attention_does_half_of_the_work(kind, place, back):
    from stepscope.analyze.flops import FORMULAS

    shape = [2, 4, 128, 64]
    names = [f"aten::_scaled_dot_product_{kind}{end}" for end in ("", "_backward")]
    for name, at, shapes in zip(names, (place, back), ([shape] * 3, [shape] * 4), strict=True):
        whole, half = (FORMULAS[name](shapes, [""] * at + [causal]).flops for causal in ("False", "True"))
        assert half / whole == (128 * 129 / 2) / 128**2
        assert FORMULAS[name](shapes, []).flops == whole


def test_a_causal_query_without_keys_of_its_own_meets_them_all():
    from stepscope.analyze.flops import attention

    query, key = [1, 1, 6, 8], [1, 1, 4, 8]
    assert attention(query, key, key, causal=True).flops == 2 * (1 + 2 + 3 + 4 + 4 + 4) * 16
