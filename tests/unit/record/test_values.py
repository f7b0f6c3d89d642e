import decimal
import fractions
import math

import numpy as np
import pytest

from stepscope.record.problems import RefusalError
from stepscope.record.values import read

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1.5, 1.5),
        (7, 7.0),
        (True, 1.0),
        (decimal.Decimal("0.25"), 0.25),
        (fractions.Fraction(1, 4), 0.25),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.int64(-3), -3.0),
        (np.uint8(255), 255.0),
        (np.bool_(True), 1.0),
        (np.array(2.5), 2.5),
        (np.array([[2.5]]), 2.5),
        (np.array([3], np.int32), 3.0),
        (ml_dtypes.bfloat16(1.5), 1.5),
        (np.array(1.5, ml_dtypes.bfloat16), 1.5),
        (-math.inf, -math.inf),
        (np.float32("inf"), math.inf),
    ],
    ids=repr,
)
def test_numbers_of_every_kind(value, number):
    found = read(value)
    assert type(found) is float
    assert found == number


@pytest.mark.parametrize("value", [math.nan, np.float32("nan"), np.array([np.nan]), decimal.Decimal("NaN")])
def test_nan_is_a_number_to_record(value):
    assert math.isnan(read(value))


@pytest.mark.parametrize(
    ("value", "found", "hint"),
    [
        ("1.5", "str '1.5'", "Python, numpy"),
        (b"1", "bytes b'1'", "Python, numpy"),
        (None, "None", "log nothing"),
        ({"a": 1, "b": 2}, "dict of 2 items", "run.scalars"),
        ([1.0], "list of 1 item", "Python, numpy"),
        (object, "type", "Python, numpy"),
        pytest.param(10**400, "a number beyond the range of a float", "scale it", id="10**400"),
        (decimal.Decimal("1e999999"), "a number beyond the range of a float", "scale it"),
        (decimal.Decimal("-1e-999999"), "a number beyond the range of a float", "scale it"),
        (fractions.Fraction(1, 10**400), "a number beyond the range of a float", "scale it"),
        (np.ma.masked, "a masked value, which has no number", "filled(nan)"),
        (np.ma.array([2.0], mask=[True]), "a masked value, which has no number", "filled(nan)"),
        (np.zeros((2, 3)), "an array of shape (2, 3)", "mean()"),
        (np.array([]), "an array of shape (0,)", "mean()"),
        (np.str_("1.5"), "str_ np.str_('1.5')", "Python, numpy"),
        (np.array("1.5"), "a numpy value of type <U3", "Python, numpy"),
        (np.datetime64(1, "s"), "a numpy value", "Python, numpy"),
        (np.array(None), "a numpy value of type object", "Python, numpy"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_refused_with_what_it_is(value, found, hint):
    with pytest.raises(RefusalError) as caught:
        read(value)
    assert caught.value.reason == "value"
    assert found in caught.value.found
    assert hint in caught.value.hint


@pytest.mark.parametrize("value", [1j, np.complex64(1j), np.timedelta64(1, "s")])
def test_what_is_no_number_at_all_is_refused_or_raises(value):
    with pytest.raises((RefusalError, TypeError)):
        read(value)


def test_a_long_text_is_shown_in_part():
    with pytest.raises(RefusalError) as caught:
        read("x" * 10_000)
    assert len(caught.value.found) < 80


def test_any_object_with_float_is_a_number():
    class Metric:
        def __float__(self) -> float:
            return 0.75

    assert read(Metric()) == 0.75
