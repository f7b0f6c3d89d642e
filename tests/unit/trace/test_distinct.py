"""Distinct values found by tables are those that sorting finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stepscope.trace.distinct import Ints, distinct, numbered

COLUMNS = st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64]).flatmap(
    lambda dtype: arrays.arrays(
        dtype, st.integers(0, 40), elements=arrays.from_dtype(np.dtype(dtype)) | st.integers(-2, 30).map(abs)
    )
)


@pytest.mark.slow
@given(COLUMNS)
def test_the_values_are_those_of_unique(column: Ints) -> None:
    assert distinct(column).tolist() == np.unique(column).tolist()


@pytest.mark.slow
@given(COLUMNS)
def test_places_lead_back_to_the_column(column: Ints) -> None:
    found, place = numbered(column)
    assert found.tolist() == np.unique(column).tolist()
    assert found[place].tolist() == column.tolist()


@given(st.lists(st.one_of(st.integers(0, 50), st.integers(2**38, 2**40))))
def test_small_and_large_numbers_together(values: list[int]) -> None:
    column = np.array(values, np.int64)
    expected, inverse = np.unique(column, return_inverse=True)
    assert distinct(column).tolist() == expected.tolist()
    found, place = numbered(column)
    assert (found.tolist(), place.tolist()) == (expected.tolist(), inverse.tolist())


@pytest.mark.parametrize("column", [[-128, 127], [-1, 0, 5], [0, 255]])
def test_a_narrow_column_does_not_overflow(column: list[int]) -> None:
    dtype = np.uint8 if min(column) >= 0 else np.int16 if max(column) > 127 else np.int8
    many = np.array(column * 100, dtype)
    assert distinct(many).tolist() == sorted(column)
    assert numbered(many)[0][numbered(many)[1]].tolist() == many.tolist()


def test_a_column_is_not_changed() -> None:
    column = np.array([5, -1, 5], np.int32)
    distinct(column)
    assert column.tolist() == [5, -1, 5]
