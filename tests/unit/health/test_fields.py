"""Trainings of many fields as frameworks record them: sound ones are left alone, faults are named."""

import numpy as np
import pytest
from support.fields import FIELDS

from stepscope.health import Monitor, Verdict
from stepscope.health.changes import RecordedSeries, change_log

FAULTS = {
    "speech": ("constant-output", "valid/wer", 100, 100),
    "diffusion": ("worse-than-best", "eval/fid", 16_000, 22_000),
    "ppo": ("return-collapsed", "rollout/ep_rew_mean", 250 * 2048, 252 * 2048),
    "cleanrl": ("return-collapsed", "charts/episodic_return", 60_000, 65_000),
    "gan": ("discriminator-won", "Loss_D", 2490, 2515),
    "recommender": ("worse-than-best", "valid/ndcg@10", 40, 55),
    "lora": ("overfitting", "eval/loss", 1500, 2500),
    "forecast": ("evaluation-unlike-training", "val_loss", 100, 100),
    "graph": ("loss-not-decreasing", "Loss/train", 1, 1),
    "contrastive": ("evaluation-collapsed", "val/imagenet-zeroshot-val-top1", 1401, 1600),
    "distillation": ("nonfinite-series", "train/kd_div", 900, 910),
    "vae": ("loss-not-decreasing", "train/elbo", 1195, 1225),
    "flow": ("loss-not-decreasing", "train/log_likelihood", 1, 1),
}
"""For each field the rule that names its fault, the series, and the first and last step of its onset."""
NEVER_THERE = {"speech", "forecast", "graph", "flow"}
"""Faults that are there from the first step on, so that nothing changes."""


def recorded(field: str, *, is_faulty: bool, seed: int = 7):
    return FIELDS[field](np.random.default_rng(seed), is_faulty)


def verdict_of(series) -> Verdict:
    monitor = Monitor()
    for tag, (steps, values, walls) in series.items():
        monitor.take(tag, steps, values, walls)
    monitor.finish()
    return monitor.verdict


@pytest.mark.parametrize("field", FIELDS)
def test_a_sound_training_is_left_alone(field):
    for seed in (7, 8, 9):
        assert verdict_of(recorded(field, is_faulty=False, seed=seed)).findings == []


@pytest.mark.parametrize("field", FAULTS)
def test_a_fault_is_named_with_its_onset(field):
    rule, tag, first, last = FAULTS[field]
    for seed in (7, 8):
        findings = verdict_of(recorded(field, is_faulty=True, seed=seed)).findings
        named = [each for each in findings if each.rule == rule and tag in (each.tag, *each.also)]
        assert len(named) == 1, findings
        assert named[0].is_open, named[0]
        assert first <= named[0].since <= last, named[0]


@pytest.mark.parametrize("field", sorted(set(FAULTS) - NEVER_THERE - {"diffusion", "lora", "cleanrl"}))
def test_a_change_is_in_the_log(field):
    _, _, first, last = FAULTS[field]
    series = recorded(field, is_faulty=True)
    groups = change_log(RecordedSeries(tag, *columns) for tag, columns in series.items())
    assert any(group.first_step <= last and first <= group.last_step for group in groups), groups


def test_a_likelihood_is_judged_with_the_sign_of_a_loss_and_says_so():
    finding = verdict_of(recorded("vae", is_faulty=True)).findings[0]
    assert finding.summary.startswith("minus train/elbo, as a loss: the mean of 20 losses rose from")


def test_a_bound_that_is_positive_may_have_either_sign():
    series = {
        tag: (steps, -values, walls)
        for tag, (steps, values, walls) in recorded("vae", is_faulty=True).items()
    }
    verdict = verdict_of(series)
    assert verdict.findings == []
    assert "loss-not-decreasing" in {each.rule for each in verdict.abstained}


def test_a_return_that_falls_with_a_setting_is_meant():
    series = recorded("ppo", is_faulty=True)
    steps, _, walls = series["rollout/ep_rew_mean"]
    series["curriculum/stage"] = steps, np.where(np.arange(len(steps)) < 250, 0.0, 1.0), walls
    assert "return-collapsed" not in {each.rule for each in verdict_of(series).findings}


def test_a_return_that_comes_back_ends_the_finding():
    steps, values, walls = recorded("ppo", is_faulty=True)["rollout/ep_rew_mean"]
    more = np.arange(1, 401) * 2048
    back = np.concatenate([values, np.full(400, values[200:250].mean())])
    series = {
        "rollout/ep_rew_mean": (np.append(steps, steps[-1] + more), back, np.append(walls, walls[-1] + more))
    }
    findings = [each for each in verdict_of(series).findings if each.rule == "return-collapsed"]
    assert [each.is_open for each in findings] == [False]
