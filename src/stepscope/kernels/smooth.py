# mypy: ignore-errors
# Annotations are Cython types here; the compiler checks them.
"""The bias-corrected exponential moving average that TensorBoard draws."""

from __future__ import annotations

import cython

Value = cython.fused_type(cython.float, cython.double)


def average(
    value: cython.const[Value][::1],
    weight: cython.double,
    state: cython.double[::1],
    out: cython.float[::1],
) -> None:
    """Smooth values in recorded order: ``last = last * w + (1 - w) * v; out = last / (1 - w**n)``.

    Non-finite values pass through and leave the state alone. Source: ``line_chart_v2/data_transformer.ts`` of
    TensorBoard. A constant series gets no special treatment here; the caller shows it unsmoothed, as
    TensorBoard does.

    Args:
        value: New values.
        weight: w, 0 <= w < 1.
        state: ``last`` and ``w**n`` after the values so far; 0 and 1 at the beginning. Updated.
        out: Filled with the smoothed values.
    """
    i: cython.Py_ssize_t
    last: cython.double = state[0]
    power: cython.double = state[1]
    v: cython.double
    inf: cython.double = float("inf")
    with cython.nogil:
        for i in range(value.shape[0]):
            v = value[i]
            if -inf < v < inf:
                last = last * weight + (1.0 - weight) * v
                power = power * weight
                out[i] = cython.cast(cython.float, last / (1.0 - power))
            else:
                out[i] = cython.cast(cython.float, v)
    state[0] = last
    state[1] = power
