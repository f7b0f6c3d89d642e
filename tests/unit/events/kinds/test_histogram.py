"""Rows of histograms: counted as TensorBoard does, and read of either style."""

import numpy as np
import pytest

from stepscope.errors import EventFileError
from stepscope.events.kinds import histogram
from stepscope.events.kinds.histogram import from_old
from stepscope.events.messages import Histogram, Summary, Value
from stepscope.events.tensors import tensor
from stepscope.events.wire import decode, encode


@pytest.mark.parametrize("count", [1000, (1 << 16) + 1, 200_000])
def test_values_are_counted_in_buckets_of_one_width(count):
    values = np.random.default_rng(0).integers(0, 3001, count)
    values[:2] = 0, 3000
    rows = histogram.rows_of(values.reshape(-1, 1), 30)
    counts, edges = np.histogram(values, 30, (0, 3000))
    assert rows[:, 2].tolist() == counts.tolist()
    assert rows[:, 0].tolist() == edges[:-1].tolist()
    assert rows[:, 1].tolist() == edges[1:].tolist()


def test_where_all_values_are_equal_the_last_bucket_counts():
    assert histogram.rows_of(np.full(7, 2.5), 3).tolist() == [[2.5, 2.5, 0], [2.5, 2.5, 0], [2.5, 2.5, 7]]
    assert histogram.rows_of(np.empty(0), 3).tolist() == [[0, 0, 0]] * 3
    assert histogram.rows_of(np.ones(3), 0).shape == (0, 3)


def test_a_span_beyond_all_numbers_is_divided_all_the_same():
    most = np.finfo(np.float64).max
    rows = histogram.rows_of(np.array([-most, 0.0, most]), 4)
    assert rows[:, 2].tolist() == [1, 0, 1, 1]
    assert np.isfinite(rows).all()
    assert (rows[0, 0], rows[-1, 1]) == (-most, most)
    assert (rows[1:, 0] == rows[:-1, 1]).all()


def test_the_smallest_span_has_no_width():
    rows = histogram.rows_of(np.array([0.0, 5e-324]), 4)
    assert rows[:, 2].sum() == 2
    assert (rows[:, 1] <= 5e-324).all()


def old(limits, counts, least, most):
    value = Value("h", histo=Histogram(least, most, sum(counts), 0.0, 0.0, list(limits), list(counts)))
    return histogram.read(value).tolist()


@pytest.mark.parametrize(
    ("counts", "least", "most", "rows"),
    [
        ([0, 5, 0, 2, 0], 1.5, 3.5, [[1.5, 2, 5], [2, 3, 0], [3, 3.5, 2]]),
        ([4, 0, 0, 0, 0], 0.2, 0.7, [[0.2, 0.7, 4]]),
        ([0, 0, 0, 0, 9], 5.0, 7.0, [[5, 7, 9]]),
        ([0, 0, 0, 0, 0], 0.0, 0.0, []),
    ],
)
def test_an_old_histogram_ends_at_its_smallest_and_largest_value(counts, least, most, rows):
    """Empty buckets at both ends are left out."""
    assert old([1, 2, 3, 4, 1e300], counts, least, most) == rows
    histo = Histogram(least, most, 1.0, 0.0, 0.0, [1, 2, 3, 4, 1e300], counts)
    assert from_old(histo).shape == (len(rows), 3)


def test_the_edges_of_an_old_histogram_are_no_wider_than_its_buckets():
    assert old([1, 2, 3], [0, 4, 0], 0.5, 9.0) == [[1, 2, 4]]
    assert old([1, 2, 3], [4, 0, 0], 0.5, 9.0) == [[0.5, 1, 4]]


def test_limits_and_counts_must_be_as_many():
    with pytest.raises(EventFileError, match="2 limits and 1 count"):
        old([1, 2], [1], 0, 1)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Value("h"), "without a tensor"),
        (Value("h", tensor=tensor(["a"])), "has numbers"),
        (Value("h", tensor=tensor(np.zeros((2, 4)))), r"rows of 3, found a tensor of shape \[2, 4\]"),
        (Value("h", tensor=tensor(np.zeros(3))), "rows of 3"),
    ],
)
def test_what_is_no_histogram_is_refused(value, said):
    with pytest.raises(EventFileError, match=said):
        histogram.read(value)


def test_rows_are_read_as_they_were_written():
    rows = np.array([[0.0, 1.0, 3.0], [1.0, 4.0, 0.0]])
    assert histogram.read(histogram.value("h", rows)).tolist() == rows.tolist()
    assert histogram.read(Value("h", tensor=tensor(rows.astype(np.int32)))).tolist() == rows.tolist()


def test_many_histograms_of_the_same_edges_are_one_summary():
    """Each begins and ends with a bucket that counts, and an empty stretch in it is one row."""
    counts = np.array([[0, 3, 0, 0, 2, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    edges = np.array([0.0, 1, 2, 4, 8, 16, 32])
    made = decode(Summary, encode(histogram.summary(list("abcd"), counts, edges)))
    found = {value.tag: histogram.read(value).tolist() for value in made.value}
    assert found == {
        "a": [[1, 2, 3], [2, 8, 0], [8, 16, 2]],
        "b": [[0, 1, 1]],
        "d": [[0, 1, 1], [1, 2, 2], [2, 4, 3], [4, 8, 4], [8, 16, 5], [16, 32, 6]],
    }
