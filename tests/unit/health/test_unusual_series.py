"""Made series of unusual trainings: none is accused where it is healthy, each planted fault is told.

Not among them, for the rules tell of them and cannot know better: a curriculum of which nothing is recorded
but that its next stage lifts the loss (loss-spike), and an evaluation loss that rises for long before the
model generalizes (overfitting).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.health_series import START, found, noise

SEEDS = (0, 4)


def wandering(count, scale, memory, seed):
    """Noise whose neighbours correlate."""
    values = noise(count, scale, seed)
    for at in range(1, count):
        values[at] += memory * values[at - 1]
    return values


def jittered(values, scale, seed):
    return values * (1 + noise(len(values), scale, seed))


def evaluated(values, every):
    """An evaluation every so many steps."""
    steps = np.arange(len(values)) * every + every - 1
    return steps, values, START + steps + 0.5


def healthy(seed):
    n = 1500
    a = np.arange(n)
    yield (
        "gan two lrs",
        {
            "train/d_loss": 0.6 + wandering(n, 0.05, 0.9, seed),
            "train/g_loss": 1.2 + 0.5 * np.sin(a / 150) + wandering(n, 0.08, 0.9, seed + 9) + a / 1500,
            "lr/d": np.full(n, 4e-4),
            "lr/g": np.full(n, 1e-4),
        },
    )
    yield (
        "dpo",
        {
            "train/loss": 0.693 - 0.25 * (1 - np.exp(-a / 500)) + noise(n, 0.06, seed),
            "train/rewards/margins": 2 * (1 - np.exp(-a / 500)) + noise(n, 0.3, seed + 5),
            "train/grad_norm": np.abs(5 + a / 300 + wandering(n, 0.6, 0.5, seed)),
            "train/learning_rate": 5e-7 * np.minimum(1, (a + 1) / 150) * (1 - a / n),
        },
    )
    yield (
        "simpo negative loss",
        {
            "train/loss": 0.3 - 1.5 * (1 - np.exp(-a / 600)) + noise(n, 0.2, seed),
            "train/learning_rate": 1e-6 * (1 - a / n),
        },
    )
    sp = np.random.default_rng(seed)
    yield (
        "rl sparse",
        {
            "rollout/ep_rew_mean": np.where(
                a < 900, (sp.random(n) < 0.01) * 1.0, np.minimum(1, (a - 900) / 300)
            ),
            "train/loss": np.abs(1e-3 + (sp.random(n) < 0.03) * sp.exponential(0.5, n)),
            "train/value_loss": np.abs(1e-3 + (sp.random(n) < 0.03) * sp.exponential(0.5, n)),
            "train/entropy": 1.3 - a / n * 0.5 + noise(n, 0.01, seed),
        },
    )
    yield (
        "rl loss only",
        {
            "losses/policy_loss": noise(n, 0.02, seed),
            "losses/value_loss": np.abs(5 * np.exp(-a / 300) + wandering(n, 0.3, 0.6, seed)),
            "charts/episodic_return": 100 * (1 - np.exp(-a / 700)) + wandering(n, 6, 0.8, seed),
        },
    )
    c = np.where(a < 700, math.log(256), math.log(256) * np.exp(-(a - 700) / 250) + 0.4)
    yield (
        "contrastive plateau then drop",
        {"train/contrastive_loss": c + noise(n, 0.02, seed), "train/lr": np.full(n, 3e-4)},
    )
    yield (
        "clip-style plateau 'loss'",
        {"train/loss": c + noise(n, 0.02, seed), "train/lr": 3e-4 * np.minimum(1, (a + 1) / 2000)},
    )
    e = np.arange(12)
    yield (
        "12 epochs",
        {
            "epoch/train_loss": 2.3 * np.exp(-e / 3) + 0.1 + noise(12, 0.03, seed),
            "epoch/val_loss": 2.2 * np.exp(-e / 3) + 0.35 + noise(12, 0.05, seed + 3),
        },
    )
    yield (
        "12 epochs keras",
        {
            "epoch_loss": 2.3 * np.exp(-e / 3) + 0.1 + noise(12, 0.03, seed),
            "evaluation_loss_vs_epochs": 2.2 * np.exp(-e / 3) + 0.35 + noise(12, 0.05, seed + 3),
            "val_accuracy": np.minimum(0.9, 1 - np.exp(-e / 3)) + noise(12, 0.01, seed),
        },
    )
    cyc = 1e-3 * (0.1 + 0.9 * np.abs((a % 200) / 100 - 1))
    yield (
        "cyclic lr",
        {
            "train/loss": 0.4 + 1.9 * np.exp(-a / 200) + 0.25 * cyc / 1e-3 + noise(n, 0.06, seed),
            "train/lr": cyc,
            "gradients/norm": np.abs(jittered(0.5 + 0.8 * cyc / 1e-3, 0.2, seed)),
            "eval/loss": evaluated(
                0.5
                + 1.9 * np.exp(-np.arange(60) / 8)
                + 0.15 * np.abs((np.arange(60) * 25 % 200) / 100 - 1)
                + noise(60, 0.02, seed),
                25,
            ),
        },
    )
    wr = 1e-3 * 0.5 * (1 + np.cos(math.pi * (a % 300) / 300))
    jump = 0.35 * np.exp(-(a % 300) / 40) * (a >= 300)
    yield (
        "warm restarts",
        {
            "train/loss": 0.3 + 2 * np.exp(-a / 150) + jump + noise(n, 0.04, seed),
            "train/lr": wr,
            "eval/loss": evaluated(
                0.5
                + 1.7 * np.exp(-np.arange(60) * 25 / 150)
                + 0.35 * np.exp(-((np.arange(60) * 25) % 300) / 40) * (np.arange(60) * 25 >= 300)
                + noise(60, 0.02, seed),
                25,
            ),
        },
    )
    yield (
        "label noise",
        {
            "train/loss": 1.4 + 0.9 * np.exp(-a / 150) + noise(n, 0.15, seed),
            "train/accuracy": 0.6 - 0.5 * np.exp(-a / 150) + noise(n, 0.05, seed),
            "eval/loss": evaluated(
                1.35 + 0.9 * np.exp(-np.arange(60) / 6) + wandering(60, 0.02, 0.7, seed), 25
            ),
        },
    )
    sc = 65536.0 * 2 ** np.minimum(a // 200, 8)
    yield (
        "huge loss scale",
        {
            "train/loss": 0.3 + 2 * np.exp(-a / 200) + noise(n, 0.05, seed),
            "amp/scale": sc,
            "scaled_loss": (0.3 + 2 * np.exp(-a / 200)) * sc,
            "gradients/norm": np.abs(jittered(1 + 3 * np.exp(-a / 100), 0.2, seed)),
        },
    )
    yield (
        "nll crossing 0",
        {
            "train/nll": 2.0 - 3.5 * (1 - np.exp(-a / 300)) + noise(n, 0.15, seed),
            "eval/nll": evaluated(2.0 - 3.3 * (1 - np.exp(-np.arange(60) / 12)) + noise(60, 0.08, seed), 25),
            "gradients/norm": np.abs(jittered(3 + 2 * (1 - np.exp(-a / 300)), 0.3, seed)),
        },
    )
    yield (
        "flow loss crossing 0",
        {
            "train/loss": 2.0 - 3.5 * (1 - np.exp(-a / 300)) + noise(n, 0.15, seed),
            "eval/loss": evaluated(2.0 - 3.3 * (1 - np.exp(-np.arange(60) / 12)) + noise(60, 0.08, seed), 25),
        },
    )
    gl = np.random.default_rng(seed).lognormal(0, 1, n)
    yield (
        "heavy tails batch 1",
        {
            "train/loss": 0.6 * gl * (0.5 + np.exp(-a / 300)),
            "gradients/norm": np.random.default_rng(seed + 50).lognormal(0.5, 1, n),
        },
    )
    yield (
        "distill KL",
        {
            "train/loss": 0.05 + 0.8 * np.exp(-a / 100) + np.abs(noise(n, 0.02, seed)),
            "train/kd_kl": 0.05 + 0.8 * np.exp(-a / 100) + np.abs(noise(n, 0.02, seed)),
            "eval/loss": evaluated(
                0.4
                + 0.5 * np.exp(-np.arange(60) / 5)
                + 0.02 * np.sin(np.arange(60) / 3)
                + noise(60, 0.01, seed),
                25,
            ),
        },
    )
    yield (
        "accumulate micro loss",
        {
            "train/loss": (0.3 + 2 * np.exp(-a / 200) + noise(n, 0.05, seed)) / 8,
            "gradients/norm": np.abs(jittered(np.full(n, 0.4), 0.3, seed)),
        },
    )
    yield (
        "wsd decay",
        {
            "train/loss": 2.8
            + 2 * np.exp(-a / 150)
            - 0.25 * np.maximum(a - 1200, 0) / 300
            + noise(n, 0.03, seed),
            "train/lr": 1e-3 * np.where(a < 1200, 1, 1 - (a - 1200) / 300),
        },
    )

    yield from set_by_hand(seed)


def layers(count, every=10, **of):
    """Samples of layers: tag with dots for slashes, values."""
    steps = np.arange(count) * every
    return {
        tag.replace("__", "/"): (
            steps,
            np.broadcast_to(np.asarray(values, float), count),
            START + steps + 0.2,
        )
        for tag, values in of.items()
    }


def stages(seed, each=250, count=4):
    """A loss that each stage lifts, and that falls again."""
    a = np.arange(each * count)
    return (0.02 + (1.5 + a // each) * np.exp(-(a % each) / 25)) * (1 + noise(len(a), 0.1, seed)), a // each


def set_by_hand(seed):
    """What is set by hand changes the loss, and is recorded."""
    loss, stage = stages(seed)
    a = np.arange(len(loss))
    for tag in ("curriculum/stage", "task", "train/fold", "data/seq_len"):
        yield (f"stages told by {tag}", {"train/loss": loss, tag: stage, "grad_norm": 0.2 + 2 * loss})
    changes = np.arange(0, 1000, 250)
    told = (changes, np.arange(4.0), START + changes)
    yield ("a stage recorded where it changes", {"train/loss": loss, "phase": told})
    yield (
        "folds in one tag",
        {"loss": (a % 250, loss, START + a), "lr": (a % 250, loss * 0 + 1e-3, START + a)},
    )
    mean = np.zeros(1200)
    for at in range(1200):
        mean[at] = 0.99 * mean[at - 1] + 0.01 * (0.3 + 2 * np.exp(-at / 150) + noise(1, 0.1, seed + at)[0])
    yield ("a mean that begins at 0", {"train/loss": mean, "lr": np.full(1200, 1e-3)})
    ones = 1 + noise(40, 0.1, seed)
    frozen = {"gradients__a.weight__norm": ones, "updates__a.weight__weight_ratio": 0.0}
    moving = {"gradients__b.weight__norm": ones, "updates__b.weight__weight_ratio": 1e-3 * ones}
    yield ("frozen by a mask", layers(40, **frozen, **moving))
    base = {"weights__base.0.weight__norm": 3.7, "weights__base.2.weight__norm": 4.5}
    yield ("low ranks beside frozen weights", layers(40, **base, weights__lora_A__norm=np.cumsum(ones)))
    a = np.arange(1000)
    harder = 0.3 + 2 * np.exp(-a / 60) + np.maximum(a - 300, 0) / 300 + noise(1000, 0.03, seed)
    evaluations = evaluated(0.95 - 0.8 * np.exp(-np.arange(50) / 3) + noise(50, 0.005, seed), 20)
    yield ("attacks that grow", {"train/loss": harder, "eval/accuracy": evaluations})
    unsure = evaluated(0.2 + 1.8 * np.exp(-np.arange(50) / 3) + np.maximum(np.arange(50) - 15, 0) / 60, 20)
    attacked = {"train/loss": harder, "eval/accuracy": evaluations, "eval/loss": unsure}
    yield ("attacks that grow, and the loss of evaluations with them", attacked)
    late = ones * (np.arange(40) >= 25) * 1e-3
    unfrozen = {"updates__one.weight__weight_ratio": 0.0, "updates__one.bias__weight_ratio": 0.0,
                "updates__two.weight__weight_ratio": late, "updates__two.bias__weight_ratio": late,
                "updates__three.weight__weight_ratio": 1e-3 * ones}  # fmt: skip
    yield ("unfrozen from the last layer on, updates alone recorded", layers(40, **unfrozen))
    rng = np.random.default_rng(seed)
    made = np.where(rng.random(150) < 0.7, rng.integers(1, 12, 150), rng.integers(20, 60, 150))
    made[100] = 200
    step = np.cumsum(made)
    logged = 0.3 + 2 * np.exp(-step / 300) + noise(150, 0.03, seed)
    yield ("points at irregular steps of 20 s", {"loss": (step, logged, START + 20.0 * step)})


def planted(seed):
    loss, stage = stages(seed)
    a = np.arange(len(loss))
    spiked = loss + np.where((a >= 420) & (a < 424), 4.0, 0)
    yield ("spike in a stage", "loss-spike", {"train/loss": spiked, "curriculum/stage": stage})
    yield ("spike in a fold", "loss-spike", {"loss": (a % 250, spiked, START + a)})
    yield (
        "stage that diverges",
        "loss-not-decreasing",
        {"train/loss": np.where(a < 600, loss, 0.5 * np.exp((a - 600) / 60)), "curriculum/stage": stage},
    )
    counted = 2.0 + noise(len(a), 0.05, seed) + np.where((a >= 420) & (a < 424), 4.0, 0)
    yield ("spike beside what only counts", "loss-spike", {"train/loss": counted, "task": a % 7})
    epochs = (np.arange(40) * 25, 1 + noise(40, 0.1, seed + 2), START + np.arange(40) * 25.0)
    yield ("spike beside weights by epoch", "loss-spike", {"train/loss": counted, "layers/fc.weight": epochs})
    burst = np.concatenate([[2.3, 6.0, 14.0, 22.0], 20 + noise(300, 1.0, seed)])
    yield ("explodes at once", "loss-not-decreasing", {"train/loss": burst})
    ones = 1 + noise(40, 0.1, seed)
    stops = {"gradients__a.weight__norm": ones, "updates__a.weight__weight_ratio": ones * (np.arange(40) < 9)}
    moving = {"gradients__b.weight__norm": ones, "updates__b.weight__weight_ratio": 1e-3 * ones}
    yield ("updates that are lost from a step on", "unchanged-tensor", layers(40, **stops, **moving))
    nothing = {"gradients__a.weight__norm": ones, "updates__a.weight__weight_ratio": 0.0}
    yield ("nothing moves", "unchanged-tensor", layers(40, **nothing))
    detached = {"gradients__a.weight__norm": 0.0, "updates__a.weight__weight_ratio": 0.0}
    yield ("no gradient comes there", "unchanged-tensor", layers(40, **detached, **moving))
    ahead = {"updates__a.weight__weight_ratio": 1e-3 * ones, "updates__mid.weight__weight_ratio": 0.0,
             "updates__c.weight__weight_ratio": 1e-3 * ones}  # fmt: skip
    yield (
        "one layer among others stands still, updates alone recorded",
        "unchanged-tensor",
        layers(40, **ahead),
    )
    beside = {"updates__a.weight__weight_ratio": 0.0, "updates__a.bias__weight_ratio": 1e-3 * ones,
              "updates__b.weight__weight_ratio": 1e-3 * ones}  # fmt: skip
    yield ("the first layer's weight alone, then nothing", "unchanged-tensor",
           layers(40, **{**beside, "updates__b.weight__weight_ratio": 0.0}))  # fmt: skip
    step = np.cumsum(np.where(a[:150] % 7 == 0, 40, 3))
    walls = START + 20.0 * step + np.where(a[:150] > 100, 9000.0, 0.0)
    yield ("a stall between points at irregular steps", "stalled-training",
           {"loss": (step, 2.0 + noise(150, 0.03, seed), walls)})  # fmt: skip
    worse = evaluated(0.95 - 0.8 * np.exp(-np.arange(50) / 3) - np.maximum(np.arange(50) - 15, 0) / 50, 20)
    a = np.arange(1000)
    climbs = 0.3 + 2 * np.exp(-a / 60) + np.maximum(a - 300, 0) / 200 + noise(1000, 0.03, seed)
    yield (
        "climbs, and evaluations too",
        "loss-not-decreasing",
        {"train/loss": climbs, "eval/accuracy": worse},
    )
    n = 1200
    a = np.arange(n)
    base = 0.3 + 2 * np.exp(-a / 120)
    yield (
        "nan late",
        "nonfinite-loss",
        {"my_objective/train_loss": np.where(a >= 905, np.nan, base + noise(n, 0.05, seed))},
    )
    yield (
        "inf nll",
        "nonfinite-loss",
        {"train/nll": np.where(a >= 700, np.inf, base - 1 + noise(n, 0.05, seed))},
    )
    yield (
        "negative loss diverges",
        "loss-not-decreasing",
        {
            "train/loss": np.where(a < 600, -1 - 1 * (1 - np.exp(-a / 100)), -2 + np.exp((a - 600) / 60))
            + noise(n, 0.05, seed)
        },
    )
    yield (
        "lr x100 by a resume",
        "learning-rate",
        {
            "train/loss": base + noise(n, 0.05, seed),
            "opt/lr": np.where(a < 700, 3e-4 * np.minimum(1, (a + 1) / 100), 3e-2),
        },
    )
    yield (
        "grad explodes slowly",
        "exploding-gradient",
        {
            "train/loss": np.where(a < 600, base, base + (a - 600) / 200) + noise(n, 0.05, seed),
            "train/grad_norm": jittered(1 * np.exp(np.maximum(a - 600, 0) / 50), 0.2, seed),
        },
    )
    yield (
        "overfit finetune",
        "overfitting",
        {
            "train/loss": 0.02 + 0.7 * np.exp(-a / 150) + np.abs(noise(n, 0.02, seed)),
            "eval/loss": evaluated(
                0.5
                + 0.3 * np.exp(-np.arange(40) / 3)
                + 0.02 * np.maximum(np.arange(40) - 8, 0)
                + noise(40, 0.01, seed),
                30,
            ),
        },
    )
    yield (
        "overfit 12 epochs hf",
        "overfitting",
        {
            "train/loss": (
                np.arange(12) * 100 + 99,
                1.5 * np.exp(-np.arange(12) / 3) + noise(12, 0.01, seed),
                START + np.arange(12) * 100.0,
            ),
            "eval/loss": (
                np.arange(12) * 100 + 99,
                np.where(np.arange(12) < 3, 1.4 - 0.2 * np.arange(12), 0.9 + 0.12 * (np.arange(12) - 3))
                + noise(12, 0.01, seed + 3),
                START + np.arange(12) * 100.0 + 5,
            ),
        },
    )
    yield (
        "detached head",
        "loss-not-decreasing",
        {"train/loss": 2.3 + noise(n, 0.12, seed), "train/lr": np.full(n, 1e-3)},
    )
    yield (
        "loss spike does not return",
        "loss-spike",
        {"train/loss": np.where(a < 700, base, 2.6 * np.exp(-(a - 700) / 400) + 0.5) + noise(n, 0.05, seed)},
    )
    yield (
        "zero lr group",
        "loss-not-decreasing",
        {"train/loss": 0.69 + noise(n, 0.2, seed), "train/lr": np.zeros(n)},
    )
    w = START + np.cumsum(np.where(a % 10 == 0, 8.0, 1.0))
    yield (
        "stall",
        "stalled-training",
        {"train/loss": (a, base + noise(n, 0.05, seed), w + np.where(a > 800, 90000, 0))},
    )
    yield (
        "one gradient in lstm x40",
        "gradient-spike",
        {
            "train/loss": base + noise(n, 0.05, seed),
            "grad_norm": jittered(np.full(n, 0.7), 0.25, seed) * np.where(a == 801, 40, 1),
        },
    )


def named(of):
    return [pytest.param(*each[1:], id=f"{each[0]}-{seed}") for seed in SEEDS for each in of(seed)]


@pytest.mark.parametrize("series", named(healthy))
def test_a_healthy_training_is_not_accused(series):
    assert found(series) == []


@pytest.mark.parametrize(("rule", "series"), named(planted))
def test_a_planted_fault_is_told(rule, series):
    assert rule in found(series)
