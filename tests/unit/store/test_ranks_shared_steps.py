"""Workers that count their steps together, as with parameter servers: each one's own steps are compared."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from stepscope.analyze.ranks.account import accounts_of, notes_of
from stepscope.integrations.stepper import Stepper
from stepscope.record import Run
from stepscope.record.clock import Clock
from stepscope.store.ranks import Ranks, count_together

TOGETHER = "the ranks count their steps together"


def job(directory, seconds, steps, *, shared):
    """Record a worker for each duration of a step, which vary by 5 % either way."""
    now = [100.0] * len(seconds)
    random = np.random.default_rng(0)
    clocks = [
        Clock(wall=lambda at=at: 1.7e9 + now[at], steady=lambda at=at: now[at], cpu=lambda: 0.0, pause=print)
        for at in range(len(seconds))
    ]
    runs = [Run(directory, rank=at, world_size=len(seconds), _clock=clock) for at, clock in enumerate(clocks)]
    steppers = [Stepper(run) for run in runs]
    queue = [(now[at] + each, at) for at, each in enumerate(seconds)]
    heapq.heapify(queue)
    count = [0] * len(seconds)
    for stepper in steppers:
        stepper.begin(0)
    for step in range(steps):
        end, at = heapq.heappop(queue)
        now[at], number = end, step if shared else count[at]
        count[at] += 1
        steppers[at].renumber(number)
        steppers[at].end()
        steppers[at].begin(number + 1)
        heapq.heappush(queue, (end + seconds[at] * random.uniform(0.95, 1.05), at))
    for stepper, run in zip(steppers, runs, strict=True):
        stepper.abandon()
        run.close()


def told(directory):
    table = Ranks(str(directory)).stages()
    return table, notes_of(accounts_of(table), table)


def test_a_worker_is_compared_by_its_own_steps(tmp_path):
    job(tmp_path, [0.054, 0.056, 0.055, 0.126], 1200, shared=True)
    table, notes = told(tmp_path)
    assert table.own_steps
    took = np.nanmedian(table.durations_s.sum(2), axis=0)
    np.testing.assert_allclose(took, [0.054, 0.056, 0.055, 0.126], rtol=0.02)
    assert any(note.startswith(TOGETHER) for note in notes)
    (slow,) = [note for note in notes if "slower than the others by itself" in note]
    assert slow.startswith("rank 3 is slower than the others by itself: 126 ms a step, where they take 5")
    assert not any("left out" in note for note in notes)


def test_no_worker_is_called_slow_where_all_take_the_same(tmp_path):
    job(tmp_path, [0.055] * 4, 800, shared=True)
    table, notes = told(tmp_path)
    assert table.own_steps
    assert not any("slower than the others" in note for note in notes)


def test_ranks_that_count_for_themselves_are_compared_step_by_step(tmp_path):
    job(tmp_path, [0.05, 0.1], 300, shared=False)
    table, notes = told(tmp_path)
    assert not table.own_steps
    assert not any(note.startswith(TOGETHER) for note in notes)


@pytest.mark.parametrize(
    ("parts", "together"),
    [
        ([range(100), range(100)], False),
        ([range(0, 100, 2), range(1, 100, 2)], True),
        ([range(0, 100, 2), [*range(1, 100, 2), *range(0, 20, 2)]], True),
        ([range(100), range(100, 200)], False),
        ([range(100)], False),
        ([range(0, 30, 2), range(1, 30, 2)], False),
        ([range(100), range(0, 100, 3)], False),
    ],
)
def test_when_steps_are_counted_together(parts, together):
    assert count_together([np.array(part) for part in parts]) == together
