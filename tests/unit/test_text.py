import json
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope import text


@pytest.mark.parametrize(
    ("format_", "value", "written"),
    [
        (text.time, 0, "0 ns"),
        (text.time, 999, "999 ns"),
        (text.time, 1500, "1.50 µs"),
        (text.time, 999_600, "1.00 ms"),
        (text.time, 59.9e9, "59.9 s"),
        (text.time, 180e9, "3 min"),
        (text.time, float("nan"), "-"),
        (text.size, 12, "12 B"),
        (text.time, -182.9e9, "-3 min 3 s"),
        (text.time, 3 * 3600e9, "3 h"),
        (text.time, 60 * 3600e9, "2 d 12 h"),
        (text.time, 59.96e9, "1 min"),
        (text.time, 89.9e9, "1 min 30 s"),
        (text.time, 3599.9e9, "1 h"),
        (text.time, 86399e9, "1 d"),
        (text.duration, 95, "1 min 35 s"),
        (text.duration, 0.00003, "30.0 µs"),
        (text.duration, None, "-"),
        (text.size, 1024, "1.00 KiB"),
        (text.size, 1000, "1000 B"),
        (text.size, 53_700_000, "51.2 MiB"),
        (text.size, 120_356_380_000, "112 GiB"),
        (text.size, 3e15, "2.66 PiB"),
        (text.size, None, "-"),
        (text.share, None, "-"),
        (text.quantity, 53, "53"),
        (text.quantity, 1440, "1.44k"),
        (text.flop_rate, 15.7e12, "15.7 TFLOP/s"),
        (text.share, 0.339, "33.9 %"),
    ],
)
def test_three_digits_and_a_unit(format_, value, written) -> None:
    assert format_(value) == written


def test_a_name_carries_its_unit() -> None:
    assert text.readable("host_wait_ns", 1500) == "host wait 1.50 µs"
    assert text.readable("held_ratio", None) == "held not recorded"
    assert text.readable("steps", 6) == "steps 6"


def test_what_is_not_all_is_never_said_to_be():
    assert [text.most(ratio) for ratio in (0.0, 0.76, 0.9949, 0.9984, 1.0)] == [
        "0%", "76%", "99%", "over 99%", "100%"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "written"),
    [(10.0, "10 times"), (1.0, "1 time"), (0.9, "0.9 times"), (2.5, "2.5 times"), (1234.0, "1,234 times")],
)
def test_how_often(count: float, written: str) -> None:
    assert text.often(count) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (0.5, "0.5"),
        (2.33812, "2.34"),
        (-1.5, "-1.5"),
        (64.0, "64"),
        (999.49, "999"),
        (999.5, "1,000"),
        (12_350.4, "12,350"),
        (999_999.0, "999,999"),
        (999_999.6, "1 M"),
        (-1_234_567.0, "-1.23 M"),
        (11_150_373.0, "11.2 M"),
        (999_999_999.0, "1 B"),
        (87_505_916e6, "87.5 T"),
        (1e15, "1\u00d710¹⁵"),
        (7.371e27, "7.37\u00d710²⁷"),
        (1e9, "1 B"),
        (0.0001, "0.0001"),
        (float.fromhex("0x1.a36e2ep-14"), "0.0001"),  # the same in single precision
        (1.554e-9, "1.55\u00d710⁻⁹"),
        (-2e-5, "-2\u00d710⁻⁵"),
        (5e-324, "4.94\u00d710⁻³²⁴"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
    ],
)
def test_a_number_is_written_as_a_person_would(value, written):
    assert text.number(value) == written


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        (0.398, 2.3, "0.398 2.3"),
        (0.99224, 0.99219, "0.99224 0.99219"),
        (-0.99224, -0.99219, "-0.99224 -0.99219"),
        (5_814.0, 5_816.3, "5,814.0 5,816.3"),
        (999.94, 1_000.3, "999.94 1,000.30"),
        (12_345_678.0, 12_345_679.0, "12.345678 M 12.345679 M"),
        (1e-9, 1.0001e-9, "1\u00d710⁻⁹ 1.0001\u00d710⁻⁹"),
        (1e12, 1e12 + 5, "1 T 1.000000000005 T"),
        (1e308, -1e308, "1\u00d710³⁰⁸ -1\u00d710³⁰⁸"),
        (0.5, 0.5, "0.5 0.5"),
        (math.nan, 1.0, "NaN 1"),
        (0.0, math.inf, "0 ∞"),
    ],
)
def test_two_levels_have_the_digits_that_tell_them_apart(before, after, written):
    assert " ".join(text.levels(before, after)) == written


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_two_levels_never_read_alike_unless_they_are(before, after):
    assert (text.levels(before, after)[0] == text.levels(before, after)[1]) == (before == after)


FAMILY = "👨‍👩‍👧"
HEART, DARK, RIGHT = "❤️‍🔥", "👩🏾‍🚀", "🏃‍➡️"


@pytest.mark.parametrize(
    "name",
    [
        "loss", "größe", "学習率", "train loss µs → ∞", "a\u00a0b\u3000c", "e\u0301", FAMILY,
        HEART, DARK, RIGHT,
        "می‌خواهم", "क्‍ष", "\ue0a0 icon of a font", "\ufffd",
    ],
)  # fmt: skip
def test_a_name_that_shows_itself_is_kept(name: str) -> None:
    assert text.terminal_line(name) == text.terminal_text(name) == text.terminal_json(name) == name
    assert text.plain_line(name) == name


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("lo\u200bss", "lo\\u200bss"),
        ("lo\u200dss", "lo\\u200dss"),
        ("lö\u200dß\u200c", "lö\\u200dß\\u200c"),
        ("\u200d👩", "\\u200d👩"),
        ("👩\u200d", "👩\\u200d"),
        ("👩\u200c👩", "👩\\u200c👩"),
        ("\u202eabc\u2066\u200f", "\\u202eabc\\u2066\\u200f"),
        ("\ufeffa\u00ad", "\\ufeffa\\xad"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\x1b[2J\x07\x9b\x00\x7f", "\\x1b[2J\\x07\\x9b\\x00\\x7f"),
        ("\U000e0041\u0378\uffff", "\\U000e0041\\u0378\\uffff"),
        ("\ud800", "\\ud800"),
    ],
)
def test_what_is_hidden_is_escaped(name: str, written: str) -> None:
    assert text.terminal_line(name) == text.terminal_text(name) == written
    escaped = text.terminal_json(json.dumps(name, ensure_ascii=False))
    assert json.loads(escaped) == name
    assert not {letter for letter in escaped if unicodedata.category(letter)[0] in ("C", "Zl", "Zp")}


def test_lines_and_bytes_of_names_are_kept_in_texts() -> None:
    assert text.terminal_text("a\tb\nc\r\udcff") == "a\tb\nc\\r\udcff"
    assert text.terminal_line("a\tb\nc\udcff") == "a\\tb\\nc\\udcff"
    assert text.terminal_json('{\n\t"a\udcff": 1\n}') == '{\n\t"a\\udcff": 1\n}'
