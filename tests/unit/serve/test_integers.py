"""One reading of whole numbers for every question."""

from __future__ import annotations

import pytest

from stepscope.serve.integers import optional, whole
from stepscope.serve.reply import Refusal


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("-3", -3), ("007", 7), (str(2**62), 2**62)])
def test_a_whole_number_is_read(text, number):
    assert whole({"n": text}, "n") == optional({"n": text}, "n") == number


@pytest.mark.parametrize(
    "text", ["", "1.5", "1_000", " 1", "1 ", "+1", "٣", "x", "9" * 20, str(2**63), "nan"]
)
def test_what_is_none_is_refused(text):
    with pytest.raises(Refusal, match=r"n is .*: expected a whole number") as refusal:
        optional({"n": text}, "n")
    assert refusal.value.status == 400


@pytest.mark.parametrize("text", ["0", "6"])
def test_bounds_are_said(text):
    with pytest.raises(Refusal, match=f"n is '{text}': expected a whole number from 1 to 5"):
        whole({"n": text}, "n", 3, 1, 5)


def test_what_is_left_out():
    assert whole({}, "n", 3) == 3
    assert optional({}, "n") is None
    with pytest.raises(Refusal, match="no n given"):
        whole({}, "n")
