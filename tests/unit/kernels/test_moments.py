import numpy as np
import pytest
from support.modules import uncompiled

from stepscope.kernels import moments
from stepscope.record.edges import BUCKET_OF_KEY, BUCKETS, counts


def arrays(kind, random, size):
    values = random.standard_normal(size) * np.exp(random.standard_normal(size) * 3)
    values[: size // 5] = 0
    if kind == "bf16":
        return (values.astype("f4").view("u4") >> 16).astype("u2")
    return values.astype(kind)


def wide(array):
    return (array.astype("u4") << 16).view("f4").astype("f8") if array.dtype == "u2" else array.astype("f8")


def run(module, parts, *, histogram=True, squares_only=False):
    rows = max(row for _, row in parts) + 1
    out = np.zeros((rows, 7))
    out[:, 5], out[:, 6] = np.inf, -np.inf
    found = np.zeros((rows, BUCKETS + 1) if histogram else (0, 0), np.int64)
    kinds = {"<f4": 0, "<u2": 1, "<f2": 2, "<f8": 3}
    columns = [
        [array.ctypes.data for array, _ in parts],
        [array.size for array, _ in parts],
        [kinds[array.dtype.str] for array, _ in parts],
        [row for _, row in parts],
    ]
    module.add(*(np.array(column, np.int64) for column in columns), out, found, BUCKET_OF_KEY, squares_only)
    return out, found[:, :BUCKETS]


@pytest.fixture(params=["best", "plain", "python"])
def module(request):
    if request.param == "python":
        yield uncompiled(moments)
        return
    moments.choose(request.param == "plain")
    yield moments
    moments.choose(False)


@pytest.mark.parametrize("kind", moments.TYPES)
@pytest.mark.parametrize("size", [0, 1, 15, 4097])
def test_moments_are_those_of_numpy(module, kind, size):
    array = arrays(kind, np.random.default_rng(size), size)
    out, found = run(module, [(array, 0)])
    values = wide(array)
    expected = [size, values.sum(), values @ values, (values == 0).sum(), 0]
    np.testing.assert_allclose(out[0, :5], expected, rtol=1e-12)
    assert (out[0, 5], out[0, 6]) == (values.min(initial=np.inf), values.max(initial=-np.inf))
    np.testing.assert_array_equal(found[0], counts(values))
    squares, _ = run(module, [(array, 0)], histogram=False, squares_only=True)
    np.testing.assert_allclose(squares[0, 2], expected[2], rtol=1e-12)


def test_parts_of_a_row_add_up(module):
    array = arrays("f4", np.random.default_rng(0), 10_001)
    whole = run(module, [(array, 0)])
    parts = run(module, [(array[:7], 1), (array[7:], 1), (array[:3], 0)])
    np.testing.assert_allclose(parts[0][1], whole[0][0], rtol=1e-13)
    np.testing.assert_array_equal(parts[1][1], whole[1][0])
    assert parts[0][0, 0] == 3


@pytest.mark.parametrize("kind", ["f4", "f2", "f8"])
def test_what_is_not_finite_is_counted_and_shows_in_sums(module, kind):
    array = np.array([1, np.nan, np.inf, -np.inf, 0, -0.0, -2], kind)
    out, found = run(module, [(array, 0), (array[:1], 1), (array[2:3], 2)])
    assert out[0, 0] == 7
    assert np.isnan(out[0, 1:3]).all()
    assert out[0, 3:].tolist() == [2, 3, -np.inf, np.inf]
    assert found.sum() == 4 + 1
    assert out[2, 2] == np.inf


def test_doubles_beyond_float32_are_finite(module):
    out, found = run(module, [(np.array([1e300, -1e300, 1e200]), 0)])
    assert out[0, 4] == 0
    assert (found[0, 0], found[0, -1]) == (1, 2)


def test_unaligned_memory_is_read(module):
    array = np.zeros(41, "u1")[1:].view("f4")
    array[:] = np.arange(10)
    out, _ = run(module, [(array, 0)])
    assert out[0, 1] == 45
