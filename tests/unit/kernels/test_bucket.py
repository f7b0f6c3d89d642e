"""The kernels of the queries run as plain Python too, with the same answer."""

import sys

import numpy as np
import pytest
from support.modules import uncompiled

from stepscope.kernels import bucket, smooth

MODES = [bucket, uncompiled(bucket)]


def values(size, dtype, seed=0):
    random = np.random.default_rng(seed)
    value = random.normal(size=size).astype(dtype)
    value[random.random(size) < 0.1] = np.nan
    value[random.random(size) < 0.05] = np.inf
    value[random.random(size) < 0.05] = -np.inf
    return value


def outputs(size, dtype):
    return (
        np.full(size, -1, np.int64),
        np.full(size, -1, np.int64),
        np.full(size, np.inf, dtype),
        np.full(size, -np.inf, dtype),
        np.zeros(size, np.uint32),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", MODES, ids=["compiled", "python"])
def test_spans_and_ends(mode, dtype):
    value = values(200, dtype)
    lo, hi = np.array([0, 0, 10, 50, 200]), np.array([200, 0, 11, 90, 200])
    first, last, low, high, bad = outputs(5, dtype)
    mode.spans(value, lo, hi, first, last, low, high, bad)
    again = outputs(5, dtype)[:2]
    mode.ends(value, lo, hi, *again)
    for b, (start, stop) in enumerate(zip(lo, hi, strict=True)):
        good = [i for i in range(start, stop) if np.isfinite(value[i])]
        assert (
            (first[b], last[b]) == ((good[0], good[-1]) if good else (-1, -1)) == (again[0][b], again[1][b])
        )
        assert bad[b] == stop - start - len(good)
        if good:
            assert (low[b], high[b]) == (value[good].min(), value[good].max())


@pytest.mark.parametrize("mode", MODES, ids=["compiled", "python"])
@pytest.mark.parametrize("axis", [np.int64, np.float64])
def test_scatter(mode, axis):
    value = values(300, np.float32)
    x = np.random.default_rng(1).integers(-5, 60, 300).astype(axis)
    if axis is np.float64:
        x[::7] = np.nan
    starts = np.array([0, 10, 20, 40], axis)
    first, last, low, high, bad = outputs(4, np.float32)
    count = np.zeros(4, np.uint32)
    mode.scatter(x, value, starts, axis(50), first, last, low, high, count, bad)
    for b, (start, stop) in enumerate([(0, 10), (10, 20), (20, 40), (40, 51)]):
        inside = [i for i in range(300) if start <= x[i] < stop]
        good = [i for i in inside if np.isfinite(value[i])]
        assert (first[b], last[b], count[b], bad[b]) == (
            good[0],
            good[-1],
            len(inside),
            len(inside) - len(good),
        )
        assert (low[b], high[b]) == (value[good].min(), value[good].max())


@pytest.mark.parametrize("mode", MODES, ids=["compiled", "python"])
def test_levels(mode):
    value = values(1000, np.float32)
    level = np.empty(62, np.float32), np.empty(62, np.float32), np.zeros(62, np.uint32)
    mode.raise_level(value, value, np.empty(0, np.uint32), 0, *level)
    above = np.empty(3, np.float32), np.empty(3, np.float32), np.zeros(3, np.uint32)
    mode.raise_level(*level, 0, *above)
    lo, hi = np.array([0, 5, 17, 300]), np.array([1000, 900, 18, 300])
    starts, stops = lo.copy(), hi.copy()
    _, _, low, high, bad = outputs(4, np.float32)
    mode.climb(value, value, np.empty(0, np.uint32), lo, hi, False, low, high, bad)
    mode.climb(*level, lo, hi, False, low, high, bad)
    mode.climb(*above, lo, hi, True, low, high, bad)
    for b, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        part = value[start:stop]
        good = part[np.isfinite(part)]
        assert bad[b] == len(part) - len(good)
        assert (low[b], high[b]) == ((good.min(), good.max()) if len(good) else (np.inf, -np.inf))


def test_smoothing_is_the_same_in_both_modes():
    value, decay = values(500, np.float64), np.linspace(0.0, 1.0, 500)
    results = []
    for mode in (smooth, uncompiled(smooth)):
        state, out = np.zeros(2), np.empty(500, np.float32)
        mode.average(value[:200], decay[:200], state, out[:200])
        mode.average(value[200:], decay[200:], state, out[200:])
        results.append((out, state))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12)


def test_read_only_columns_are_taken():
    value = values(100, np.float32)
    value.flags.writeable = False
    first, last, low, high, bad = outputs(1, np.float32)
    bucket.spans(value, np.array([0]), np.array([100]), first, last, low, high, bad)
    assert bad[0] > 0


if sys.platform == "linux":

    def test_the_compiled_kernels_are_compiled():
        if not bucket.__file__.endswith(".so"):
            pytest.skip("the kernels of this checkout are not compiled")
        assert MODES[1].__file__.endswith(".py")
