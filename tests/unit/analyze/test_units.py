from __future__ import annotations

import pytest

from stepscope.analyze import units


@pytest.mark.parametrize(
    ("format_", "value", "text"),
    [
        (units.time, 0, "0 ns"),
        (units.time, 999, "999 ns"),
        (units.time, 1500, "1.50 µs"),
        (units.time, 999_600, "1.00 ms"),
        (units.time, 90e9, "90.0 s"),
        (units.time, 180e9, "3.00 min"),
        (units.time, float("nan"), "-"),
        (units.size, 12, "12 B"),
        (units.size, 120_356_380_000, "120 GB"),
        (units.size, 3e15, "3.00 PB"),
        (units.quantity, 53, "53"),
        (units.quantity, 1440, "1.44k"),
        (units.flop_rate, 15.7e12, "15.7 TFLOP/s"),
        (units.share, 0.339, "33.9 %"),
    ],
)
def test_three_digits_and_a_unit(format_, value, text) -> None:
    assert format_(value) == text


def test_a_name_carries_its_unit() -> None:
    assert units.readable("host_wait_ns", 1500) == "host wait 1.50 µs"
    assert units.readable("held_ratio", None) == "held not recorded"
    assert units.readable("steps", 6) == "steps 6"


def test_what_is_not_all_is_never_said_to_be():
    assert [units.most(ratio) for ratio in (0.0, 0.76, 0.9949, 0.9984, 1.0)] == [
        "0%", "76%", "99%", "over 99%", "100%"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "text"),
    [(10.0, "10 times"), (1.0, "1 time"), (0.9, "0.9 times"), (2.5, "2.5 times"), (1234.0, "1,234 times")],
)
def test_how_often(count: float, text: str) -> None:
    assert units.often(count) == text
