"""Whatever is logged comes back, value for value, through the reader of event files."""

import math
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.records import decoded_files

import stepscope as ss
from stepscope.record.config import scrub_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
STEP = st.integers(-(2**63), 2**63 - 1)
NUMBER = st.floats(width=64) | st.integers(-(10**30), 10**30) | st.booleans()
TAG = TEXT.filter(
    lambda tag: not tag.startswith("stepscope/")
)  # what the run says of itself is left out by read()
POINTS = st.lists(st.tuples(TAG, NUMBER, STEP), max_size=40)


def read(directory: Path):
    """Tag, value, step of every scalar that the user logged, in the order of the file."""
    found = []
    for event in decoded_files(directory):
        for value in event.values:
            if value.simple_value is not None and not value.tag.startswith("stepscope/"):
                found.append((value.tag, value.simple_value, event.step))
            elif value.tensor is not None and value.tensor.double_val:
                found.append((value.tag, value.tensor.double_val[0], event.step))
    return found


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def stored(number: float) -> float:
    """The number as its file holds it: a float32, or a float64 if it is beyond that or would lose digits."""
    number = float(number)
    try:
        narrow = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return number
    return number if abs(number) < 2.0**-126 else narrow


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")


@pytest.mark.slow
@given(POINTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_points_come_back(points):
    with tempfile.TemporaryDirectory() as directory:
        with ss.Run(directory, handle_sigterm=False) as run:
            for tag, number, step in points:
                run.scalar(tag, number, step)
        found = read(Path(directory))
    assert len(found) == len(points)
    for tag in {tag for tag, _, _ in points}:
        expected = [(stored(number), step) for name, number, step in points if name == tag]
        actual = [(value, step) for name, value, step in found if name == tag]
        assert [step for _, step in actual] == [step for _, step in expected]
        assert all(same(a, b) for (a, _), (b, _) in zip(actual, expected, strict=True))


@given(st.text(max_size=200))
def test_scrubbing_once_is_enough(text):
    assert scrub_text(scrub_text(text)) == scrub_text(text)
