"""Files of ranks that are read for one answer: the same numbers, and hardly more memory than the table."""

import tracemalloc
from contextlib import ExitStack

import numpy as np
import pytest
from support.jobs import write_rank

from stepscope.events.columns import workspace
from stepscope.events.framing import frame
from stepscope.events.telemetry import FOLDER, ROWS, TelemetryRow, encoded
from stepscope.job import load_ranks
from stepscope.store.ranks import THREADS, Ranks

START = 1.7e9
STAGES = ["copy", "forward", "backward", "optimizer"]
TYPICAL_S = np.array([1.0, 1.0, 20.0, 40.0, 5.0]) / 1e3


def write(place, steps_of):
    """Write a job of ranks with these steps; every eighth has the same times."""
    rows_of = {}
    for rank, steps in enumerate(steps_of):
        key = rank % 8, tuple(steps)
        if key not in rows_of:
            random, rows = np.random.default_rng(rank), []
            for step in steps:
                taken = TYPICAL_S * random.lognormal(0, 0.02, len(TYPICAL_S))
                row = TelemetryRow(START + step, float(taken.sum()) + 0.001, float(taken[0]), ended=True)
                row.spent = (0.001, *taken[1:].tolist())
                rows.append((step, row))
            rows_of[key] = [rows[at : at + 100] for at in range(0, len(rows), 100)]
        write_rank(
            place, rank, len(steps_of), *rows_of[key], memory=(3e9, 6e9), end=None, stages=STAGES,
            stage_order=[1, 2, 3, 4], started=START,
        )  # fmt: skip
    return place


@pytest.mark.parametrize(
    "steps_of",
    [
        [range(60)] * 6,
        [range(60), range(50), range(10, 70), range(60), range(60), [*range(40), *range(30, 60)]],
        [range(60), range(0)],
    ],
)
@pytest.mark.parametrize("window", [{}, {"begin": 20, "end": 45}])
def test_what_is_read_for_one_answer_is_the_same(tmp_path, steps_of, window):
    place = write(tmp_path / "job", steps_of)
    kept, once = Ranks(str(place)), Ranks(str(place), keep=False)
    one, other = kept.stages(**window), once.stages(**window)
    np.testing.assert_array_equal(one.steps, other.steps)
    np.testing.assert_array_equal(one.durations_s, other.durations_s)
    assert (one.ranks, one.stages, one.doubled, one.hosts) == (
        other.ranks,
        other.stages,
        other.doubled,
        other.hosts,
    )
    assert kept.members(now=START) == once.members(now=START)


def test_rows_that_came_since_the_steps_were_read_are_left_out(tmp_path):
    place = write(tmp_path / "job", [range(60)] * 6)
    once = Ranks(str(place), keep=False)
    once.members(now=START)
    for rank, path in enumerate(sorted((place / FOLDER).iterdir())):
        row = TelemetryRow(START + 60, 0.07, 0.001, ended=True, spent=(0.001, 0.001, 0.02, 0.04, 0.005))
        if rank:
            with path.open("ab") as file:
                file.write(frame(encoded(ROWS, [(60, row)], (3e9, 6e9), len(STAGES))))
    table = once.stages()
    assert table.steps.tolist() == list(range(60))
    np.testing.assert_array_equal(table.durations_s, Ranks(str(place)).stages(end=60).durations_s)


@pytest.mark.slow
def test_memory_is_hardly_more_than_the_table_of_all_steps(tmp_path):
    ranks, steps = 96, 4000
    load_ranks(write(tmp_path / "small", [range(60)] * 4))  # so that no import counts
    with ExitStack() as lent:  # nor the buffers of reads, which are as many as threads and stay
        for _ in range(THREADS):
            lent.enter_context(workspace())
    place = write(tmp_path / "job", [range(steps)] * ranks)
    tracemalloc.start()
    try:
        job = load_ranks(place)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert job.frontier.steps == steps - 1
    table = ranks * steps * (len(STAGES) + 2) * 4
    assert peak < 2.5 * table  # kept rows of all files alone are one and a half of it
