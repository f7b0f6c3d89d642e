"""Frontier accounting on simulated jobs whose cause is planted."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stepscope.analyze.ranks.frontier import StageTimes, frontier_of
from stepscope.errors import EmptyTraceError

STAGES = ("data", "forward", "backward", "optimizer")
USUAL_S = np.array([0.002, 0.030, 0.060, 0.010])


def job(cause, seed, ranks=8, steps=300):
    """Return durations, the culprit and the step from which it is slow; ranks wait for each other in
    backward."""
    random = np.random.default_rng(seed)
    taken = np.abs(USUAL_S * (1 + 0.05 * random.standard_normal((steps, ranks, 4))))
    culprit, since = int(random.integers(ranks)), int(random.integers(steps // 2))
    if cause == "loader":
        taken[since:, culprit, 0] += 0.02
    elif cause == "device":
        taken[since:, culprit, 1] *= 1.4
    elif cause == "disk":
        held = random.random(steps) < 0.5
        taken[np.flatnonzero(held), random.integers(ranks, size=held.sum()), 0] += 0.03
    elif cause == "link":
        taken[:, :, 2] += 0.04
    arrive = taken[:, :, :3].sum(2)
    taken[:, :, 2] += arrive.max(1, keepdims=True) - arrive
    return taken, culprit, since


def account(taken):
    times = StageTimes.of(taken)
    return frontier_of(
        times, times.whole(), ranks=range(taken.shape[1]), stages=STAGES[: taken.shape[2]],
        steps=range(len(taken)),
    )[0]  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.integers(1, 8), st.integers(2, 5), st.integers(1, 4)),
        elements=st.floats(0, 1e3, allow_subnormal=False),
    )
)
def test_stages_sum_to_the_slowest_ranks_steps(taken):
    found = account(taken)
    assert sum(stage.exposed_s for stage in found.stages) == pytest.approx(taken.sum(2).max(1).sum())
    assert all(stage.exposed_s >= -1e-9 for stage in found.stages)
    assert all(0 <= caused <= found.group_s + 1e-9 for caused in found.caused_s.values())


@pytest.mark.parametrize(("cause", "stage"), [("loader", "data"), ("device", "forward")])
def test_a_slow_rank_is_found_with_its_stage_and_onset(cause, stage):
    right = 0
    for seed in range(50):
        taken, culprit, since = job(cause, seed)
        said = [found for found in account(taken).stages if found.label != "alike"]
        right += [(row.stage, row.leader, row.label) for row in said] == [(stage, culprit, "persistent")]
        assert abs(said[0].since - since) <= 5
    assert right >= 48


def test_a_cause_that_wanders_accuses_no_rank():
    right = 0
    for seed in range(50):
        labels = {row.stage: row.label for row in account(job("disk", seed)[0]).stages}
        assert "persistent" not in labels.values()
        right += labels["data"] == "wandering"
    assert right >= 48


@pytest.mark.parametrize("cause", ["nothing", "link"])
def test_alike_ranks_are_not_accused(cause):
    """A slow link slows all ranks: nobody is late, so nobody is named."""
    for seed in range(50):
        assert {row.label for row in account(job(cause, seed)[0]).stages} == {"alike"}


def test_few_steps_do_not_accuse():
    taken, _, _ = job("device", 1, steps=15)
    assert "persistent" not in {row.label for row in account(taken).stages}


def test_what_a_rank_caused_is_what_goes_without_it():
    taken = np.tile(USUAL_S, (30, 4, 1))
    taken[:, 2, 0] += 0.01
    found = account(taken)
    assert found.caused_s[2] == pytest.approx(0.3)
    assert [found.caused_s[rank] for rank in (0, 1, 3)] == [0, 0, 0]


def test_steps_that_a_rank_lacks_are_left_out():
    taken, _, _ = job("loader", 0)
    taken[10:20, 3] = np.nan
    found = account(taken)
    assert (found.steps, found.left_out) == (290, 10)


@pytest.mark.parametrize("shape", [(0, 4, 2), (30, 1, 2)])
def test_one_rank_or_no_step_is_an_error(shape):
    with pytest.raises(EmptyTraceError, match="expected steps that several ranks recorded"):
        account(np.ones(shape))
