import pytest

from stepscope.analyze.flops import FORMULAS, attention, convolution, product
from stepscope.analyze.peaks import peak_of
from stepscope.trace.model import Device


def test_formulas():
    assert product([4, 8], [8, 16]).flops == 2 * 4 * 8 * 16
    assert product([5, 4, 8], [5, 8, 16]).elements == 5 * (4 * 8 + 8 * 16 + 4 * 16)
    # Eight groups: each output channel sees one input channel.
    assert convolution(2, [8, 1, 3, 3], [10, 10], 2 * 8 * 100).flops == 2 * 2 * 8 * 9 * 100
    # What is read and written once: the images, the weights and the results.
    assert convolution(2, [8, 1, 3, 3], [10, 10], 2 * 8 * 100).elements == 1600 + 72 + 2 * 8 * 100
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
