"""rank-divergence: means of ranks are compared where the ranks take the same steps."""

import numpy as np
import pytest

from stepscope.health.monitor import Monitor

SHIFT = 2.0
RULE = "rank-divergence"


def judged(ranks, together):
    """Judge 600 steps of losses, rank 0's higher. Ranks that go on by themselves take some of the steps."""
    random = np.random.default_rng(0)
    monitor = Monitor()
    whose = random.integers(0, ranks, 600)
    for begin in range(0, 600, 20):
        block = np.arange(begin, begin + 20)
        for rank in range(ranks):
            steps = block if together else block[(whose[block] == rank) | (random.random(20) < 0.1)]
            losses = 1.0 + 0.05 * random.standard_normal(len(steps)) + (SHIFT if rank == 0 else 0.0)
            monitor.take("ranks/loss", steps, losses, 1e9 + steps.astype(float), rank=rank)
    monitor.finish()
    return monitor.verdict


@pytest.mark.parametrize("ranks", [2, 5])
def test_a_rank_apart_is_found_where_all_take_the_same_steps(ranks):
    assert [each.rule for each in judged(ranks, together=True).findings if each.rule == RULE] == [RULE] * (
        2 if ranks == 2 else 1  # of two, who is wrong?
    )


@pytest.mark.parametrize("ranks", [2, 5])
def test_ranks_that_go_on_by_themselves_are_not_compared(ranks):
    verdict = judged(ranks, together=False)
    assert RULE not in [each.rule for each in verdict.findings]
    assert RULE not in verdict.passed
    assert [each.missing for each in verdict.abstained if each.rule == RULE] == [
        "not judged: the ranks do not take the same steps: each runs on its own"
    ]
