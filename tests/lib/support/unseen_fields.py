"""Made trainings of twenty more fields, ten sound and ten with one fault, with what a judge should answer.

Written, with the answers, before any was judged. The names are those that the frameworks record.
"""

from dataclasses import dataclass, field

import numpy as np

from support.fields import START, ar, cosine, decay, every


@dataclass(frozen=True)
class Answer:
    """What should be said about a faulty training.

    Attributes:
        rules: Those that name the cause.
        tags: Series that show it.
        onset: The first and the last step between which it begins.
        is_change: Whether something changes on the way, which the change log should have.
    """

    rules: set[str]
    tags: set[str]
    onset: tuple[int, int]
    is_change: bool = field(default=True, kw_only=True)


def weather(rng):
    """An emulator of the weather, whose forecasts in training become longer twice: the loss steps up."""
    n, e = 4800, 48
    length = np.repeat([1, 2, 4], 1600)
    loss = decay(n, 0.9, 0.06, 500) * np.array([0, 1, 1.35, 0, 1.9])[length] * np.exp(ar(rng, n, 0.08))
    z500 = decay(e, 820, 190, 8) * np.exp(ar(rng, e, 0.012))
    return {
        "train/loss": every(1, loss),
        "train/rollout_length": every(1, length),
        "train/lr": every(1, cosine(n, 1e-3, 200)),
        "val/rmse/z500": every(100, z500),
        "val/rmse/t850": every(100, 0.5 + z500 / 240 + ar(rng, e, 0.02)),
        "val/acc/z500": every(100, 1 - (z500 / 1900) ** 2 + ar(rng, e, 0.001)),
    }


def ocr(rng):
    """PaddleOCR: a CTC loss that stays on its blanks at first, and then falls."""
    n, e = 2400, 24
    at = np.arange(n)
    loss = 4 + 22 / (1 + np.exp((at - 500) / 60)) + 18 * np.exp(-at / 25) - 3.2 * (1 - np.exp(-at / 900))
    loss = loss * np.exp(ar(rng, n, 0.1))
    acc = np.clip(0.87 / (1 + np.exp(-(np.arange(e) - 8) / 1.3)) + ar(rng, e, 0.006), 0, 1)
    acc[:5] = np.maximum(np.round(acc[:5], 2), 0)
    return {
        "TRAIN/CTCLoss": every(10, loss),
        "TRAIN/lr": every(10, cosine(n, 5e-4, 120)),
        "TRAIN/norm_edit_dis": every(10, np.clip(1 - loss / 30, 0, 1)),
        "EVAL/acc": every(1000, acc),
        "EVAL/norm_edit_dis": every(1000, np.clip(acc + 0.08 + ar(rng, e, 0.003), 0, 1)),
    }


def megatron(rng):
    """Megatron, pre-training: blocks of long documents, on which the loss is higher for a while."""
    n, e = 5000, 25
    loss = decay(n, 10.8, 3.1, 120) + 1.6 * (1 + np.arange(n) / 400) ** -0.7 - 0.5 + ar(rng, n, 0.025, 0.2)
    for begin in rng.integers(600, n - 100, 14):
        loss[begin : begin + rng.integers(15, 70)] += rng.uniform(0.08, 0.22)
    held = np.interp(np.arange(1, e + 1) * 200, np.arange(n), loss)
    held = np.minimum.accumulate(held) + 0.04 + ar(rng, e, 0.006)
    norm = (0.35 + 6 * np.exp(-np.arange(n) / 150)) * np.exp(ar(rng, n, 0.12))
    norm[rng.integers(1000, n, 5)] *= 4
    return {
        "lm loss": every(1, loss),
        "lm loss validation": every(200, held),
        "lm loss validation ppl": every(200, np.exp(held)),
        "grad-norm": every(1, norm),
        "learning-rate": every(1, cosine(n, 3e-4, 250)),
        "batch-size": every(1, np.full(n, 512.0)),
        "iteration-time": every(1, 1.9 * np.exp(np.abs(ar(rng, n, 0.01)))),
    }


def boosting(rng):
    """LightGBM, a point for each tree; stopped thirty trees after the best, which is within the noise."""
    n = 430
    train = decay(n, 0.69, 0.21, 130) + ar(rng, n, 0.0003)
    held = decay(n, 0.69, 0.31, 90) + 0.000012 * np.maximum(np.arange(n) - 360, 0) + ar(rng, n, 0.0005)
    return {
        "training/binary_logloss": every(1, train),
        "valid_1/binary_logloss": every(1, held),
        "valid_1/auc": every(1, 0.94 - decay(n, 0.2, 0, 80) + ar(rng, n, 0.0006)),
    }


def federated(rng):
    """Flower, rounds of other clients each time, in French: everything swings, and gains."""
    n = 160
    swing = ar(rng, n, 0.05, 0.4)
    return {
        "objectif": every(1, decay(n, 2.2, 0.55, 35) * np.exp(swing)),
        "perte/entrainement": every(1, decay(n, 2.1, 0.45, 35) * np.exp(swing + ar(rng, n, 0.03))),
        "perte/validation": every(1, decay(n, 2.3, 0.62, 30) * np.exp(ar(rng, n, 0.06, 0.3))),
        "exactitude/validation": every(1, np.clip(0.79 - decay(n, 0.6, 0, 30) + ar(rng, n, 0.02, 0.3), 0, 1)),
        "clients_par_tour": every(1, rng.integers(8, 13, n)),
    }


def masked(rng):
    """A masked autoencoder: the loss falls by little for long; a linear probe now and then."""
    e = 400
    loss = 0.385 + 0.6 * np.exp(-np.arange(e) / 6) + 0.09 * np.exp(-np.arange(e) / 110) + ar(rng, e, 0.0009)
    return {
        "train_loss": every(1, loss),
        "train_lr": every(1, cosine(e, 2.4e-3, 40)),
        "probe/acc1": every(25, 64 - decay(16, 40, 0, 3.5) + ar(rng, 16, 0.25)),
        "probe/acc5": every(25, 84 - decay(16, 36, 0, 3.5) + ar(rng, 16, 0.2)),
    }


def vocoder(rng):
    """HiFi-GAN: the adversarial part of the generator's loss rises, as it should; the mel error falls."""
    n, e = 3000, 30
    mel = 0.19 + 0.9 * np.exp(-np.arange(n) / 60) + 0.16 * np.exp(-np.arange(n) / 900)
    mel = mel * np.exp(ar(rng, n, 0.06))
    adversarial = 2.2 + 1.6 * (1 - np.exp(-np.arange(n) / 1200)) + ar(rng, n, 0.25, 0.2)
    features = 2 + 5 * (1 - np.exp(-np.arange(n) / 800)) + ar(rng, n, 0.5, 0.2)
    held = 0.22 + decay(e, 0.55, 0.05, 3) + 0.1 * np.exp(-np.arange(e) / 12) + ar(rng, e, 0.004)
    return {
        "training/gen_loss_total": every(50, 45 * mel + adversarial + features),
        "training/mel_spec_error": every(50, mel),
        "training/gen_loss_adv": every(50, adversarial),
        "training/gen_loss_fm": every(50, features),
        "training/disc_loss_total": every(50, 2.9 + 1.1 * np.exp(-np.arange(n) / 500) + ar(rng, n, 0.3, 0.2)),
        "validation/mel_spec_error": every(5000, held),
    }


def team(rng):
    """EPyMARL, QMIX: battles are won late, the values grow, and the exploration ends."""
    n = 300
    won = 0.86 / (1 + np.exp(-(np.arange(n) - 130) / 22))
    test = np.round(np.clip(won + ar(rng, n, 0.05), 0, 1) * 32) / 32
    return {
        "return_mean": every(10_000, 2 + 17 * won + ar(rng, n, 0.8)),
        "battle_won_mean": every(10_000, np.clip(won - 0.05 + ar(rng, n, 0.06), 0, 1)),
        "test_battle_won_mean": every(10_000, test),
        "test_return_mean": every(10_000, 2.5 + 17.5 * won + ar(rng, n, 0.6)),
        "loss_td": every(10_000, (0.02 + 0.1 * won) * np.exp(ar(rng, n, 0.35))),
        "q_taken_mean": every(10_000, 0.1 + 0.9 * won + ar(rng, n, 0.02)),
        "grad_norm": every(10_000, (0.2 + 0.5 * won) * np.exp(ar(rng, n, 0.4))),
        "epsilon": every(10_000, np.maximum(0.05, 1 - np.arange(n) / 60)),
        "ep_length_mean": every(10_000, 60 - 12 * won + ar(rng, n, 1.5)),
    }


def physics(rng):
    """A network for a differential equation: Adam, and from step 15,000 on L-BFGS, which gains at once."""
    n = 200
    at = np.arange(n)
    quasi = np.where(at < 150, 1.0, 10 ** (-1.2 * (1 - np.exp(-np.maximum(at - 150, 0) / 8))))
    equation = 10 ** (-0.5 - 2.0 * (1 - np.exp(-at / 50))) * quasi * np.exp(ar(rng, n, 0.25, 0.3))
    border = 10 ** (-0.3 - 2.6 * (1 - np.exp(-at / 40))) * quasi * np.exp(ar(rng, n, 0.25, 0.3))
    start = 10 ** (-0.2 - 2.8 * (1 - np.exp(-at / 35))) * quasi * np.exp(ar(rng, n, 0.25, 0.3))
    return {
        "loss/pde": every(100, equation),
        "loss/bc": every(100, border),
        "loss/ic": every(100, start),
        "loss/total": every(100, equation + border + start),
        "l2_relative_error": every(100, 0.8 * np.sqrt(equation + border) * np.exp(ar(rng, n, 0.05))),
    }


def organs(rng):
    """nnU-Net: the loss is minus a Dice plus cross entropy and crosses zero; the rate goes to nothing."""
    e = 500
    soft = 1 - np.exp(-np.arange(e) / 45)
    dice = np.clip(0.87 * soft + ar(rng, e, 0.012), 0, 1)
    ema = dice.copy()
    for at in range(1, e):
        ema[at] = 0.9 * ema[at - 1] + 0.1 * dice[at]
    return {
        "train_losses": every(1, 0.35 - 1.2 * soft - 0.04 * np.arange(e) / e + ar(rng, e, 0.012)),
        "val_losses": every(1, 0.36 - 1.13 * soft + ar(rng, e, 0.02)),
        "mean_fg_dice": every(1, dice),
        "ema_fg_dice": every(1, ema),
        "lrs": every(1, 0.01 * (1 - np.arange(e) / e) ** 0.9),
        "train/epoch_durations": every(1, 71 + np.abs(ar(rng, e, 1.2))),
    }


def preference(rng):
    """TRL, DPO. The fault: a copy of the model is evaluated, so each evaluation has the very same value."""
    n, e = 900, 18
    margin = 2.4 * (1 - np.exp(-np.arange(n) / 250)) + ar(rng, n, 0.25)
    return {
        "train/loss": every(10, np.log1p(np.exp(-np.maximum(margin, -3))) + np.abs(ar(rng, n, 0.02))),
        "train/rewards/margins": every(10, margin),
        "train/rewards/accuracies": every(
            10, np.round(np.clip(0.5 + margin / 6 + ar(rng, n, 0.06), 0, 1) * 32) / 32
        ),
        "train/rewards/chosen": every(10, margin / 3 + ar(rng, n, 0.1)),
        "train/rewards/rejected": every(10, -margin * 2 / 3 + ar(rng, n, 0.1)),
        "train/grad_norm": every(10, 12 * np.exp(ar(rng, n, 0.3))),
        "train/learning_rate": every(10, cosine(n, 5e-7, 90)),
        "eval/loss": every(500, np.full(e, 0.6921334266662598)),
        "eval/rewards/accuracies": every(500, np.full(e, 0.5234375)),
    }


def experts(rng):
    """A mixture of experts. The fault: the router's z loss runs away from step 3,000 on; the rest is well."""
    n, e = 5000, 25
    ce = 2.6 + decay(n, 8, 0, 100) + 1.4 * (1 + np.arange(n) / 300) ** -0.8 + ar(rng, n, 0.03, 0.2)
    balance = 1.02 + 0.6 * np.exp(-np.arange(n) / 100) + np.abs(ar(rng, n, 0.01))
    z = (0.9 + 3 * np.exp(-np.arange(n) / 80)) * np.exp(ar(rng, n, 0.08))
    z[3000:] *= np.exp(np.arange(n - 3000) / 500)
    held = 2.68 + 1.4 * (1 + np.arange(1, e + 1) * 200 / 300) ** -0.8 + ar(rng, e, 0.008)
    return {
        "train/ce_loss": every(1, ce),
        "train/moe/load_balancing_loss": every(1, balance),
        "train/moe/router_z_loss": every(1, z),
        "train/loss": every(1, ce + 0.01 * balance + 0.001 * z),
        "eval/ce_loss": every(200, held),
        "train/lr": every(1, cosine(n, 4e-4, 200)),
        "optim/total_grad_norm": every(1, 0.5 * np.exp(ar(rng, n, 0.2))),
    }


def radiance(rng):
    """Nerfstudio. The fault: the schedule is for 10,000 of 30,000 steps, and the rate is nothing after."""
    n, e = 3000, 60
    at = np.minimum(np.arange(n), 1000)
    rate = 1e-2 * np.maximum(1 - at / 1000, 0) ** 1.5
    rgb = (0.0042 + 0.05 * np.exp(-at / 60) + 0.006 * np.exp(-at / 500)) * np.exp(ar(rng, n, 0.1))
    psnr = -10 * np.log10(0.0048 + 0.05 * np.exp(-at[::50] / 60) + 0.006 * np.exp(-at[::50] / 500))
    return {
        "Train Loss Dict/rgb_loss": every(10, rgb),
        "Train Loss Dict/distortion_loss": every(10, 0.0004 * np.exp(ar(rng, n, 0.2))),
        "Train Loss": every(10, rgb + 0.0004),
        "Eval Images Metrics/psnr": every(500, psnr + ar(rng, e, 0.15)),
        "learning_rate/fields": every(10, rate),
        "Train Iter (time)": every(10, 0.021 * np.exp(np.abs(ar(rng, n, 0.02)))),
    }


def faces(rng):
    """StyleGAN. The fault: the FID drifts upwards from 9,600 thousand images on."""
    n, e = 2400, 60
    fid = 6.1 + decay(e, 290, 0, 3.0) + 9 * np.exp(-np.arange(e) / 8) + np.abs(ar(rng, e, 0.18))
    fid[24:] += 0.11 * np.arange(e - 24)
    return {
        "Loss/G/loss": every(10, 0.9 + 0.5 * (1 - np.exp(-np.arange(n) / 500)) + ar(rng, n, 0.18, 0.3)),
        "Loss/D/loss": every(10, 1.05 - 0.2 * (1 - np.exp(-np.arange(n) / 500)) + ar(rng, n, 0.12, 0.3)),
        "Loss/scores/real": every(10, 0.4 + ar(rng, n, 0.2, 0.3)),
        "Loss/scores/fake": every(10, -0.5 + ar(rng, n, 0.2, 0.3)),
        "Progress/augment": every(10, 0.3 * (1 - np.exp(-np.arange(n) / 700))),
        "Metrics/fid50k_full": every(400, fid),
        "Timing/sec_per_kimg": every(10, 31 + np.abs(ar(rng, n, 0.3))),
    }


def translation(rng):
    """Fairseq. The fault: the evaluation turns slowly at step 8,000, by a share of its noise each time."""
    n, e = 2000, 50
    loss = decay(n, 9.5, 3.4, 150) + 0.9 * np.exp(-np.arange(n) / 900) + ar(rng, n, 0.06)
    held = 3.9 + decay(e, 4, 0, 3.5) + ar(rng, e, 0.012)
    held[20:] += 0.00042 * np.arange(e - 20) ** 2
    bleu = 27.5 - decay(e, 26, 0, 4) + ar(rng, e, 0.15)
    bleu[22:] -= 0.0035 * np.arange(e - 22) ** 2
    return {
        "train_inner/nll_loss": every(10, loss),
        "train_inner/ppl": every(10, 2**loss),
        "train_inner/lr": every(
            10, 7e-4 * np.minimum((np.arange(n) + 1) / 400, (400 / (np.arange(n) + 1)) ** 0.5)
        ),
        "train_inner/gnorm": every(10, 1.1 * np.exp(ar(rng, n, 0.15))),
        "valid/nll_loss": every(400, held),
        "valid/ppl": every(400, 2**held),
        "valid/bleu": every(400, bleu),
    }


def satellites(rng):
    """MMDetection. The fault: resumed at step 8,000 without the weights; the rate and the steps go on."""
    n, e = 2400, 24
    age = np.r_[np.arange(800), np.arange(1600)]
    cls = (0.24 + 0.9 * np.exp(-age / 60) + 0.25 * np.exp(-age / 500)) * np.exp(ar(rng, n, 0.12))
    bbox = (0.27 + 0.3 * np.exp(-age / 300)) * np.exp(ar(rng, n, 0.1))
    bbox[age < 20] *= 0.4
    old = np.r_[np.arange(1, 9), np.arange(1, 17)]
    steps = np.arange(1, n + 1) * 10
    wall = START + 0.3 * steps + np.where(steps > 8000, 5400.0, 0)
    series = {"loss_cls": cls, "loss_bbox": bbox, "loss": cls + bbox, "lr": cosine(n, 2e-4, 50)}
    return {
        **{tag: (steps, values, wall) for tag, values in series.items()},
        "coco/bbox_mAP": every(
            1000, np.round(np.clip(0.41 - 0.4 * np.exp(-old / 3) + ar(rng, e, 0.004), 0, 1), 3)
        ),
        "coco/bbox_mAP_50": every(
            1000, np.round(np.clip(0.62 - 0.55 * np.exp(-old / 3) + ar(rng, e, 0.005), 0, 1), 3)
        ),
    }


def anomalies(rng):
    """Keras. The fault: nothing is ever called an anomaly, so the scores of the evaluation are constant."""
    e = 60
    share = 0.9714285731315613
    return {
        "train/epoch_loss": every(1, decay(e, 0.4, 0.128, 3) + ar(rng, e, 0.0008)),
        "train/epoch_accuracy": every(1, 0.9712 + ar(rng, e, 0.0001)),
        "train/epoch_learning_rate": every(1, np.full(e, 1e-3)),
        "validation/epoch_loss": every(1, decay(e, 0.3, 0.131, 2) + ar(rng, e, 0.0006)),
        "validation/epoch_accuracy": every(1, np.full(e, share)),
        "validation/epoch_precision": every(1, np.zeros(e)),
        "validation/epoch_recall": every(1, np.zeros(e)),
    }


def patches(rng):
    """Timm, a vision transformer. The fault: no warm-up: gradients of hundreds, the loss stays at 6.6."""
    n, e = 3000, 30
    loss = 6.62 + 0.29 * np.exp(-np.arange(n) / 40) + ar(rng, n, 0.05)
    loss[:25] += 2.5 * np.exp(-np.arange(25) / 5)
    norm = (0.4 + 350 * np.exp(-np.arange(n) / 12)) * np.exp(ar(rng, n, 0.3))
    return {
        "train/loss": every(20, loss),
        "train/grad_norm": every(20, norm),
        "train/lr": every(20, 1e-3 * 0.5 * (1 + np.cos(np.pi * np.arange(n) / n))),
        "eval/loss": every(2000, 6.6 + ar(rng, e, 0.01)),
        "eval/top1": every(2000, np.clip(0.55 + ar(rng, e, 0.05), 0.1, 2)),
        "eval/top5": every(2000, np.clip(2.3 + ar(rng, e, 0.1), 0.5, 5)),
    }


def proteins(rng):
    """Lightning, a model of proteins. The fault: from step 12,000 on no gradient reaches the first blocks."""
    n, e = 2000, 20
    loss = 2.35 + decay(n, 0.55, 0, 120) - 0.3 * (1 - np.exp(-np.arange(n) / 900)) + ar(rng, n, 0.02)
    out = {
        "train/loss": every(10, loss),
        "val/loss": every(1000, 2.1 + decay(e, 0.4, 0, 4) + ar(rng, e, 0.006)),
        "val/perplexity": every(1000, np.exp(2.1 + decay(e, 0.4, 0, 4)) + ar(rng, e, 0.05)),
        "lr-AdamW/pg1": every(10, cosine(n, 4e-4, 100)),
    }
    for block in range(8):
        for part in ("attn.qkv", "mlp.fc1"):
            norm = (0.04 + 0.02 * block) * (1 + 5 * np.exp(-np.arange(n) / 60)) * np.exp(ar(rng, n, 0.25))
            if block < 3:
                norm[1200:] = 0.0
            out[f"grad_2.0_norm/blocks.{block}.{part}.weight"] = every(10, norm)
    return out


def clouds(rng):
    """Clouds of points, in German. The fault: graphs are kept from step 1,000 on, and steps grow."""
    n, e = 4000, 20
    took = 0.11 * np.exp(np.abs(ar(rng, n, 0.03)))
    took[1000:] += 0.00008 * np.arange(n - 1000) * np.exp(ar(rng, n - 1000, 0.05))
    steps = np.arange(1, n + 1)
    wall = START + np.cumsum(took)
    loss = decay(n, 1.2, 0.17, 500) * np.exp(ar(rng, n, 0.12))
    held = decay(e, 0.9, 0.2, 3) * np.exp(ar(rng, e, 0.02))
    at = np.arange(1, e + 1) * 200
    return {
        "verlust/training": (steps, loss, wall),
        "verlust/validierung": (at, held, wall[at - 1]),
        "genauigkeit/validierung": (at, 0.93 - held / 2 + ar(rng, e, 0.004), wall[at - 1]),
        "lernrate": (steps, cosine(n, 1e-3, 100), wall),
        "zeit/schritt_s": (steps, took, wall),
    }


SOUND = {
    made.__name__: made
    for made in (weather, ocr, megatron, boosting, federated, masked, vocoder, team, physics, organs)
}


FAULTY = {
    preference: Answer(
        {"constant-output", "evaluation-frozen"},
        {"eval/loss", "eval/rewards/accuracies"},
        (1, 1500),
        is_change=False,
    ),
    experts: Answer({"loss-part-diverges"}, {"train/moe/router_z_loss"}, (2950, 3250)),
    radiance: Answer({"schedule-too-fast", "learning-rate"}, {"learning_rate/fields"}, (9000, 10_100)),
    faces: Answer({"worse-than-best"}, {"Metrics/fid50k_full"}, (8000, 14_000)),
    translation: Answer(
        {"overfitting", "worse-than-best"},
        {"valid/nll_loss", "valid/ppl", "valid/bleu"},
        (7600, 13_000),
    ),
    satellites: Answer(
        {"attempt-discontinuous"},
        {"loss", "loss_cls", "loss_bbox", "coco/bbox_mAP", "coco/bbox_mAP_50"},
        (8000, 9000),
    ),
    anomalies: Answer(
        {"constant-output", "class-imbalance"},
        {"validation/epoch_accuracy", "validation/epoch_precision", "validation/epoch_recall"},
        (1, 3),
        is_change=False,
    ),
    patches: Answer(
        {"loss-not-decreasing", "learning-rate", "exploding-gradient"},
        {"train/loss", "train/grad_norm", "train/lr"},
        (20, 3000),
        is_change=False,
    ),
    proteins: Answer(
        {"gradient-stopped"},
        {
            f"grad_2.0_norm/blocks.{block}.{part}.weight"
            for block in range(3)
            for part in ("attn.qkv", "mlp.fc1")
        },
        (11_990, 12_050),
    ),
    clouds: Answer({"slower-steps"}, {"zeit/schritt_s"}, (950, 1600)),
}
