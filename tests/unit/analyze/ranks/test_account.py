"""Steps counted from where ranks meet, and groups of ranks compared among themselves."""

from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.analyze.ranks.account import APART, accounts_of, onset, over_time, own_work

STAGES = ("data", "forward", "backward", "optimizer", "rest")
USUAL_S = np.array([0.002, 0.030, 0.060, 0.010, 0.001])


def replayed(taken, meets=2):
    """Return durations with the waiting of each step put into the stage in which ranks meet."""
    steps, ranks, _ = taken.shape
    found, clock = taken.copy(), np.zeros(ranks)
    for step in range(steps):
        arrive = clock + taken[step, :, : meets + 1].sum(1)
        found[step, :, meets] += arrive.max() - arrive
        clock = arrive.max() + taken[step, :, meets + 1 :].sum(1)
    return found


def job(stage=None, rank=3, since=0, ranks=8, steps=200, noise=0.05):
    taken = USUAL_S * (1 + noise * np.abs(np.random.default_rng(1).standard_normal((steps, ranks, 5))))
    if stage is not None:
        taken[since:, rank, STAGES.index(stage)] += 0.03
    return replayed(taken)


def account(taken, **more):
    return accounts_of(table_of(taken, **more))


@pytest.mark.parametrize("stage", ["data", "forward", "optimizer", "rest"])
def test_a_delay_before_or_after_the_meeting_is_found_in_its_stage(stage):
    (found,) = account(job(stage, since=80))
    assert found.meets == "backward"
    began = onset(found)
    assert (began.rank, began.stage) == (3, stage)
    assert abs(began.since - 80) <= 2
    assert began.delay_s == pytest.approx(0.03, rel=0.1)
    assert began.lost_gpu_s == pytest.approx(0.03 * 120 * 8, rel=0.1)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("stage", ["data", "forward", "optimizer", "rest"])
def test_of_two_ranks_the_one_that_waits_is_not_blamed(stage, noise):
    """Nothing but the place of the meeting tells a delay of the same length each step from the waiting."""
    (found,) = account(job(stage, rank=1, ranks=2, noise=noise))
    began = onset(found)
    assert (began.rank, began.stage) == (1, stage)


def test_a_delay_is_the_mean_of_its_steps_less_that_of_those_before():
    (found,) = account(job("forward", since=80, noise=0.0))
    began = onset(found)
    whole = found.shares_s.sum(axis=1)
    assert began.since == 80
    assert began.before_s == pytest.approx(whole[found.steps < 80].mean())
    assert began.after_s == pytest.approx(whole[found.steps >= 80].mean())
    assert began.before_s == pytest.approx(0.103)
    assert began.after_s == pytest.approx(0.133)
    assert began.lost_gpu_s == pytest.approx(0.03 * 120 * 8)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.3])
def test_healthy_ranks_are_not_accused(noise):
    (found,) = account(job(noise=noise))
    assert onset(found) is None


def test_shares_sum_to_the_groups_time_in_every_column():
    (found,) = account(job("optimizer"))
    means, counts = over_time(found, np.array([0, 50, 120, 200]))
    assert means.shape == (5, 3)
    assert (means * counts).sum() == pytest.approx(found.frontier.group_s)


def test_ranks_of_different_work_are_compared_among_themselves():
    """Ranks 4 to 7 run another stage of a pipeline, twice as long: nobody of them is late."""
    taken = job()
    taken[:, 4:, 1] += 0.03
    taken[:, :4, 2] += 0.03
    groups = {rank: f"pipeline {rank // 4}" for rank in range(8)}
    found = account(taken, groups=groups)
    assert [(each.group, each.frontier.ranks) for each in found] == [
        ("pipeline 0", (0, 1, 2, 3)), ("pipeline 1", (4, 5, 6, 7))
    ]  # fmt: skip
    assert [onset(each) for each in found] == [None, None]


def test_one_long_step_of_one_rank_does_not_say_that_ranks_do_not_wait():
    taken = job(steps=60)
    taken[30, 1] *= 20  # its profile was written, and the others had theirs before
    (found,) = account(taken)
    assert found.apart < APART


def test_ranks_that_train_alone_are_apart():
    taken = USUAL_S * (1 + 0.05 * np.abs(np.random.default_rng(1).standard_normal((60, 8, 5))))
    taken[:, 3] *= 1.3
    (found,) = account(taken)
    assert found.apart > APART


def table_of(durations_s, stages=STAGES, **more):
    """Times as the store has them, of steps that follow each other."""
    steps, ranks, _ = durations_s.shape
    facts = {"groups": {}, "own_steps": False, "lines": {}, **more}
    return SimpleNamespace(
        durations_s=durations_s, ranks=[*range(ranks)], stages=[*stages], steps=np.arange(steps), **facts
    )


@pytest.mark.parametrize("stage", ["data", "forward", "optimizer", "rest"])
def test_the_work_of_the_rank_that_others_wait_for_stands_out_and_no_steps_do(stage):
    durations = job(stage, since=80)
    work = own_work(table_of(durations))
    others = np.delete(work, 3, axis=1)
    late = slice(90, 190)
    assert (work[late, 3] - others[late].max(axis=1)).min() > 0.01
    assert np.ptp(work[:80].mean(axis=0)) < 0.005
    steps = durations.sum(axis=2)[late].mean(axis=0)
    assert np.ptp(steps) < 0.002


def test_own_work_is_the_step_without_what_the_rank_waited():
    taken = np.tile(USUAL_S, (60, 4, 1)) * (1 + np.arange(4)[None, :, None] / 100)
    work = own_work(table_of(replayed(taken)))
    elsewhere = (
        taken.sum(axis=2) - taken[:, :, 2]
    )  # backward is known only of the last to come, who does not wait
    np.testing.assert_allclose(work[1:], elsewhere[1:] + taken[1:, 3:, 2])


def test_a_rank_that_is_slow_where_the_others_do_not_wait_for_it_works_longer():
    """Without stages only the rest of a step is known, in which ranks wait if they do."""
    durations = np.tile([0.01, 0.09], (120, 8, 1))
    durations[70:, 5, 1] += 0.05
    work = own_work(table_of(durations, stages=("data", "rest")))
    np.testing.assert_allclose(work, durations.sum(axis=2))


def test_ranks_that_do_not_wait_for_each_other_work_as_long_as_their_steps_are():
    taken = np.tile(USUAL_S, (60, 4, 1)) * (1 + np.arange(4)[None, :, None])
    np.testing.assert_allclose(own_work(table_of(taken)), taken.sum(axis=2))
    counted = own_work(table_of(job("data"), own_steps=True))
    np.testing.assert_allclose(counted, job("data").sum(axis=2))


def test_own_work_is_compared_within_the_group_of_a_rank():
    alone = own_work(table_of(job("data")))
    other = replayed(np.tile(3 * USUAL_S, (200, 2, 1)))
    both = own_work(table_of(np.concatenate([job("data"), other], 1), groups={8: "head", 9: "head"}))
    np.testing.assert_allclose(both[:, :8], alone)
    np.testing.assert_allclose(both[:, 8:], other.sum(axis=2))


def test_own_work_of_a_step_that_a_rank_lacks_is_not_known():
    durations = job("data")
    durations[17, 2] = np.nan
    work = own_work(table_of(durations))
    assert np.argwhere(np.isnan(work)).tolist() == [
        [17, 2],
        [18, 2],
    ]  # how early it came to the next is not known
    assert own_work(table_of(np.zeros((0, 0, 5)))).shape == (0, 0)
