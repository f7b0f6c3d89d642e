"""The pass over the points of a series: compiled, as plain Python, and as a naive version of it."""

import math

import numpy as np
import pytest

from stepscope.kernels import facts as compiled

NAMES = (
    "count", "finite", "first", "last", "least", "most", "first_step", "last_step", "first_wall", "last_wall",
    "broken", "whole", "constant_since", "counters", "gap_s", "width",
)  # fmt: skip


def points(count, seed=0):
    """Points with all that a pass looks at: gaps, steps that start over, and values that are not finite."""
    rng = np.random.default_rng(seed)
    values = np.repeat(rng.normal(size=count), rng.integers(1, 4, size=count))[:count]
    values[rng.random(count) < 0.01] = np.nan
    values[rng.random(count) < 0.002] = np.inf
    values[count // 2] = -1.7e308
    steps = np.arange(count) - (count // 3) * (np.arange(count) > count // 2)
    walls = 1e9 + np.cumsum(rng.exponential(size=count)) - 5 * (np.arange(count) == count // 4)
    walls[count // 5] = np.nan
    return steps, values, walls


def passed(kernel, columns, portion):
    found = kernel.FactPass()
    for first in range(0, len(columns[0]), portion):
        found.take(*(np.ascontiguousarray(column[first : first + portion]) for column in columns))
    return {name: getattr(found, name) for name in NAMES} | {"kept": [bytes(kept) for kept in found.kept()]}


@pytest.mark.parametrize("portion", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("count", [1, 5, 63, 64, 65, 1023, 1024, 1025, 5000])
def test_what_is_held_does_not_depend_on_portions_or_on_the_compiler(kernel, count, portion):
    columns = points(count)
    whole = passed(compiled, columns, 1 << 20)
    assert str(passed(kernel, columns, portion)) == str(whole)


def test_exact_facts_and_means_are_those_of_numpy(kernel):
    steps, values, walls = points(5000)
    found = kernel.FactPass()
    found.take(steps, values, walls)
    good = np.isfinite(values)
    times = np.maximum.accumulate(walls[np.isfinite(walls)])
    assert (found.count, found.finite) == (5000, good.sum())
    assert (found.first, found.last) == (values[good][0], values[good][-1])
    assert found.least == (values[good].min(), steps[good][values[good].argmin()])
    assert found.most == (values[good].max(), steps[good][values[good].argmax()])
    assert found.broken == (steps[~good][0], walls[~good][0])
    assert found.gap_s == np.diff(times).max()
    assert found.counters == [(2500, steps[2501], walls[2501])]
    assert found.constant_since == steps[good][np.flatnonzero(np.diff(values[good]) != 0)[-1] + 1]
    kept_steps, kept_walls, means = found.kept()
    width, clipped = found.width, np.clip(values[good], -1e100, 1e100)
    assert width == 8
    assert kept_steps.tolist() == steps[good][::width][: len(kept_steps)].tolist()
    np.testing.assert_array_equal(kept_walls, walls[good][::width][: len(kept_walls)])
    blocks = clipped[: len(means) * width].reshape(-1, width).mean(axis=1)
    np.testing.assert_allclose(means, blocks, rtol=1e-12, atol=1e-12)


def test_no_points_are_no_facts(kernel):
    found = kernel.FactPass()
    found.take(np.empty(0, np.int64), np.empty(0), np.empty(0))
    assert (found.count, found.broken, found.whole, found.counters) == (0, None, None, [])
    assert math.isnan(found.first)
