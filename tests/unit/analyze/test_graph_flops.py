"""FLOPs of TensorFlow's operations, against what PyTorch counts for the same ones."""

import pytest

from stepscope.analyze.graph_flops import flops_of


@pytest.mark.parametrize(
    ("op", "attributes", "inputs", "output", "flops"),
    [
        ("MatMul", {}, [(32, 64), (64, 10)], (32, 10), 2 * 32 * 64 * 10),
        ("MatMul", {"transpose_a": True}, [(64, 32), (64, 10)], (32, 10), 2 * 32 * 64 * 10),
        ("BatchMatMulV2", {"adj_y": True}, [(8, 16, 32), (8, 16, 32)], (8, 16, 16), 2 * 8 * 16 * 16 * 32),
        ("Conv2D", {}, [(1, 8, 8, 3), (3, 3, 3, 16)], (1, 8, 8, 16), 2 * 8 * 8 * 16 * 27),
        ("DepthwiseConv2dNative", {}, [(1, 8, 8, 4), (3, 3, 4, 2)], (1, 8, 8, 8), 2 * 8 * 8 * 8 * 9),
        ("Conv2DBackpropInput", {}, [(4,), (3, 3, 3, 16), (1, 8, 8, 16)], (1, 8, 8, 3), 2 * 8 * 8 * 16 * 27),
        ("Conv2DBackpropFilter", {}, [(1, 8, 8, 3), (4,), (1, 8, 8, 16)], (3, 3, 3, 16), 2 * 8 * 8 * 16 * 27),
        ("Relu", {}, [(3,)], (3,), 0),
        ("MatMul", {}, [(-1, 64), (64, 10)], (-1, 10), None),
        ("MatMul", {}, [(-1, 64), (64, 10)], (32, 10), 2 * 32 * 64 * 10),
        ("MatMul", {}, [(32, -1), (64, 10)], (32, 10), None),
        ("MatMul", {}, [None, (64, 10)], (4, 10), None),
        ("Conv2D", {}, [], (1, 8, 8, 16), None),
    ],
)  # fmt: skip
def test_two_for_each_multiplication_with_its_addition(op, attributes, inputs, output, flops):
    assert flops_of(op, attributes, inputs, [output]) == flops
