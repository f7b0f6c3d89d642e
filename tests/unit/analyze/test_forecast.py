"""Power-law forecasts: right where the law holds, silent where it does not."""

import numpy as np
import pytest

from stepscope.analyze.health.forecast import binned, forecast, misses, rounded

TOTAL = 20_000


def law(a, b, c, done, noise=0.02, seed=0):
    steps = np.arange(done)
    values = a + b * (steps + 1.0) ** -c
    return steps, values * (1 + noise * np.random.default_rng(seed).normal(size=done))


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b", "c"), [(2.0, 5.0, 0.5), (0.0, 8.0, 0.3), (1.0, 20.0, 1.0)])
@pytest.mark.parametrize("done", [6_000, 12_000])
def test_a_law_is_found_again(a, b, c, done):
    hits, misses = 0, []
    for seed in range(10):
        found = forecast(*law(a, b, c, done, seed=seed), TOTAL)
        assert found is not None
        truth = a + b * TOTAL**-c
        hits += abs(found.value - truth) <= found.half
        misses.append(found.value / truth - 1)
        assert found.half < 0.1 * truth
    assert hits >= 9
    assert np.abs(misses).max() < 0.05


def test_it_says_when_and_how_sure():
    found = forecast(*law(2.0, 5.0, 0.5, 10_000), TOTAL)
    assert found.text("train/loss").startswith("train/loss will end at 2.0")
    assert "at step 20,000, by a power law" in found.text("train/loss")


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (2.3149, 0.0412, "2.315 ± 0.041"),
        (2.3, 12.0, "2 ± 12"),
        (1234.5, 250.0, "1230 ± 250"),
        (0.0, 0.0, "0"),
        (1e-20, 1e-22, "1\u00d710⁻²⁰ ± 1\u00d710⁻²²"),
    ],
)
def test_a_value_has_as_many_digits_as_its_band(value, half, text):
    assert rounded(value, half) == text


def falls_late(done):
    steps = np.arange(done)
    return steps, np.where(steps < 0.8 * done, 3.0, 1.0) + 0.01 * np.random.default_rng(0).normal(size=done)


@pytest.mark.parametrize(
    ("series", "rates"),
    [
        (law(2.0, 5.0, 0.5, 150), None),  # too few
        (law(2.0, 5.0, 0.5, 2_000), None),  # too early
        (law(2.0, 5.0, 0.5, TOTAL + 1), None),  # it is over
        (law(2.0, -1.0, 0.5, 10_000), None),  # it rises
        (falls_late(10_000), None),  # no law
        (law(2.0, 5.0, 0.5, 10_000), np.linspace(1e-3, 1e-5, 10_000)),  # a schedule
        ((np.arange(10_000), np.full(10_000, np.nan)), None),
    ],
)
def test_it_is_silent_where_the_law_does_not_hold(series, rates):
    assert forecast(*series, TOTAL, rates) is None


def test_a_warm_up_is_no_schedule():
    rates = np.minimum(np.arange(10_000) / 500, 1) * 1e-3
    assert forecast(*law(2.0, 5.0, 0.5, 10_000), TOTAL, rates) is not None


def falls_in_earnest(kind, seed, total=4_000):
    """Losses that no power law with an offset describes, and that end as they went on."""
    steps = np.arange(total)
    values = {
        "exponential": 0.05 + 2.3 * np.exp(-steps / 700),
        "two laws": 0.1 + 1.5 * (steps + 1.0) ** -0.2 + 2.0 * np.exp(-steps / 300),
        "wandering": 0.3 + 8.0 * (steps + 1.0) ** -0.4,
    }[kind]
    noise = np.random.default_rng(seed).normal(size=total)
    if kind == "wandering":
        for at in range(1, total):
            noise[at] += 0.97 * noise[at - 1]
        noise *= 0.3
    return steps, np.abs(values * (1 + 0.05 * noise)), values[-1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exponential", "two laws", "wandering"])
def test_losses_that_are_no_law_end_within_the_band_or_nothing_is_said(kind):
    """A band of the law alone does not hold them."""
    told = inside = 0
    for seed in range(6):
        steps, values, end = falls_in_earnest(kind, seed)
        for done in (1_200, 2_000, 2_800):
            found = forecast(steps[:done], values[:done], len(steps))
            if found is not None:
                told, inside = told + 1, inside + (abs(found.value - end) <= found.half)
    assert inside >= 0.8 * told


def test_a_loss_that_never_was_negative_is_not_said_to_become_so():
    steps, values, _ = falls_in_earnest("exponential", 1)
    for done in (1_200, 2_000, 2_800):
        found = forecast(steps[:done], values[:done], len(steps))
        assert found is None or found.value >= 0


def test_where_nothing_was_learnt_yet_nothing_is_said():
    steps = np.arange(6_000)
    values = 0.69 + 0.01 * np.random.default_rng(2).normal(size=6_000)
    assert forecast(steps, values, TOTAL) is None


@pytest.mark.parametrize(("done", "told"), [(4_000, True), (3_999, False), (20_000, False)])
def test_a_fifth_of_the_steps_must_have_been_made(done, told):
    found = forecast(*law(2.0, 5.0, 0.5, done, noise=0.001), TOTAL)
    assert (found is not None) == told


def test_the_band_of_a_law_that_holds_is_not_made_narrower():
    steps, values = law(2.0, 5.0, 0.5, 10_000, noise=0.0005)
    times, means, errors = binned(steps + 1.0, values)
    assert misses(times, means, errors, 2.0, 0.0) == 1.0
