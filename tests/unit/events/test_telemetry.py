"""The numbers and names of ranks' files, which do not change: older files are read by them."""

from __future__ import annotations

import pytest

from stepscope.events import telemetry
from stepscope.events.telemetry import Name, parse_name, ratio_code


def test_the_numbers_of_the_format_stay():
    assert (telemetry.SCHEMA, telemetry.WHOLE, telemetry.UNKNOWN, telemetry.MORE) == (1, 65_534, 65_535, 2)
    assert (telemetry.FACTS, telemetry.ROWS, telemetry.LATE, telemetry.END) == (0, 1, 2, 3)
    assert (telemetry.STAGED, telemetry.TIMED, telemetry.HAS_LOSS) == (4, 5, 0x8000_0000)
    assert (telemetry.HEAD.size, telemetry.ROW.size, telemetry.SHARE.size) == (40, 24, 2)


@pytest.mark.parametrize(
    ("ratio", "code"),
    [
        (1.0, 32768),
        (2.0, 34816),
        (0.5, 30720),
        (2.0**-16, 0),
        (1e-9, 0),
        (1e9, 65_534),
    ],
)
def test_a_ratio_is_its_logarithm(ratio, code):
    assert ratio_code(ratio) == code


def test_a_ratio_is_known_within_a_fiftieth_of_a_percent():
    for ratio in (0.001, 0.37, 1.7, 900.0):
        assert 2 ** (ratio_code(ratio) / 2048 - 16) == pytest.approx(ratio, rel=2e-4)


def test_a_name_says_what_a_listing_needs():
    name = Name("rank", 3, 8, 2, 1, "host.a", 77, 0)
    assert str(name) == "rank-00003-of-00008.attempt-2.restart-1.host.a.77.0.steps"
    assert parse_name(str(name)) == name
    assert name.label == "rank 3"
    assert (
        str(name._replace(host="a tfevents/b")) == "rank-00003-of-00008.attempt-2.restart-1.a___b.77.0.steps"
    )
    assert "attempt-2.restart-1.host.77" in str(name._replace(host=""))


@pytest.mark.parametrize(
    "text", ["rank-3.steps", "other-00003-of-00008.attempt-2.restart-1.a.7.0.steps", "x"]
)
def test_other_names_are_no_ranks(text):
    assert parse_name(text) is None
