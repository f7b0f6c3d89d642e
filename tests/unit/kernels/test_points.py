import gc
import math
import threading
import time

import pytest

from stepscope.kernels import points as compiled


@pytest.fixture
def points(kernel):
    """Columns that take tags "a" and "b" and are not sampled, at a time that stands still."""
    points = kernel.Points(lambda: 7.0, 10**9)
    points.mark = 1_000_000
    assert [points.admit("a"), points.admit("b")] == [0, 1]
    return points


def rows(points):
    count, *columns = points.take()
    return list(zip(*(column[:count].tolist() for column in columns), strict=True))


def test_points_come_out_as_they_went_in(points):
    assert points.put("a", 0.5, 3)
    assert points.put("b", 2, -4, 9.25)
    assert points.put("a", True, 1) is False
    assert points.put("a", math.inf, 2**63 - 1)
    points.add(1, 0.125, -(2**63), 1.5)
    assert points.count == 4
    assert rows(points) == [
        (0, 0.5, 3, 7.0), (1, 2.0, -4, 9.25), (0, math.inf, 2**63 - 1, 7.0), (1, 0.125, -(2**63), 1.5)
    ]  # fmt: skip
    assert rows(points) == []


class Text(str):
    pass


@pytest.mark.parametrize(
    "arguments",
    [
        ("c", 1.0, 0), (3, 1.0, 0), ([], 1.0, 0), (None, 1.0, 0), (Text("a"), 1.0, 0), ("a", "x", 0),
        ("a", None, 0), ("a", [1.0], 0), ("a", 10**400, 0), ("a", 1j, 0), ("a", 1.0, 1.5), ("a", 1.0, "1"),
        ("a", 1.0, 2**63), ("a", 1.0, -(2**63) - 1), ("a", 1.0, True), ("a", 1.0, None),
    ],
    ids=repr,
)  # fmt: skip
def test_anything_unusual_is_refused_and_changes_nothing(points, arguments):
    assert points.put(*arguments) is False
    assert points.count == 0
    assert points.spent == 0


def test_numpy_doubles_are_floats(points):
    import numpy as np

    assert points.put("a", np.float64(0.5), 1)
    assert not points.put("a", np.float32(0.5), 1)


def test_the_current_step_serves_points_without_one(points):
    points.step, points.stepping = 12, True
    assert points.put("a", 1.0)
    assert points.put("a", 1.0, None, 3.0)
    assert rows(points) == [(0, 1.0, 12, 7.0), (0, 1.0, 12, 3.0)]


def test_a_tag_keeps_its_number(points):
    points.known.clear()
    assert not points.put("a", 1.0, 0)
    assert points.admit("a") == 0
    assert points.put("a", 1.0, 0)
    assert points.names == ["a", "b"]
    assert points.numbers == {"a": 0, "b": 1}


def test_put_stops_at_the_mark_and_add_does_not(points):
    points.mark = 3
    assert [points.put("a", 1.0, step) for step in range(5)] == [True] * 3 + [False] * 2
    points.add(1, 1.0, 3, 0.0)
    assert points.count == 4


def test_columns_grow(points):
    for step in range(5_000):
        assert points.put("a", float(step), step)
    assert [row[1:3] for row in rows(points)] == [(float(step), step) for step in range(5_000)]


def test_one_call_in_so_many_is_timed_and_stands_for_all(kernel):
    clock = iter(range(1000))
    points = kernel.Points(lambda: 7.0, 4, lambda: float(next(clock)))
    points.admit("a")
    for step in range(11):
        assert points.put("a", 1.0, step)
    assert (points.spent, points.usual) == (2 * 4 * 1.0, 1.0)
    assert not points.put("c", 1.0, 11)  # what is not taken is not counted
    assert points.put("a", 1.0, 11)
    assert points.spent == 3 * 4 * 1.0


def test_a_timed_call_that_was_interrupted_counts_for_itself_only(kernel):
    took = [1.0, 1.0, 1000.0, 1.0]
    clock = iter([at for number, one in enumerate(took) for at in (1e4 * number, 1e4 * number + one)])
    points = kernel.Points(lambda: 7.0, 2, lambda: next(clock))
    points.admit("a")
    for step in range(8):
        points.put("a", 1.0, step)
    assert points.spent == pytest.approx(3 * 2 * 1.0 + 1000.0 + 30.0)
    assert 1 < points.usual < 3


def test_values_of_other_types_are_read_as_told(points):
    from fractions import Fraction

    points.readers[Fraction] = float
    assert points.put("a", Fraction(1, 4), 3)
    points.readers[Fraction] = lambda value: None
    assert not points.put("a", Fraction(1, 4), 3)
    points.readers[Fraction] = lambda value: 1 / 0
    assert not points.put("a", Fraction(1, 4), 3)
    assert rows(points) == [(0, 0.25, 3, 7.0)]


def test_two_of_one_moment_or_one(points):
    assert points.pair(0, 1.5, 1, 0.25, 7)
    assert points.pair(1, 2.5, 0, -1.0, 8)
    points.mark = 4
    assert not points.pair(0, 1.5, 1, 0.25, 9)
    assert rows(points) == [(0, 1.5, 7, 7.0), (1, 0.25, 7, 7.0), (1, 2.5, 8, 7.0)]


def test_nothing_is_put_while_the_caller_has_to_ask(points):
    points.gated = True
    assert not points.put("a", 1.0, 2)
    points.gated = False
    assert points.put("a", 1.0, 3)
    assert [row[2] for row in rows(points)] == [3]


def test_without_a_clock_it_is_the_systems():
    points = compiled.Points()
    points.admit("a")
    before = time.time()
    assert points.put("a", 1.0, 0)
    assert before - 1e-3 <= points.take()[4][0] <= time.time() + 1e-3


def test_threads_lose_nothing(points):
    def put(number):
        for step in range(20_000):
            assert points.put("ab"[number % 2], float(number), step)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    found = []
    while any(thread.is_alive() for thread in threads):
        found += rows(points)
    for thread in threads:
        thread.join()
    found += rows(points)
    for number in range(4):
        assert [row[2] for row in found if row[1] == number] == list(range(20_000))


def test_nothing_is_lost_where_the_collector_lets_other_threads_go_on(points):
    """Any allocation may run the garbage collector, and what that calls may let go of the interpreter."""
    over, sent = threading.Event(), []
    points.mark = 1 << 40
    number = points.admit("a")

    def log():
        value = 0
        while not over.is_set():
            value += 1
            points.add(number, float(value), value, 1.0)
        sent.append(value)

    def pause(phase, info):
        time.sleep(0)

    thread, threshold, found = threading.Thread(target=log), gc.get_threshold(), []
    gc.callbacks.append(pause)
    gc.set_threshold(1)
    thread.start()
    try:
        for _ in range(100):
            count, _, values, _, _ = points.take()
            found += values[:count].tolist()
    finally:
        gc.callbacks.remove(pause)
        gc.set_threshold(*threshold)
        over.set()
        thread.join()
    count, _, values, _, _ = points.take()
    found += values[:count].tolist()
    assert found == [float(value) for value in range(1, sent[0] + 1)]
