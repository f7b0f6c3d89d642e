# mypy: ignore-errors
# Annotations are Cython types here; the compiler checks them.
"""The exponential moving average that TensorBoard draws, with a weight for each distance between points."""

from __future__ import annotations

import cython

Value = cython.fused_type(cython.float, cython.double)


def average(
    value: cython.const[Value][::1],
    decay: cython.const[cython.double][::1],
    state: cython.double[::1],
    out: cython.float[::1],
) -> None:
    """Smooth values in recorded order: ``out = sum(v * r) / sum(r)``, where r falls by ``decay`` per point.

    With one decay w for all points this is ``last = last * w + (1 - w) * v; out = last / (1 - w**n)``, as in
    ``line_chart_v2/data_transformer.ts`` of TensorBoard. Non-finite values pass through and leave the state
    alone. A constant series gets no special treatment here: the caller shows it unsmoothed, as TensorBoard
    does.

    Args:
        value: New values.
        decay: Of each new value, the weight that all values before it lose, 0 <= decay <= 1.
        state: The two sums after the values so far; 0 at the beginning. Updated.
        out: Filled with the smoothed values.
    """
    i: cython.Py_ssize_t
    top: cython.double = state[0]
    weights: cython.double = state[1]
    v: cython.double
    inf: cython.double = float("inf")
    with cython.nogil:
        for i in range(value.shape[0]):
            v = value[i]
            if -inf < v < inf:
                top = top * decay[i] + v
                weights = weights * decay[i] + 1.0
                out[i] = cython.cast(cython.float, top / weights)
            else:
                out[i] = cython.cast(cython.float, v)
    state[0] = top
    state[1] = weights
