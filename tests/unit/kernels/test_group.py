import numpy as np
import pytest

from stepscope.kernels import group


def test_rows_of_a_key_stay_in_order():
    random = np.random.default_rng(1)
    key = random.integers(0, 7, 1000).astype(np.uint32)
    column = random.integers(-(1 << 40), 1 << 40, 1000)
    ends, slot, out = np.zeros(8, np.int64), np.zeros(1000, np.uint32), np.zeros(1000, np.int64)
    group.slots(key, ends, slot)
    group.scatter_integers(column, slot, out)
    assert ends.tolist() == np.cumsum(np.bincount(key, minlength=8)).tolist()
    assert out.tolist() == column[np.argsort(key, kind="stable")].tolist()


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
def test_integers_are_converted(dtype):
    out = np.zeros(2, dtype)
    group.scatter_integers(np.array([5, 6]), np.array([1, 0], np.uint32), out)
    assert out.tolist() == [6, 5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reals_are_rounded(dtype):
    out = np.zeros(3, dtype)
    group.scatter_reals(np.array([0.1, np.nan, np.inf]), np.array([2, 1, 0], np.uint32), out)
    assert repr(out.tolist()) == repr([float("inf"), float("nan"), float(dtype(0.1))])
