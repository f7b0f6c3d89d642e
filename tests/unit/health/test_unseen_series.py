"""Series as users record them, and the sentences on them: said where they are true, and not elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from support.health_series import START, findings, found, noise

STEPS = np.arange(1200)
NAN, INF = float("nan"), float("inf")


def falling(count=1200, *, to=0.3, by=2.0, over=150.0, seed=0, scale=0.03):
    """A loss that falls."""
    return to + by * np.exp(-np.arange(count) / over) + noise(count, scale, seed)


def every(steps, values):
    """Points so many steps apart, one second a step."""
    at = np.arange(1, len(values) + 1) * steps - 1
    return at, np.asarray(values, float), START + at


def of(rule, series):
    """What a rule says of some series."""
    return [each for each in findings(series) if each.rule == rule]


# --- loss scales ----------------------------------------------------------------------------------------


def halved(start, times, count=400, every_n=1):
    return start * 0.5 ** np.minimum(np.arange(count) // every_n, times)


@pytest.mark.parametrize(
    "scale",
    [
        halved(2.0**32, 17, every_n=2),  # each overflow is forgiven once
        halved(65536.0, 11),
        np.where(STEPS < 700, halved(2.0**32, 20, 1200), 2.0**13),
        halved(2.0**32, 24)[::8],
    ],
)
def test_the_search_for_a_first_loss_scale_is_no_collapse(scale):
    steps = np.arange(len(scale)) * (8 if len(scale) == 50 else 1)
    assert "loss-scale" not in found({"train/loss_scale": (steps, scale, START + steps)})


@pytest.mark.parametrize(
    ("scale", "step", "text"),
    [
        (halved(65536.0, 40), 17, "fell to 0.5 from 65,536"),  # none fits
        (np.concatenate([np.full(100, 65536.0), halved(65536.0, 11)]), 111, "fell to 32 from 65,536"),
        (np.concatenate([halved(2.0**32, 16, 100), halved(65536.0, 11)]), 111, "fell to 32 from 65,536"),
        (np.concatenate([np.full(3, 65536.0), [16.0] * 50]), 3, "fell to 16 from 65,536"),
    ],
)
def test_a_loss_scale_that_collapses_is_told(scale, step, text):
    [finding] = of("loss-scale", {"train/loss_scale": scale})
    assert finding.step == step
    assert finding.summary.endswith(text)


# --- values that are not finite ---------------------------------------------------------------------------

EMPTY = np.where(np.random.default_rng(0).random(1200) < 0.2, NAN, 0.3)


@pytest.mark.parametrize(
    ("tag", "values", "text"),
    [
        ("train/loss_class_7", EMPTY, "train/loss_class_7 is NaN at step 2"),
        ("train/perplexity", np.where(STEPS < 5, INF, 3.0), "train/perplexity is infinite at step 0"),
        ("val/loss_boxes", np.where(STEPS == 60, NAN, 1.0), "val/loss_boxes is NaN at step 60"),
        ("eval/loss", np.where(STEPS == 60, NAN, 1.0), "the evaluation loss is NaN at step 60"),
    ],
)
def test_what_is_not_finite_beside_a_training_loss_is_named_and_breaks_nothing(tag, values, text):
    [finding] = of("nonfinite-loss", {"train/loss": falling(), tag: values})
    assert (finding.severity, finding.summary) == ("medium", text)
    assert "checkpoint" not in finding.action


def test_a_part_that_stays_finite_for_long_closes_its_finding():
    part = np.where(STEPS == 60, NAN, 0.3)
    [finding] = of("nonfinite-loss", {"train/loss": falling(), "train/loss_class_7": part})
    assert finding.closed_step == 160


def test_a_training_loss_that_is_not_finite_is_severe_and_told_beside_a_part():
    part, loss = EMPTY.copy(), falling()
    loss[900:] = NAN
    told = of("nonfinite-loss", {"train/loss": loss, "train/loss_class_7": part})
    assert [(each.severity, each.summary) for each in told] == [
        ("high", "the loss is NaN at step 900"),
        ("medium", "train/loss_class_7 is NaN at step 2"),
    ]
    assert "checkpoint" in told[0].action


def test_what_follows_a_training_loss_that_is_not_finite_is_not_told_again():
    loss = np.where(STEPS >= 900, NAN, falling())
    evaluation = every(100, np.where(np.arange(12) >= 9, NAN, 1.0))
    [finding] = of("nonfinite-loss", {"train/loss": loss, "eval/loss": evaluation, "train/ppl": np.exp(loss)})
    assert (finding.severity, finding.tag) == ("high", "train/loss")


def test_a_part_is_severe_where_no_training_loss_is_recorded():
    [finding] = of(
        "nonfinite-loss", {"loss/generator": np.where(STEPS >= 30, INF, 1.0), "loss/critic": falling()}
    )
    assert (finding.severity, finding.summary) == ("high", "loss/generator is infinite at step 30")
