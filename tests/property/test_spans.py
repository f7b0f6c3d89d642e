"""Interval algebra against sets of nanoseconds."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.modules import uncompiled

from stepscope.attribute.spans import Spans
from stepscope.kernels import tree

pairs = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def spans(drawn):
    start = np.array([s for s, _ in drawn], np.int64)
    return Spans.of(start, start + np.array([d for _, d in drawn], np.int64))


def instants(drawn):
    return {t for s, d in drawn for t in range(s, s + d)}


def covered(found):
    times = [t for s, e in zip(found.start, found.end, strict=True) for t in range(int(s), int(e))]
    assert len(times) == len(set(times))
    assert all(e > s for s, e in zip(found.start, found.end, strict=True))
    assert all(found.start[1:] > found.end[:-1]), "neighbours must not touch"
    return set(times)


@given(pairs, pairs)
def test_sets(a, b):
    one, two = spans(a), spans(b)
    assert covered(one) == instants(a)
    assert one.measure_ns == len(instants(a))
    assert covered(one.union(two)) == instants(a) | instants(b)
    assert covered(one.minus(two)) == instants(a) - instants(b)
    assert covered(one.intersect(two)) == instants(a) & instants(b)
    assert covered(one.gaps(5, 30)) == set(range(5, 30)) - instants(a)
    assert covered(one.clip(5, 30)) == set(range(5, 30)) & instants(a)


@given(pairs, pairs)
def test_within_windows(a, windows):
    start = np.array([s for s, _ in windows], np.int64)
    end = start + np.array([d for _, d in windows], np.int64)
    expected = [len(instants(a) & set(range(s, s + d))) for s, d in windows]
    assert spans(a).within(start, end).tolist() == expected
    assert spans(a).holds(start).tolist() == (spans(a).within(start, start + 1) > 0).tolist()


forests = st.integers(0, 25).flatmap(
    lambda n: st.tuples(*[st.integers(-1, i - 1) for i in range(n)]).map(lambda p: np.array(p, np.int32))
)


def ancestors(parent, row):
    above = []
    while parent[row] >= 0:
        row = parent[row]
        above.append(int(row))
    return above


@given(forests, st.data())
def test_walks_over_a_forest(parent, data):
    n = len(parent)
    value = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n)), np.int32)

    total = value.astype(np.int64)
    tree.accumulate(parent, total)
    assert total.tolist() == [
        value[i] + sum(value[j] for j in range(n) if i in ancestors(parent, j)) for i in range(n)
    ]

    inherited = value.copy()
    tree.inherit(parent, inherited)
    nearest = np.zeros(n, np.int32)
    tree.nearest(parent, (value == 2).astype(np.uint8), nearest)
    outer = np.zeros(n, np.uint8)
    tree.outermost(parent, value, outer)
    for i in range(n):
        line = [i, *ancestors(parent, i)]
        assert inherited[i] == next((value[j] for j in line if value[j] >= 0), -1)
        assert nearest[i] == next((j for j in line if value[j] == 2), -1)
        assert outer[i] == (value[i] >= 0 and all(value[j] != value[i] for j in line[1:]))


@given(forests, st.integers(-1, 30))
def test_walk_and_depths(parent, until):
    n = len(parent)
    depth = np.zeros(n, np.int32)
    tree.depths(parent, depth)
    assert depth.tolist() == [len(ancestors(parent, i)) for i in range(n)]
    time = np.arange(n, dtype=np.int64)
    for start in range(n):
        path = np.zeros(n, np.int32)
        count = tree.walk(parent, time, start, until, path)
        line = [start, *ancestors(parent, start)]
        stop = next((k + 1 for k, i in enumerate(line) if i <= until), len(line))
        assert path[:count].tolist() == line[:stop]


@pytest.mark.parametrize("name", ["intervals", "tree"])
def test_runs_uncompiled(name):
    module = uncompiled(sys.modules[f"stepscope.kernels.{name}"])
    if name == "intervals":
        out = np.zeros(3, np.int64), np.zeros(3, np.int64)
        assert module.merge(np.array([0, 2, 9]), np.array([3, 4, 9]), *out) == 1
        assert (out[0][0], out[1][0]) == (0, 4)
    else:
        total = np.array([1, 2, 3])
        module.accumulate(np.array([-1, 0, 1], np.int32), total)
        assert total.tolist() == [6, 5, 3]
