"""Statistics of tensors as operations of a graph; sums in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from stepscope.record.edges import BUCKET_OF_KEY, BUCKETS, SHIFT

FAR: dict[str, Callable[[Any], Any]] = {"tanh": tf.abs, "sigmoid": lambda out: tf.abs(2 * out - 1)}
"""How close an output is to its bounds."""


def rows_of(arrays: Sequence[Any], *, histograms: bool) -> tuple[Any, Any, Any]:
    """Return the statistics of arrays, None for one that is not there.

    Returns:
        float64 [n, 4]: sum, sum of squares, least, most; int64 [n, 3]: zeros, non-finite, whether there is
        such an array; int32 [n, BUCKETS + 1] counts by bucket, the last for non-finite values, or None.
    """
    if not arrays:
        none = tf.zeros((0, BUCKETS + 1), tf.int32) if histograms else None
        return tf.zeros((0, 4), tf.float64), tf.zeros((0, 3), tf.int64), none
    flat = [None if array is None else real(array) for array in arrays]
    floats, integers = zip(*map(moments, flat), strict=True)
    counts = tf.stack([count(array) for array in flat]) if histograms else None
    return tf.stack(floats), tf.stack(integers), counts


def moments(values: Any) -> tuple[Any, Any]:
    """Return sum, squares, least and most of the numbers, and zeros, non-finite, 1, of a flat array."""
    if values is None:
        return tf.zeros(4, tf.float64), tf.zeros(3, tf.int64)
    wide = tf.cast(values, tf.float64)
    infinity = tf.constant(float("inf"), tf.float64)
    nothing = tf.math.is_nan(wide)
    sums = [tf.reduce_sum(wide), tf.reduce_sum(wide * wide)]
    least = tf.reduce_min(tf.where(nothing, infinity, wide))
    most = tf.reduce_max(tf.where(nothing, -infinity, wide))
    zeros = tf.math.count_nonzero(tf.equal(wide, 0), dtype=tf.int64)
    nonfinite = tf.math.count_nonzero(tf.logical_not(tf.math.is_finite(wide)), dtype=tf.int64)
    return tf.stack([*sums, least, most]), tf.stack([zeros, nonfinite, tf.constant(1, tf.int64)])


def count(values: Any) -> Any:
    """Return counts by bucket, the last place for non-finite values."""
    if values is None:
        return tf.zeros(BUCKETS + 1, tf.int32)
    bits = tf.bitcast(tf.cast(values, tf.float32), tf.uint32)
    keys = tf.cast(tf.bitwise.right_shift(bits, tf.constant(SHIFT, tf.uint32)), tf.int32)
    buckets = tf.gather(tf.constant(BUCKET_OF_KEY, tf.int32), keys)
    return tf.math.unsorted_segment_sum(tf.ones_like(buckets), buckets, BUCKETS + 1)


def norm_of(arrays: Sequence[Any]) -> Any:
    """Return the norm of all arrays together."""
    wide = [tf.cast(real(array), tf.float64) for array in arrays if array is not None]
    return tf.sqrt(
        tf.add_n([tf.reduce_sum(array * array) for array in wide] or [tf.constant(0.0, tf.float64)])
    )


def real(array: Any) -> Any:
    """Return an array in a row; complex as real and imaginary parts, sparse with its zeros."""
    array = tf.convert_to_tensor(array)
    if array.dtype.is_complex:
        array = tf.stack([tf.math.real(array), tf.math.imag(array)])
    return tf.reshape(array, [-1])
