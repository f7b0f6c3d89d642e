"""A rank that holds the others up is a finding; ranks that are alike are none, nor those that do not wait."""

from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.analyze.health.slow_rank import SLOW, TITLES, TOGETHER, WANDERING, slow_ranks
from stepscope.analyze.ranks.account import accounts_of

STAGES = ["data", "copy", "forward", "backward", "optimizer", "rest"]
TYPICAL_S = np.array([2, 1, 20, 40, 5, 1]) / 1e3
MEET = STAGES.index("backward")


def job(steps=200, ranks=8, seed=0, noise=0.01):
    """Durations of the stages of ranks that exchange gradients at the end of backward."""
    random = np.random.default_rng(seed)
    return TYPICAL_S * (1 + noise * np.abs(random.standard_normal((steps, ranks, len(STAGES)))))


def met(own):
    """Let the ranks wait for the last of them at the end of backward, step by step."""
    taken, ready = own.copy(), np.zeros(own.shape[1])
    for step in range(len(own)):
        arrived = ready + own[step, :, : MEET + 1].sum(axis=1)
        taken[step, :, MEET] += arrived.max() - arrived
        ready = own[step, :, MEET + 1 :].sum(axis=1)
    return taken


def judge(taken, *, groups=None, first=0):
    steps = np.arange(first, first + len(taken))
    table = SimpleNamespace(
        durations_s=taken, ranks=[*range(taken.shape[1])], stages=STAGES, steps=steps, groups=groups or {},
        own_steps=False, lines={},
    )  # fmt: skip
    found = accounts_of(table)
    return slow_ranks(
        found, hosts={3: "node3"}, walls={int(step): 1.7e9 + step / 10 for step in steps}
    )  # fmt: skip


@pytest.mark.parametrize("stage", ["data", "forward", "optimizer"])
def test_the_rank_its_host_its_stage_its_begin_and_its_cost(stage):
    own = job()
    own[80:, 3, STAGES.index(stage)] += 0.03
    [found], lacking = judge(met(own))
    assert lacking == []
    assert (found.rule, found.rank, found.severity, found.is_open) == (SLOW, 3, "high", True)
    assert found.stage == stage
    assert found.since_step == pytest.approx(80, abs=1)
    assert found.values["delay_ms"] == pytest.approx(30, rel=0.1)
    assert found.values["gpu_seconds_lost"] == pytest.approx(0.03 * 120 * 8, rel=0.1)
    assert f"rank 3 on node3 makes the 7 other ranks wait in {stage} since step " in found.summary
    assert found.wall == pytest.approx(1.7e9 + found.step / 10)
    assert 80 <= found.step < 80 + 41


def test_what_is_over_is_said_to_be():
    own = job(steps=300)
    own[80:260, 3, 0] += 0.03
    [found], _ = judge(met(own))
    assert (found.rank, found.is_open) == (3, False)
    assert found.closed_step == pytest.approx(259, abs=1)
    assert f"from step {found.since_step:,} to {found.closed_step:,}" in found.summary


def test_a_rank_that_lags_a_little_is_not_worth_a_word():
    own = job()
    own[:, 3, 2] += 0.001
    assert judge(met(own)) == ([], [])


def test_changing_ranks_are_another_finding():
    own, random = job(steps=400), np.random.default_rng(1)
    late = np.flatnonzero(random.random(400) < 0.15)
    own[late, random.integers(0, 8, len(late)), 0] += 0.2
    [found], _ = judge(met(own))
    assert (found.rule, found.rank) == (WANDERING, None)
    assert "single steps of changing ranks make the others wait in data: " in found.summary
    assert found.stage == "data"


@pytest.mark.parametrize(("every", "said"), [(25, "every 25 steps"), (None, "in 8 of ")])
def test_one_rank_that_saves_now_and_then_is_named_and_no_changing_ranks(every, said):
    own, random = job(steps=400), np.random.default_rng(1)
    at = np.arange(5, 400, every) if every else np.sort(random.choice(np.arange(5, 395), 8, replace=False))
    own[at, 3, STAGES.index("rest")] += 2.0
    [found], _ = judge(met(own))
    assert (found.rule, found.rank, found.is_open) == (SLOW, 3, True)
    assert found.summary.startswith(f"rank 3 on node3 makes the 7 other ranks wait in rest {said}")
    assert found.values["held_up_steps"] == pytest.approx(len(at), abs=1)
    assert found.values["gpu_seconds_lost"] == pytest.approx(2.0 * len(at) * 8, rel=0.15)


def test_two_ranks_one_after_the_other_are_no_single_steps_and_not_over():
    for seed in range(6):
        own = job(steps=400, seed=seed, noise=0.02)
        own[:200, 1, 2] += 0.02
        own[200:, 6, 2] += 0.02
        told, _ = judge(met(own))
        assert WANDERING not in {found.rule for found in told}
        assert all((found.rank, found.is_open) == (6, True) for found in told if found.rule == SLOW)


@pytest.mark.parametrize("late", [(2, 5), (1, 4, 6)])
def test_a_few_slow_ranks_are_named_together(late):
    own = job(steps=400, noise=0.03)
    own[100:, list(late), 2] += 0.03
    [found], _ = judge(met(own))
    assert (found.rule, found.rank in late) == (SLOW, True)
    names = " and ".join([", ".join(map(str, late[:-1])), str(late[-1])])
    assert found.summary.startswith(
        f"ranks {names} make the {8 - len(late)} other ranks wait in forward by turns since step "
    )
    assert found.since_step == pytest.approx(100, abs=3)


def test_uneven_batches_name_nobody():
    random = np.random.default_rng(3)
    own = job(steps=400)
    own[:, :, 2:4] *= random.lognormal(0, 0.25, (400, 8, 1))
    assert judge(met(own))[0] == []


def test_an_exchange_that_is_slower_for_all_accuses_nobody():
    taken = met(job())
    taken[120:, :, MEET] += 0.02
    [found], _ = judge(taken)
    assert (found.rule, found.rank, found.severity) == (TOGETHER, None, "medium")
    assert found.since_step == pytest.approx(120, abs=1)
    assert found.values["stage_ms"] == pytest.approx(20, rel=0.05)
    assert "most of the difference in backward; no single rank causes it" in found.summary


def test_a_slow_time_that_is_over_is_not_told_and_neither_are_single_steps():
    taken = met(job())
    taken[60:110, :, MEET] += 0.02
    assert judge(taken)[0] == []
    taken = met(job())
    taken[::25, :, MEET] += 0.5
    assert judge(taken)[0] == []


def test_ranks_that_do_not_wait_for_each_other_are_not_judged():
    own = job()
    own[:, 3] *= 1.5
    found, lacking = judge(own)
    assert found == []
    assert {each.rule for each in lacking} == set(TITLES)
    assert all("do not wait for each other in each step" in each.missing for each in lacking)


def test_too_few_steps_are_not_judged():
    found, lacking = judge(met(job(steps=6)))
    assert found == []
    assert lacking[0].missing.startswith("too few points: ")


def test_a_slow_stage_of_a_pipeline_is_no_slow_rank():
    own = job()
    own[:, 4:, 2] += 0.03
    assert judge(met(own), groups={rank: f"pipeline {rank // 4}" for rank in range(8)}) == ([], [])


def test_more_steps_do_not_make_another_finding():
    own = job(steps=400)
    own[80:, 3, 0] += 0.03
    taken = met(own)
    steps = {judge(taken[:end])[0][0].step for end in range(160, 400, 30)}
    assert len(steps) == 1


def test_healthy_jobs_are_not_accused():
    found = [judge(met(job(seed=seed, noise=0.05)))[0] for seed in range(60)]
    assert sum(map(bool, found)) <= 1
