"""Made series for what rules once said wrongly (test_known_wrong.py has trainings), said and not said.

| what was wrong | where its other cases are |
|---|---|
| steady epochs of 16 to 44 minutes were "stalled" | here; epochs-of-*-minutes of the corpus |
| schedules were jumps of the learning rate | here; warm-restarts, linear-to-zero, finetune-frozen-* |
| a converged start made every gradient explode | here; converged-long |
| losses of GANs, slow starts, small batches and policies did not decrease | here; gan-*, rl-*, slow-start-* |
| the end of the first plateau was a spike of the gradient | here; cnn-sgd-plateau-ends-* |
| noisy evaluations were overfitting, again and again | here; noisy-validation, simclr-*, fewshot-* |
| easy tasks were badly initialised | here; easy-two-classes, easy-ten-classes |
| steps of 1 to 5 ms on a busy machine were outliers | here; busy-machine-* |
| dead units of functional activations, parameters of no optimizer | torch: test_activations, test_gradients |
| norms other than 2, two clippings, a NaN's rank, noise scale | torch: test_gradients, test_attach |
| texts without what they speak of | unit/analyze and unit/cli: what findings say |
| the broken model was saved | unit/record/hooks/test_health.py |
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.health_series import START, found, noise


def falling(count, seed=0, scale=0.02, rate=100.0):
    """A loss that falls from 2.3 to 0.3."""
    return 0.3 + 2.0 * np.exp(-np.arange(count) / rate) + noise(count, scale, seed)


@pytest.mark.parametrize("minutes", [16, 27, 44])
def test_steady_epochs_are_no_stall_and_a_pause_beyond_their_rhythm_is_one(minutes):
    epochs = np.arange(40)
    walls = START + 60.0 * minutes * epochs
    steady = {"train/loss": (epochs, falling(40, rate=10), walls)}
    assert "stalled-training" not in found(steady)
    late = walls + np.where(epochs >= 30, 86_400.0 * 3, 0)
    assert "stalled-training" in found({"train/loss": (epochs, falling(40, rate=10), late)})


STEP = np.arange(600)
SCHEDULES = {
    "linear to zero": 1e-3 * (1 - STEP / 599),
    "warm restarts": 5e-4 * (1 + np.cos(math.pi * (STEP % 100) / 100)),
    "warm-up": 1e-3 * np.minimum(1, (STEP + 1) / 100),
    "frozen until 300": np.where(STEP < 300, 0.0, 1e-4),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_no_jump(name):
    series = {"optimizer/lr": SCHEDULES[name], "train/loss": falling(600)}
    if "frozen" in name:  # of one group, while the other trains
        series["optimizer/lr/head"] = np.full(600, 1e-3)
    assert "learning-rate" not in found(series)


def test_a_jump_of_the_learning_rate_is_told_once_under_two_names():
    rate = np.full(600, 1e-3)
    rate[400:] = 0.5
    both = {"train/lr": rate, "optimizer/lr": rate, "train/loss": falling(600)}
    assert found(both).count("learning-rate") == 1


@pytest.mark.parametrize(("level", "told"), [(4.0, False), (4e4, True)])
def test_a_gradient_explodes_by_what_it_was_and_not_by_a_converged_start(level, told):
    """The start was 1.44, then all was met for a while: 4 is nothing beside the start."""
    norm = np.concatenate([np.full(5, 1.44), np.full(300, 1e-3), np.full(200, level)])
    loss = np.concatenate([falling(305), np.full(200, 3.0) + noise(200, 0.05)])
    told_rules = found({"gradients/norm": norm * (1 + noise(505, 0.05)), "train/loss": loss})
    assert ("exploding-gradient" in told_rules) == told


def test_losses_of_adversaries_are_not_expected_to_fall():
    flat = 0.69 + noise(3000, 0.05)
    adversaries = {"loss/generator": flat + 0.2, "loss/discriminator": flat}
    assert not {"loss-not-decreasing", "plateau", "loss-spike"} & set(found(adversaries))
    assert "loss-not-decreasing" in found({"train/loss": flat})


def test_a_slow_start_is_no_standstill():
    """Nothing for 300 steps, then it falls: what is learnt late is learnt."""
    slow = np.concatenate(
        [2.3 + noise(300, 0.02), 0.3 + 2.0 * np.exp(-np.arange(900) / 100) + noise(900, 0.02)]
    )
    rules = found({"train/loss": slow, "optimizer/lr": np.full(1200, 1e-3)})
    assert "loss-not-decreasing" not in rules


def test_a_loss_that_climbs_within_a_few_points_is_a_spike():
    loss = 0.2 + noise(400, 0.01)
    assert "loss-spike" not in found({"train/loss": loss})
    loss[300:303] = 1.4, 2.7, 4.6
    assert "loss-spike" in found({"train/loss": loss})


def test_the_end_of_a_first_plateau_is_no_spike_of_the_gradient():
    """The norm grows over some tens of steps as the loss begins to fall."""
    norm = 0.05 + 0.4 / (1 + np.exp(-(np.arange(600) - 200) / 15)) + np.abs(noise(600, 0.01))
    assert "gradient-spike" not in found({"gradients/norm": norm})
    norm[450] = 60.0
    assert "gradient-spike" in found({"gradients/norm": norm})


def evaluated(values, train):
    steps = 100 * np.arange(1, len(values) + 1)
    return {
        "train/loss": (steps - 1, np.asarray(train), START + steps - 1.0),
        "eval/loss": (steps, np.asarray(values), START + steps * 1.0),
    }


def test_a_noisy_evaluation_is_no_overfitting_and_a_rise_is_one_finding():
    train = 0.1 + 1.0 * np.exp(-np.arange(60) / 8)
    noisy = 0.5 + 0.6 * np.exp(-np.arange(60) / 8) + noise(60, 0.12, 3)
    assert not {"overfitting", "overtraining"} & set(found(evaluated(noisy, train)))
    rises = noisy + np.where(np.arange(60) > 25, 0.05 * (np.arange(60) - 25), 0)
    assert found(evaluated(rises, train)).count("overfitting") == 1


def short(turns_at, rise, noise_sd, seed, count=12):
    """A short training: its evaluation falls steeply, and from one evaluation on rises by so much at each."""
    at = np.arange(1, count + 1)
    train = 2 * np.exp(-at / 3.2)
    turned = rise * np.maximum(at - turns_at, 0)
    return evaluated(train + 0.05 + turned + noise(count, noise_sd, seed), train)


def test_a_short_training_that_turns_is_overfitting():
    """A person sees it at once in twelve evaluations, which are too few for a test by ranks."""
    told = [found(short(6, 0.083, 0.005, seed)).count("overfitting") for seed in range(20)]
    assert sum(told) >= 19


def test_a_short_training_that_does_not_turn_is_no_overfitting():
    for noise_sd in (0.005, 0.03, 0.1):
        flat = [found(short(99, 0.0, noise_sd, seed)).count("overfitting") for seed in range(100)]
        assert sum(flat) == 0
    slightly = [found(short(6, 0.004, 0.005, seed)).count("overfitting") for seed in range(20)]
    assert sum(slightly) == 0


def test_a_rise_of_next_to_nothing_of_what_was_learnt_is_no_overfitting():
    """From 1.1 to 0.042, then to 0.054: a quarter more of what is left, a hundredth of what was learnt."""
    at = np.arange(60)
    train = 0.005 + 1.1 * np.exp(-at / 4)
    rise = np.clip((at - 25) / 20, 0, 1)
    small = 0.042 + 1.06 * np.exp(-at / 4) + 0.012 * rise
    large = 0.042 + 1.06 * np.exp(-at / 4) + 0.3 * rise
    assert "overfitting" not in found(evaluated(small, train))
    assert "overfitting" in found(evaluated(large, train))


def wandering(count, seed):
    """Noise whose neighbours correlate by 0.8: an evaluation that follows the weights about a minimum."""
    values = noise(count, 0.012, seed)
    for at in range(1, count):
        values[at] += 0.8 * values[at - 1]
    return values


def test_an_evaluation_that_wanders_is_no_overfitting():
    """It doubles and comes back, again and again; judged as if points were independent, 17 of 20 are told."""
    at = np.arange(160)
    train = 0.05 + 1.1 * np.exp(-at / 4) - 1e-4 * at
    fall = 0.1 + 1.05 * np.exp(-at / 5)
    told = [found(evaluated(fall + wandering(160, seed), train)).count("overfitting") for seed in range(20)]
    assert sum(told) <= 5
    rise = 0.004 * np.maximum(at - 60, 0)
    clear = [
        found(evaluated(fall + rise + wandering(160, seed), train)).count("overfitting") for seed in range(20)
    ]
    assert sum(clear) >= 19


def test_a_rise_that_was_taken_back_is_no_overfitting_when_it_comes_again():
    at = np.arange(160)
    train = 0.05 + 1.1 * np.exp(-at / 4) - 1e-4 * at
    fall = 0.2 + 1.05 * np.exp(-at / 4)
    once = (
        0.15 * np.exp(-(((at - 22) / 3.0) ** 2)) * (at < 30)
    )  # for three evaluations only, then again for long
    again = 0.15 * (1 - np.exp(-np.maximum(at - 80, 0) / 10))
    assert "overfitting" not in found(evaluated(fall + once + again, train))
    assert "overfitting" in found(evaluated(fall + again, train))
    assert "overfitting" in found(evaluated(fall + once + 3 * again, train))


@pytest.mark.parametrize("steps", [3, 9.5, 15, 40])
@pytest.mark.parametrize("scale", [0.0, 0.02])
def test_a_loss_that_fell_steeply_is_not_said_to_stand_still(steps, scale):
    """Points of a fall are alike, so the errors of their means are large; the recorded rate may be wrong."""
    loss = 2.0 * np.exp(-np.arange(400) / steps) * (1 + noise(400, scale))
    assert "loss-not-decreasing" not in found({"train/loss": loss, "optimizer/lr": np.full(400, 1.554e-9)})


@pytest.mark.parametrize("scale", [0.002, 0.2])
def test_a_rate_of_next_to_nothing_is_told_however_noisy_the_loss(scale):
    loss = 0.7 + noise(400, scale)
    assert "loss-not-decreasing" in found({"train/loss": loss, "optimizer/lr": np.full(400, 4e-10)})
    warms_up = np.minimum(1e-3, 4e-10 * 2.0 ** np.arange(400))
    assert "loss-not-decreasing" not in found({"train/loss": loss, "optimizer/lr": warms_up})
    falls = falling(400, scale=scale)
    assert "loss-not-decreasing" not in found({"train/loss": falls, "optimizer/lr": np.full(400, 4e-10)})


def test_noise_with_a_heavy_tail_is_no_explosion_in_the_first_steps():
    """Losses of batches of one: the first may be low by chance, and one of the next ten times that."""
    at = np.arange(400)
    told = 0
    for seed in range(60):
        heavy = np.random.default_rng(seed).lognormal(0, 1, 400)
        told += "loss-not-decreasing" in found({"train/loss": 0.6 * heavy * (0.5 + np.exp(-at / 200))})
    assert told <= 1


@pytest.mark.parametrize("then", [0.75, 6.0])
def test_an_explosion_in_the_first_steps_is_told_where_the_loss_never_comes_below_its_start(then):
    loss = np.concatenate([[0.7, 0.9, 3.0, 12.0, 9.0], np.full(395, then) * (1 + noise(395, 0.02))])
    assert "loss-not-decreasing" in found({"train/loss": loss, "optimizer/lr": np.full(400, 1.0)})


@pytest.mark.parametrize("classes", [2, 10])
def test_a_first_loss_of_guessing_is_no_bad_start(classes):
    first = math.log(classes)
    loss = first * (0.1 + 0.9 * np.exp(-np.arange(300) / 40)) + noise(300, 0.01)
    assert "poor-initialization" not in found({"train/loss": loss, "train/accuracy": 1 - loss / first})


def test_layers_whose_activations_differ_by_hundreds_are_a_bad_start():
    samples = np.arange(0, 100, 10)
    layer = {
        f"activations/{name}/std": (samples, np.full(10, sigma), START + samples)
        for name, sigma in (("0", 4.56), ("1", 1.0), ("2", 0.01))
    }
    alike = {tag: (steps, np.ones(10), walls) for tag, (steps, _, walls) in layer.items()}
    assert "poor-initialization" in found(layer)
    assert "poor-initialization" not in found(alike)


@pytest.mark.parametrize(("every", "by", "told"), [(97, 0.02, False), (9, 3.0, True)])
def test_slow_steps_count_by_what_they_cost_the_run(every, by, told):
    """On a busy machine some steps of 3 ms take 20 more: next to nothing. Seconds are something."""
    steps = 0.003 + np.abs(noise(4000, 0.0004))
    steps[::every] += by
    walls = START + np.cumsum(steps)
    rules = found({"speed/step_time_s": (np.arange(4000), steps, walls)})
    assert ("step-outliers" in rules) == told


def test_a_healthy_run_of_twenty_steps_is_left_alone():
    assert found({"train/loss": falling(20, rate=8), "gradients/norm": 1 + noise(20, 0.1)}) == []
