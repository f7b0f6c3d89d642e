"""Floating point operations of TensorFlow's operations, from the shapes that go in and come out.

As in ``flops``: matrix products and convolutions, two for a multiplication with its addition; gradients of
convolutions are convolutions of as many. Other operations are 0, which model FLOPs leave out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Shape = Sequence[int]
PRODUCTS = {
    "MatMul": "transpose_a",
    "BatchMatMul": "adj_x",
    "BatchMatMulV2": "adj_x",
    "BatchMatMulV3": "adj_x",
}
CONVOLUTIONS = {
    "Conv2D": 1, "Conv3D": 1, "DepthwiseConv2dNative": 1, "Conv2DBackpropInput": 1,
    "Conv3DBackpropInputV2": 1, "DepthwiseConv2dNativeBackpropInput": 1,
    "Conv2DBackpropFilter": -1, "Conv3DBackpropFilterV2": -1,
    "DepthwiseConv2dNativeBackpropFilter": -1,
}  # fmt: skip
"""Which input is the kernel; -1: the output is."""
COUNTED = frozenset((*PRODUCTS, *CONVOLUTIONS))


def flops_of(
    op: str, attributes: Mapping[str, Any], inputs: Sequence[Shape | None], outputs: Sequence[Shape]
) -> int | None:
    """Return the operations of one call.

    Args:
        op: Kind of the operation.
        attributes: Of the operation.
        inputs: Shapes of its inputs, None for those that are not known.
        outputs: Shapes of its outputs; -1 is a size that is not known.

    Returns:
        None if the shapes do not tell.
    """
    if op in PRODUCTS:
        return product(inputs, outputs, transposed=bool(attributes.get(PRODUCTS[op])))
    if op in CONVOLUTIONS:
        return convolution(op, inputs, outputs)
    return 0


def product(inputs: Sequence[Shape | None], outputs: Sequence[Shape], *, transposed: bool) -> int | None:
    """Return the operations of a matrix product, also of a batch of them."""
    left, out = inputs[0] if inputs else None, known(outputs, 0)
    if left is None or out is None or len(left) < 2:
        return None
    # Of the left factor only what is summed over matters: how many examples there are, the product says.
    met = left[-2 if transposed else -1]
    return None if met < 0 else 2 * math.prod(out) * met


def convolution(op: str, inputs: Sequence[Shape | None], outputs: Sequence[Shape]) -> int | None:
    """Return the operations of a convolution: each place of its result, or its gradient, meets the kernel."""
    place = CONVOLUTIONS[op]
    kernel = known(outputs, 0) if place < 0 else known(inputs, place)
    result = known(inputs, 2) if "Backprop" in op else known(outputs, 0)
    if kernel is None or result is None or len(kernel) < 3:
        return None
    # A kernel is [*window, inputs, outputs]; a depthwise one meets one input for each output.
    met = kernel[:-2] if op.startswith("Depthwise") else kernel[:-1]
    return 2 * math.prod(result) * math.prod(met)


def known(shapes: Sequence[Shape | None], at: int) -> Shape | None:
    """Return a shape whose sizes are all known."""
    shape = shapes[at] if at < len(shapes) else None
    return None if shape is None or any(size < 0 for size in shape) else shape
