"""Queries against an implementation that looks at every point in plain Python."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from stepscope.store import pyramid, query
from stepscope.store.grid import real_grid, whole_grid
from stepscope.store.points import SeriesColumns, SeriesPoints
from stepscope.store.series import Series

START = 1.7e9
STEPS = st.one_of(st.integers(-5, 40), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
WALLS = st.one_of(
    st.integers(0, 50).map(lambda s: START + s / 4),
    st.floats(START, START + 1e6),
    st.just(math.nan),
    st.just(math.inf),
)
VALUES = st.one_of(
    st.floats(-10, 10, width=32), st.sampled_from([math.nan, math.inf, -math.inf]), st.just(1.5)
)


@st.composite
def series(draw, *, max_size=60):
    """A line of 1 … max_size points: often in order, sometimes not, in either width."""
    size = draw(st.integers(1, max_size))
    step = draw(st.lists(STEPS, min_size=size, max_size=size))
    wall = draw(st.lists(WALLS, min_size=size, max_size=size))
    value = draw(st.lists(VALUES, min_size=size, max_size=size))
    if draw(st.booleans()):
        step = sorted(step)
        wall = sorted(each for each in wall if each == each) + [each for each in wall if each != each]
    narrow = min(step) >= -(2**31) and max(step) < 2**31
    columns = SeriesColumns(
        np.array(step, np.int32 if narrow else np.int64),
        np.array(wall, np.float64),
        np.array(value, draw(st.sampled_from([np.float32, np.float64]))),
    )
    cut = draw(st.integers(1, size))
    points = SeriesPoints(SeriesColumns._make(column[:cut] for column in columns))
    if draw(st.booleans()):
        assert points.facts.size == cut  # facts of the beginning are carried on
    if cut < size:
        points.append(SeriesColumns._make(column[cut:] for column in columns))
    superseded = draw(st.one_of(st.none(), st.sampled_from(step)))
    return Series("run", "tag", "writer", 1, None, superseded, START, points)


@st.composite
def question(draw):
    x = draw(st.sampled_from(["step", "wall", "relative"]))
    lines = draw(st.lists(series(), min_size=1, max_size=3))
    ends = [each for line in lines for each in xs(line, x) if math.isfinite(each)]
    end = st.one_of(
        st.none(), st.sampled_from(ends or [0]), st.floats(-50, 50).map(lambda d: d + (ends or [0])[0])
    )
    return lines, x, draw(end), draw(end), draw(st.integers(1, 30)), draw(st.sampled_from([0.0, 0.6, 0.999]))


def xs(line, kind):
    """The x of every point, exact: whole numbers for steps."""
    if kind == "step":
        return line.step.tolist()
    return [wall - line.start_wall if kind == "relative" else wall for wall in line.wall.tolist()]


def smoothed(line, weight):
    """TensorBoard's smoothing with the weight of each distance in steps, every term summed anew."""
    values, step = line.value.tolist(), line.step.tolist()
    apart = np.diff(np.array(step, float))
    mean = 0.0 if (apart < 0).any() else float(f"{(step[-1] - step[0]) / max(1, len(step) - 1):.2g}")
    decays = [weight ** (each / mean if mean else 1) for each in apart]
    if all(value == values[0] for value in values):
        return list(values)
    terms, out = [], []
    for value, decay in zip(values, [1.0, *decays], strict=True):
        if math.isfinite(value):
            terms = [(one, part * decay) for one, part in terms] + [(value, 1.0)]
            value = sum(one * part for one, part in terms) / sum(part for _, part in terms)
        out.append(value)
    return out


def place(grid, x):
    """The bucket of an x, None outside."""
    inside = [number for number, start in enumerate(grid.starts.tolist()) if start <= x]
    return inside[-1] if inside and x <= grid.top else None


@pytest.mark.slow
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(question())
def test_equals_looking_at_every_point(asked):
    lines, kind, x0, x1, buckets, weight = asked
    view = query.buckets(lines, x=kind, x0=x0, x1=x1, buckets=buckets, smoothing=weight)
    finite = [each for line in lines for each in xs(line, kind) if math.isfinite(each)]
    if not finite:
        assert view.mode == "raw"
        assert view.total_points == 0
        return
    begin, end = sorted([min(finite) if x0 is None else x0, max(finite) if x1 is None else x1])
    assert (view.x0, view.x1) == (float(begin), float(end))
    inside = [[each for each in xs(line, kind) if begin <= each <= end] for line in lines]
    different = len({each for line in inside for each in line})
    fits = max(map(len, inside)) <= buckets and different <= 4 * buckets
    assert view.mode == ("raw" if fits else "buckets")
    assert view.total_points == sum(line.points for line in view.lines)
    for line, drawn in zip(lines, view.lines, strict=True):
        assert drawn.superseded_from == superseded(line, kind)
        if fits:
            check_raw(line, drawn, kind, begin, end, weight)
        else:
            grid = (whole_grid if kind == "step" else real_grid)(begin, end, buckets)
            assert view.x.tolist() == grid.middles.tolist()
            check_buckets(line, drawn, kind, grid, weight)


def superseded(line, kind):
    if line.superseded_from is None:
        return None
    if kind == "step":
        return float(line.superseded_from)
    over = [
        x for x, step in zip(xs(line, kind), line.step.tolist(), strict=True) if step >= line.superseded_from
    ]
    over = [x for x in over if math.isfinite(x)]
    return min(over, default=None)


def check_raw(line, drawn, kind, begin, end, weight):
    smooth = smoothed(line, weight)
    rows = list(zip(xs(line, kind), line.value.tolist(), smooth, strict=True))
    rows = sorted((row for row in rows if math.isfinite(row[0])), key=lambda row: row[0])
    inside = [row for row in rows if begin <= row[0] <= end]
    before, after = [row for row in rows if row[0] < begin][-1:], [row for row in rows if row[0] > end][:1]
    shown = before + inside + after
    assert drawn.points == len(inside)
    assert drawn.nonfinite == sum(not math.isfinite(row[1]) for row in inside)
    assert drawn.columns["x"].tolist() == [float(row[0]) for row in shown]
    np.testing.assert_array_equal(drawn.columns["value"], [row[1] for row in shown])
    if weight:
        np.testing.assert_allclose(drawn.columns["smoothed"], [row[2] for row in shown], rtol=2e-6, atol=1e-6)


def check_buckets(line, drawn, kind, grid, weight):
    held = [[] for _ in range(len(grid.starts))]
    smooth = smoothed(line, weight)
    for x, value, average in zip(xs(line, kind), line.value.tolist(), smooth, strict=True):
        if x == x and (number := place(grid, x)) is not None:
            held[number].append((value, average))
    finite = [[row for row in rows if math.isfinite(row[0])] for rows in held]

    def each(function):
        return [function(rows) if rows else math.nan for rows in finite]

    columns = drawn.columns
    assert columns["count"].tolist() == [len(rows) for rows in held]
    assert columns["nonfinite"].tolist() == [len(a) - len(b) for a, b in zip(held, finite, strict=True)]
    np.testing.assert_array_equal(columns["first"], each(lambda rows: rows[0][0]))
    np.testing.assert_array_equal(columns["last"], each(lambda rows: rows[-1][0]))
    np.testing.assert_array_equal(columns["min"], each(lambda rows: min(row[0] for row in rows)))
    np.testing.assert_array_equal(columns["max"], each(lambda rows: max(row[0] for row in rows)))
    assert drawn.points == sum(map(len, held))
    assert drawn.nonfinite == int(columns["nonfinite"].sum())
    if weight:
        np.testing.assert_allclose(columns["smoothed"], each(lambda rows: rows[-1][1]), rtol=2e-6, atol=1e-6)


@settings(max_examples=300, deadline=None)
@given(STEPS, STEPS, st.integers(1, 2000))
def test_whole_grid_covers_its_range_with_equal_buckets(a, b, buckets):
    begin, end = sorted([a, b])
    grid = whole_grid(begin, end, buckets)
    starts = grid.starts.tolist()
    assert 1 <= len(starts) <= buckets
    assert starts[0] <= begin
    assert grid.top >= end
    widths = np.diff([int(start) for start in starts], n=1)
    assert len(set(widths.tolist()) - {0}) <= 2  # the first may be cut at the smallest whole number
    if end - begin >= 4 * buckets and buckets > 5 and begin > -(2**62) and end < 2**62:
        assert len(starts) >= buckets * 3 // 4 - 1


@settings(max_examples=300, deadline=None)
@given(st.floats(-1e12, 1e12), st.floats(0, 1e9), st.integers(1, 2000))
@example(-5e-324, 2.0, 2)
def test_real_grid_covers_its_range_with_equal_buckets(begin, span, buckets):
    grid = real_grid(begin, begin + span, buckets)
    assert 1 <= len(grid.starts) <= buckets
    assert grid.starts[0] <= begin
    assert grid.top >= begin + span
    assert len(set(np.diff(grid.starts).tolist())) <= 1
    if span > 1 and buckets > 5:
        assert len(grid.starts) >= buckets * 3 // 4 - 1


@pytest.fixture(scope="module")
def long_values():
    """Five levels of pyramid, with holes of non-finite values that fill whole blocks."""
    random = np.random.default_rng(1)
    value = random.normal(size=300_007).astype(np.float32)
    value[random.random(len(value)) < 0.01] = np.nan
    value[70_000:75_000] = np.inf
    value[200_000:270_000] = np.nan
    return value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_pyramid_equals_reading_every_value(long_values, data):
    value = long_values
    ends = data.draw(st.lists(st.integers(0, len(value)), min_size=2, max_size=12).map(sorted))
    levels = pyramid.extended(pyramid.extended((), value[: data.draw(st.integers(0, len(value)))]), value)
    lo, hi = np.array(ends[:-1], np.int64), np.array(ends[1:], np.int64)
    low, high = np.full(len(lo), np.inf, np.float32), np.full(len(lo), -np.inf, np.float32)
    nonfinite = np.zeros(len(lo), np.uint32)
    pyramid.reduce(levels, value, lo, hi, low, high, nonfinite)
    for number, (begin, end) in enumerate(zip(lo, hi, strict=True)):
        part = value[begin:end]
        good = part[np.isfinite(part)]
        assert nonfinite[number] == len(part) - len(good)
        assert low[number] == (good.min() if len(good) else np.inf)
        assert high[number] == (good.max() if len(good) else -np.inf)
