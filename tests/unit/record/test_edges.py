import hashlib

import numpy as np
import pytest

from stepscope.record import edges
from stepscope.record.edges import BUCKETS, EDGES, SIDE, counts, fold, rows


def by_search(values: np.ndarray) -> np.ndarray:
    """The same counts by comparing with the edges: a bucket holds the edge that is nearest to zero."""
    values = values[np.isfinite(values)].astype(np.float64)
    found = np.searchsorted(EDGES, values, side="right") - 1
    found[values < 0] = np.searchsorted(EDGES, values[values < 0], side="left") - 1
    found[np.abs(values) < 2.0**-64] = SIDE
    return np.bincount(found, minlength=BUCKETS)


def test_the_edges_never_change():
    assert len(EDGES) == BUCKETS + 1 == 1028
    assert hashlib.sha256(EDGES.astype("<f8").tobytes()).hexdigest() == DIGEST


DIGEST = "feeee6c52954bff0a3db5348f5053d880f236bbb22783a501c4000e97c42fbd9"


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_counts_are_those_of_a_search_in_the_edges(dtype):
    random = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        values = (random.standard_normal(50_000) * np.exp(random.standard_normal(50_000) * 25)).astype("f4")
        special = [0.0, -0.0, 1, -1, 1.25, np.nextafter(np.float32(1.25), np.float32(0)), 2.0**-64]
        special += [-(2.0**-64), 2.0**64, -(2.0**64), 3e38, -3e38, 1e-45, np.inf, -np.inf, np.nan, -np.nan]
        values = np.concatenate([values, np.array(special, "f4")]).astype(dtype)
    found = counts(values)
    np.testing.assert_array_equal(found, by_search(values))
    assert found.dtype == np.int64
    assert found.sum() == np.isfinite(values).sum()


def test_parts_add_up_to_the_whole():
    values = np.random.default_rng(1).standard_normal(9_999).astype("f4")
    parts = [values[:10], values[10:5000], values[5000:]]
    np.testing.assert_array_equal(sum(map(counts, parts)), counts(values))


def test_what_is_not_finite_is_in_no_bucket_but_what_is_only_too_large_for_a_float32_is():
    found = counts([np.nan, np.inf, -np.inf, 1e300, 1e300, -1e300])
    assert (found[0], found[-1], found.sum()) == (1, 2, 3)


@pytest.mark.parametrize("values", [[], [True, False], np.arange(6, dtype=np.int8), [[2**70]], 3.5])
def test_it_takes_what_numpy_takes(values):
    assert counts(values).sum() == np.asarray(values).size


def test_a_power_of_two_moves_a_histogram_by_four_buckets():
    values = np.abs(np.random.default_rng(2).standard_normal(1000)).astype("f4") + 0.1
    np.testing.assert_array_equal(counts(values)[:-4], counts(values * 2)[4:])


def test_fold_keeps_leading_axes():
    keys = np.random.default_rng(3).integers(0, 9, (2, 3, edges.KEYS))
    np.testing.assert_array_equal(fold(keys)[1, 2], fold(keys[1, 2]))
    assert fold(keys)[0, 0].sum() == keys[0, 0][edges.BUCKET_OF_KEY < BUCKETS].sum()


def test_rows_cover_the_span_without_gaps():
    found = rows(counts([1.0, 1.0, -3.0]))
    assert found.tolist() == [[-3.5, -3.0, 1.0], [-3.0, 1.0, 0.0], [1.0, 1.25, 2.0]]
    assert rows(counts([])).shape == (0, 3)
    found = rows(counts(np.random.default_rng(4).standard_normal(1000)))
    np.testing.assert_array_equal(found[1:, 0], found[:-1, 1])
    assert found[:, 2].sum() == 1000
