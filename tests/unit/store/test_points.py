import numpy as np
import pytest

from stepscope.store.points import SeriesColumns, SeriesFacts, SeriesPoints


def columns(step, value, *, wide_step=False, wide_value=False):
    return SeriesColumns(
        np.array(step, np.int64 if wide_step else np.int32),
        np.array(step, np.float64) + 0.5,
        np.array(value, np.float64 if wide_value else np.float32),
    )


def test_growth_leaves_what_a_reader_holds_alone():
    points = SeriesPoints(columns(range(100), range(100)))
    held = points.columns
    copies = [column.copy() for column in held]
    for step in range(100, 400):
        points.append(columns([step], [step]))
    for column, copy in zip(held, copies, strict=True):
        np.testing.assert_array_equal(column, copy)
    assert points.columns.step.tolist() == list(range(400))
    assert points.columns.value.tolist() == list(range(400))
    assert points.columns.wall.tolist() == [step + 0.5 for step in range(400)]
    assert points.count == 400
    assert points.last == (399, 399.5, 399.0)


def test_growth_copies_now_and_then_only():
    points = SeriesPoints(columns(range(1000), range(1000)))
    addresses = set()
    for step in range(1000, 3000):
        points.append(columns([step], [step]))
        addresses.add(points.columns.step.ctypes.data)
    assert len(addresses) <= 4


@pytest.mark.parametrize("wide", ["wide_step", "wide_value"])
def test_columns_widen_when_a_point_needs_it(wide):
    points = SeriesPoints(columns([1, 2], [0.1, 0.2]))
    points.append(columns([3], [0.3]))
    big = 2**40 if wide == "wide_step" else 4
    points.append(columns([big], [1e300 if wide == "wide_value" else 0.4], **{wide: True}))
    points.append(columns([5], [0.5]))
    assert points.columns.step.tolist() == [1, 2, 3, big, 5]
    assert points.columns.step.dtype == (np.int64 if wide == "wide_step" else np.int32)
    assert points.columns.value.dtype == (np.float64 if wide == "wide_value" else np.float32)
    assert points.columns.value[0] == np.float32(0.1)
    if wide == "wide_value":
        assert points.columns.value[3] == 1e300


@pytest.mark.parametrize("looks", [[], [1], [1, 2, 3], [2]])
def test_facts_hold_however_often_they_are_asked_for(looks):
    parts = [columns([3, 4], [1, np.nan]), columns([4], [np.inf]), columns([9, 2], [0, 0])]
    points = SeriesPoints(parts[0])
    for number, part in enumerate(parts):
        if number:
            points.append(part)
        if number + 1 in looks:
            assert points.facts.size == points.count
    assert points.facts == SeriesFacts(5, 2, 9, False, False, 2)


def test_order_is_seen_across_the_seam():
    points = SeriesPoints(columns([5], [0]))
    assert points.facts.step_sorted
    points.append(columns([5], [0]))
    assert points.facts.step_sorted
    points.append(columns([4], [0]))
    assert not points.facts.step_sorted


def test_a_wall_time_that_is_no_number_is_in_no_order():
    points = SeriesPoints(
        SeriesColumns(np.array([1], np.int32), np.array([np.nan]), np.array([1.0], np.float32))
    )
    assert not points.facts.wall_sorted
