"""Rules on attention: what they find, and the healthy attention that they must leave alone."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analyze.health.judge import AttemptSeries, JudgedPoints, judge


def found(rule, series):
    points = [
        JudgedPoints(tag, np.asarray(steps), np.asarray(values, float), 1e9 + np.asarray(steps, float))
        for tag, (steps, values) in series.items()
    ]
    verdict = judge(AttemptSeries(1, points))
    lacking = [each.missing for each in verdict.abstained if each.rule == rule]
    return [each for each in verdict.findings if each.rule == rule], lacking


SAMPLES = np.arange(0, 1000, 50)
STEPS = np.arange(1000)
NOISE = np.random.default_rng(0).normal(size=1000)
FLAT = STEPS, 3.0 + 0.02 * NOISE
FALLING = STEPS, 3.0 * (1 + STEPS / 50) ** -0.5 + 0.02 * NOISE


def test_logits_that_grow_are_told_once_for_all_layers():
    grown = 5.0 * 1.6 ** np.arange(20)
    series = {f"attention/{name}/logit_max": (SAMPLES, grown) for name in ("h.0", "h.1")}
    [finding], _ = found("attention-logits", series)
    assert (finding.layer, finding.also, finding.severity) == ("h.0", ("h.1",), "medium")
    assert finding.step == SAMPLES[np.flatnonzero(grown > 1000)[4]]
    assert "it began at 12.8" in finding.summary


@pytest.mark.parametrize(
    "logits",
    [
        np.linspace(5, 90, 20),  # they grow, and stay small
        np.linspace(1500, 2500, 20),  # large from the beginning: a model without scaling
        np.where(np.arange(20) % 5 == 4, 1e5, 10.0),  # single samples
    ],
)
def test_other_logits_are_not(logits):
    assert found("attention-logits", {"attention/h.0/logit_max": (SAMPLES, logits)}) == ([], [])


COLLAPSE = SAMPLES, np.where(np.arange(20) < 8, 0.8, 0.005)


def test_attention_that_collapses_while_nothing_is_learnt():
    series = {"attention/h.0/entropy": COLLAPSE, "train/loss": FLAT}
    [finding], _ = found("attention-entropy", series)
    assert (finding.layer, finding.step) == ("h.0", SAMPLES[12])
    assert "0.5% of the entropy of uniform attention" in finding.summary


@pytest.mark.parametrize(
    "series",
    [
        {"attention/h.0/entropy": COLLAPSE, "train/loss": FALLING},  # sharp, for it has learnt
        {"attention/h.0/entropy": (SAMPLES, np.full(20, 0.005)), "train/loss": FLAT},  # so from the start
        {"attention/h.0/entropy": (SAMPLES, np.linspace(0.9, 0.1, 20)), "train/loss": FLAT},
    ],
)
def test_other_attention_is_not(series):
    assert found("attention-entropy", series)[0] == []


def test_without_a_loss_it_cannot_tell():
    findings, [missing] = found("attention-entropy", {"attention/h.0/entropy": COLLAPSE})
    assert findings == []
    assert "a loss, as train/loss" in missing


def test_a_loss_that_had_fallen_and_rises_as_attention_collapses():
    loss = np.where(STEPS < 380, 3.0 - STEPS / 200, 2.5) + 0.02 * NOISE
    [finding], _ = found(
        "attention-entropy", {"attention/h.0/entropy": COLLAPSE, "train/loss": (STEPS, loss)}
    )
    assert finding.step == SAMPLES[12]
    flat = np.where(STEPS < 380, 3.0 - STEPS / 200, 1.1) + 0.02 * NOISE
    assert (
        found("attention-entropy", {"attention/h.0/entropy": COLLAPSE, "train/loss": (STEPS, flat)})[0] == []
    )
