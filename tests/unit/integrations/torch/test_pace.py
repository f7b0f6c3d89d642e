"""What a sample of gradients counts as, beside norms that are taken in every step."""

import pytest

from stepscope.integrations.torch.pace import FOR_SAMPLES, Pace


def paced(*, step: float, sample: float, norm: float) -> Pace:
    pace = Pace()
    for number in range(3):
        pace.begin(number, number * step)
    pace.took(sample)
    if norm:
        pace.normed(norm)
    return pace


@pytest.mark.parametrize(
    ("norm", "counts_as"),
    [
        pytest.param(0.0, 1.0, id="no norms: the whole budget is for samples"),
        pytest.param(0.0005, 2.0, id="norms of half the budget: half as many samples"),
        pytest.param(0.0009, 1 / FOR_SAMPLES, id="norms of nearly all of it: a quarter is left"),
        pytest.param(0.05, 1 / FOR_SAMPLES, id="norms beyond it: a quarter is left"),
    ],
)
def test_norms_are_taken_off_the_budget(norm: float, counts_as: float) -> None:
    pace = paced(step=0.1, sample=0.004, norm=norm)
    assert pace.cost_seconds(0.01) == pytest.approx(0.004 * counts_as)


def test_without_a_bound_a_sample_costs_what_it_takes() -> None:
    assert paced(step=0.1, sample=0.004, norm=0.05).cost_seconds(None) == pytest.approx(0.004)


def test_before_two_steps_a_sample_costs_what_it_takes() -> None:
    pace = Pace()
    pace.took(0.004)
    pace.normed(0.05)
    assert pace.cost_seconds(0.01) == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("norm", "share", "distance"),
    [
        pytest.param(0.0005, 0.01, 1, id="half the budget: every step"),
        pytest.param(0.0075, 0.01, 10, id="ten times its part: every tenth step"),
        pytest.param(0.0076, 0.01, 11, id="a little more"),
        pytest.param(0.05, None, 1, id="no bound"),
    ],
)
def test_norms_that_do_not_fit_are_taken_less_often(norm: float, share: float | None, distance: int) -> None:
    pace = paced(step=0.1, sample=0.004, norm=norm)
    assert pace.norm_distance(share) == distance
    if share:
        spent = norm / distance / (0.1 * share)
        assert pace.cost_seconds(share) == pytest.approx(0.004 / (1 - spent))
