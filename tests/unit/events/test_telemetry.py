"""The numbers and names of ranks' files, which do not change."""

import pytest

from stepscope.events import telemetry
from stepscope.events.messages import decode_event
from stepscope.events.telemetry import Name, TelemetryRow, parse_name, ratio_code
from stepscope.events.tensors import array


def test_the_numbers_of_the_format_stay():
    assert (telemetry.WHOLE, telemetry.UNKNOWN, telemetry.MORE) == (65_534, 65_535, 2)
    assert telemetry.TAGS == ("rows", "timed", "late", "facts", "end", "names", "values")
    assert (telemetry.HEAD.size, telemetry.ROW.size, telemetry.HAS_LOSS) == (10, 20, 0x8000)


def test_an_event_of_rows_is_one_that_every_reader_of_event_files_decodes():
    rows = [(7, TelemetryRow(1e9, 0.5, 0.1, 2.0, has_loss=True)), (8, TelemetryRow(1e9 + 1, 0.25))]
    event = decode_event(telemetry.encoded(telemetry.ROWS, rows, (3e9, 6e9)))
    [value] = event.values
    assert (event.wall_time, event.step, value.tag) == (1e9, 7, "rows")
    text = array(value.tensor).item()
    assert telemetry.HEAD.unpack_from(text)[0] == 0
    assert telemetry.ROW.unpack_from(text, 10)[:3] == (0, telemetry.HAS_LOSS, 0.0)
    assert telemetry.ROW.unpack_from(text, 30)[:4] == (1, 0, 1.0, 0.25)


def test_more_values_than_are_counted_are_as_many_as_can_be():
    event = decode_event(telemetry.encoded(telemetry.ROWS, [(0, TelemetryRow(0.0, nonfinite=10**9))], (0, 0)))
    assert telemetry.ROW.unpack_from(event.values[0].tensor.string_val[0], 10)[1] == 0x7FFF


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


@pytest.mark.parametrize(("far", "bounds"), [((1 << 15) - 1, [(0, 2)]), (1 << 15, [(0, 1), (1, 2)])])
def test_steps_of_one_event_are_so_near_that_their_distance_is_a_short_number(far, bounds):
    row = TelemetryRow(0.0)
    rows = [(0, row), (far, row)]
    assert list(telemetry.stretches(rows)) == bounds
    for begin, end in bounds:
        telemetry.encoded(telemetry.ROWS, rows[begin:end], (0.0, 0.0))
