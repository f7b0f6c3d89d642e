"""Pauses of one rank among the steps of all: who, how often, at what cost; and jobs without a culprit."""

from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.analyze.health.slow_rank import SLOW, slow_ranks
from stepscope.analyze.ranks.account import accounts_of
from stepscope.analyze.ranks.pauses import chance_of_rhythm, joined

STAGES = ["data", "copy", "forward", "backward", "optimizer", "rest"]
TYPICAL_S = np.array([2.0, 1.0, 20.0, 40.0, 5.0, 1.0]) / 1e3
MEETS = STAGES.index("backward")


def job(ranks, steps, *, noise=0.03, seed=0):
    """Return what each rank does by itself in each stage of each step, seconds."""
    return TYPICAL_S * np.random.default_rng(seed).lognormal(0, noise, (steps, ranks, len(STAGES)))


def findings(own):
    """Return what is found if the ranks wait for each other at the end of backward."""
    taken, ready = own.copy(), np.zeros(own.shape[1])
    for step in range(len(own)):
        arrived = ready + own[step, :, : MEETS + 1].sum(axis=1)
        taken[step, :, MEETS] += arrived.max() - arrived + 0.006
        ready = own[step, :, MEETS + 1 :].sum(axis=1)
    table = SimpleNamespace(
        durations_s=taken, ranks=[*range(own.shape[1])], stages=STAGES, steps=np.arange(len(own)), groups={},
        own_steps=False, lines={},
    )  # fmt: skip
    found = accounts_of(table)
    return slow_ranks(found, hosts={}, walls={})[0]


@pytest.mark.parametrize(
    ("ranks", "steps", "every", "stage", "pause_s"),
    [
        (8, 1000, 25, "data", 0.2),
        (16, 1000, 40, "optimizer", 0.5),
        (32, 400, 40, "forward", 0.3),
        (4, 400, 100, "optimizer", 0.5),  # a checkpoint, four times in all
        (8, 900, 100, "rest", 1.0),
        (2, 600, 100, "rest", 1.0),
        (64, 240, 50, "data", 0.3),
        (8, 2000, 200, "optimizer", 0.4),
        (2, 300, 10, "copy", 0.05),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_rank_that_pauses_is_named_with_its_rhythm_and_its_cost(ranks, steps, every, stage, pause_s, seed):
    own, rank = job(ranks, steps, seed=seed), ranks // 2
    at = np.arange(every - 1, steps, every)
    own[at, rank, STAGES.index(stage)] += pause_s * np.random.default_rng(seed).lognormal(0, 0.1, len(at))
    [finding] = findings(own)
    assert (finding.rule, finding.rank) == (SLOW, rank)
    assert f" wait in {stage} every {every} steps, for " in finding.summary
    # The step that is counted from the first meeting on is one less, and may have a pause.
    assert len(at) - 1 <= finding.values["held_up_steps"] <= len(at)
    assert finding.values["pause_ms"] == pytest.approx(1e3 * pause_s, rel=0.15)
    each_step = finding.values["held_up_steps"] * pause_s / (steps - 1)
    assert finding.values["delay_ms"] == pytest.approx(1e3 * each_step, rel=0.15)
    assert finding.values["share"] == pytest.approx(each_step / (each_step + 0.0765), rel=0.2)


def collected(own, random):
    """Each rank collects garbage in a rhythm of its own."""
    for rank, begin in enumerate(random.integers(0, 50, own.shape[1]).tolist()):
        own[begin::50, rank, 2] += 0.05 / own.shape[1]


def collected_at_random(own, random):
    own[:, :, 2] += 0.03 * (random.random(own.shape[:2]) < 0.01 / own.shape[1])


def saved_together(own, random):
    own[::100, :, 4] += random.lognormal(0, 0.1, (len(own[::100]), own.shape[1]))


def evaluated_together(own, random):
    own[len(own) // 3, :, 5] += 20 * random.lognormal(0, 0.05, own.shape[1])


def evaluated_once_by_one(own, random):
    own[len(own) // 3, 0, 5] += 2


@pytest.mark.parametrize("ranks", [2, 8, 32])
@pytest.mark.parametrize(
    "what",
    [
        lambda own, random: None,
        collected,
        collected_at_random,
        saved_together,
        evaluated_together,
        evaluated_once_by_one,
    ],
)
def test_ranks_of_which_none_is_at_fault_are_left_in_peace(what, ranks):
    own = job(ranks, 500, seed=ranks)
    what(own, np.random.default_rng(ranks))
    assert not findings(own)


def test_pauses_beside_a_rank_that_is_slow_all_the_time_are_told_as_well():
    own = job(8, 800)
    own[:, 2, 2] += 0.02
    own[49::50, 5, 4] += 0.6
    slow, pausing = findings(own)
    assert (slow.rank, pausing.rank) == (2, 5)
    assert " wait in optimizer every 50 steps" in pausing.summary


def test_noise_of_a_rank_that_is_slow_all_the_time_is_no_pause():
    own = job(8, 800, noise=0.05)
    own[:, 2, 2] += 0.02
    assert [finding.rank for finding in findings(own)] == [2]


def test_the_chance_of_a_rhythm_is_that_of_steps_chosen_at_random():
    steps, drawn = 30, 40_000
    random = np.random.default_rng(0)
    chosen = np.sort(np.array([random.choice(steps, 3, replace=False) for _ in range(drawn)]), axis=1)
    apart = np.ptp(np.diff(chosen, axis=1), axis=1)
    assert (apart <= 1).mean() <= chance_of_rhythm(np.array([5, 6]), steps) < 3 * (apart <= 1).mean()
    assert (apart == 0).mean() <= chance_of_rhythm(np.array([5, 5]), steps) < 3 * (apart == 0).mean()
    assert chance_of_rhythm(np.array([5, 9]), steps) == 1.0
    assert chance_of_rhythm(np.array([5]), steps) == 1.0


def test_chances_are_joined_as_fisher_does():
    random = np.random.default_rng(0)
    products = random.random(100_000) * random.random(100_000)
    for product in (0.3, 0.01, 0.001):
        assert joined(product, 1.0) == pytest.approx((products <= product).mean(), rel=0.1)
    assert joined(0.0, 0.5) == 0.0
