"""Twenty-four short trainings as laboratories log them: twelve with one mistake, twelve sound.

Each sound one lies near a fault. They were committed before any was judged; their author had read neither the
rules nor their names, so that ``note`` says in plain words what a finding must say (Right), may say as well
(Also) and must not say (False).
"""

from __future__ import annotations

import copy
import math

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as fn
from common import (
    CharModel,
    batches,
    descend,
    digits,
    encode,
    evaluate,
    forever,
    grad_norm,
    mlp,
    seeded,
    set_rate,
    text,
    token_loss,
    windows,
)
from registry import Log, training
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import average_precision_score, recall_score
from torch import nn


@training(
    field="prices of flats",
    fault="Answers are a column and prices a row: all are compared with all, and the mean is what is learnt.",
    series=["loss", "val/r2"],
    onset=(0, 120),
    source="https://github.com/pytorch/pytorch/issues/16045",
    note="Right: after a short fall the loss stands still, R2 held out stays at 0 (no better than the mean), "
    "from the start. Also: it underfits, it learns nothing of the inputs. False: overfitting.",
)
def all_against_all(log: Log) -> None:
    rng = np.random.default_rng(1501)
    x = rng.normal(size=(1500, 8)).astype(np.float32)
    price = (2.5 + x @ rng.normal(size=8) / 2 + np.abs(x[:, 0]) + 0.2 * rng.normal(size=1500)).astype(
        np.float32
    )
    x[:, -1] = 1
    weights = [
        jnp.asarray(rng.normal(size=s) / math.sqrt(s[0]), jnp.float32) for s in ((8, 32), (32, 32), (32, 1))
    ]

    def answer(weights: list, x: jax.Array) -> jax.Array:
        for w in weights[:-1]:
            x = jnp.tanh(x @ w)
        return x @ weights[-1]

    def cost(weights: list, x: jax.Array, y: jax.Array) -> jax.Array:
        return ((answer(weights, x) - y) ** 2).mean()

    step_of = jax.jit(jax.value_and_grad(cost))
    for step in range(601):
        pick = rng.integers(0, 1200, 64)
        loss, grads = step_of(weights, x[pick], price[pick])
        weights = [w - 0.03 * g for w, g in zip(weights, grads, strict=True)]
        if step % 5 == 0:
            log("loss", float(loss), step)
        if step % 40 == 0:
            miss = np.asarray(answer(weights, x[1200:]))[:, 0] - price[1200:]
            log("val/rmse", float(np.sqrt((miss**2).mean())), step)
            log("val/r2", 1 - float((miss**2).mean() / price[1200:].var()), step)


def quantised(log: Log, seed: int, *, revived: bool, tags: tuple[str, str, str, str], rounds: int) -> None:
    """Code digits by four entries of a book of 64; with ``revived`` those not used are placed on data."""
    rng = seeded(seed)
    x, _, xv, _ = digits(5)
    into, out = mlp(64, 64, 32), mlp(32, 64, 64)
    book = nn.Parameter(torch.randn(64, 8) * (0.3 if revived else 2.5))
    opt = torch.optim.Adam([*into.parameters(), *out.parameters(), book], 2e-3)

    def code(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        flat = into(x).view(-1, 8)
        chosen = torch.cdist(flat, book).argmin(1)
        entry = book[chosen]
        pull = fn.mse_loss(entry, flat.detach()) + 0.25 * fn.mse_loss(flat, entry.detach())
        through = flat + (entry - flat).detach()
        return fn.mse_loss(out(through.view(-1, 32)), x), pull, chosen, flat

    used = torch.zeros(64)
    stream = forever(rng, len(x), 64)
    for step in range(rounds):
        recon, pull, chosen, flat = code(x[next(stream)])
        descend(opt, recon + pull)
        counts = torch.bincount(chosen, minlength=64).float()
        used = 0.95 * used + counts
        if revived and step % 20 == 19 and step < rounds // 2:
            idle = (used < 1).nonzero()[:4, 0]
            with torch.no_grad():
                book[idle] = flat[torch.as_tensor(rng.integers(0, len(flat), len(idle)))]
        if step % 10 == 0:
            share = counts / counts.sum()
            log(tags[0], recon.item(), step)
            log(tags[1], pull.item(), step)
            log(tags[2], (-(share * (share + 1e-10).log()).sum()).exp().item(), step)
        if step % 100 == 0:
            with torch.no_grad():
                log(tags[3], code(xv)[0].item(), step)


@training(
    field="codes of pictures",
    fault="The entries of the code book begin far from the codes: very few are ever used.",
    series=["codebook/perplexity", "recon"],
    onset=(0, 120),
    source="https://github.com/EdoardoBotta/RQ-VAE-Recommender/issues/65",
    note="Right: the code book has collapsed, its perplexity is near 1 (of 64) from the start. Also: the "
    "reconstruction stands still. False: overfitting, divergence.",
)
def few_words_of_the_book(log: Log) -> None:
    tags = ("recon", "codebook/loss", "codebook/perplexity", "recon_val")
    quantised(log, 1502, revived=False, tags=tags, rounds=800)


@training(
    field="letters of a form",
    fault="Adam with a tiny epsilon and a short memory of squares: once gradients vanish, a step is huge.",
    series=["train_loss", "train_acc"],
    onset=(515, 525),
    source="https://github.com/lc222/char-cnn-text-classification-tensorflow/issues/3",
    note="Right: after the loss was near 0 for hundreds of steps it leaps up by orders of magnitude at step "
    "520, and again at 1080. Also: gradients leap, the training is unstable, the rate is too high. False: "
    "overfitting, anything wrong before step 500.",
)
def steps_without_brake(log: Log) -> None:
    seeded(1503)
    x, y, xv, yv = digits(6)
    x, y = x[:300], y[:300]
    model = mlp(64, 64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-2, betas=(0.9, 0.95), eps=1e-16)
    for step in range(1401):
        out = model(x)
        loss = descend(opt, fn.cross_entropy(out, y))
        if step % 5 == 0:
            log("train_loss", loss, step)
            log("train_acc", (out.argmax(1) == y).float().mean().item(), step)
            log("grad_norm", grad_norm(model.parameters()), step)
        if step % 50 == 0:
            log("test_acc", evaluate(model, xv, yv)[1], step)


def captions(log: Log, seed: int, *, roof: float, pairs: int, noise: float, tags: list[str]) -> None:
    """Match pictures and captions with a learned temperature, of at most ``roof``."""
    rng = seeded(seed)
    x, _, xv, _ = digits(7)
    said = torch.randn(64, 24) / 8
    x = x[:pairs]
    words, wordsv = (a @ said + noise * torch.randn(len(a), 24) for a in (x, xv))
    see, read = mlp(64, 96, 24), mlp(24, 96, 24)
    heat = nn.Parameter(torch.tensor(math.log(14.3)))
    opt = torch.optim.Adam(
        [{"params": [*see.parameters(), *read.parameters()]}, {"params": [heat], "lr": 2e-2}], 7e-4
    )
    falls = torch.optim.lr_scheduler.LinearLR(opt, 1, 0.1, 1200)

    def match(x: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, float]:
        alike = fn.normalize(see(x), dim=1) @ fn.normalize(read(words), dim=1).T * heat.exp()
        mates = torch.arange(len(x))
        loss = (fn.cross_entropy(alike, mates) + fn.cross_entropy(alike.T, mates)) / 2
        return loss, (alike.argmax(1) == mates).float().mean().item()

    stream = forever(rng, len(x), 64)
    for step in range(1201):
        b = next(stream)
        loss = descend(opt, match(x[b], words[b])[0])
        falls.step()
        heat.data.clamp_(max=math.log(roof))
        if step % 10 == 0:
            log(tags[0], loss, step)
            log(tags[1], heat.exp().item(), step)
        if step % 60 == 0:
            with torch.no_grad():
                lost, found = match(xv[:128], wordsv[:128])
            log(tags[2], lost.item(), step)
            log(tags[3], found, step)


@training(
    field="pictures and captions",
    fault="The learned temperature has no bound: its scale grows, and the held-out loss by it.",
    series=["clip/logit_scale", "clip/val_loss"],
    onset=(60, 240),
    source="https://github.com/openai/CLIP/issues/46",
    note="Right: the loss held out rises from an early best (it overfits, is too sure), that of training "
    "goes to 0. Also: the scale grows on and on. False: retrieval or the loss of training gets worse.",
)
def scale_without_a_roof(log: Log) -> None:
    tags = ["clip/train_loss", "clip/logit_scale", "clip/val_loss", "clip/val_r@1"]
    captions(log, 1504, roof=1e30, pairs=320, noise=0.3, tags=tags)


NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@training(
    field="numbers in words",
    fault="The sign for the end is also the padding, which the loss leaves out: no answer ever ends.",
    series=["eval/gen_len", "eval/exact_match"],
    onset=(0, 150),
    source="https://github.com/huggingface/trl/issues/734",
    note="Right: no answer is ever right (exact match 0 at each evaluation) while the loss is near 0; the "
    "length stays at its limit. False: overfitting, a loss that stands still.",
)
def never_says_the_end(log: Log) -> None:
    rng = seeded(1505)
    letters = sorted(set("".join(NAMES)))
    size = 13 + len(letters)

    def lines(count: int) -> torch.Tensor:
        rows = torch.zeros(count, 14, dtype=torch.long)
        for row, (a, b) in enumerate(rng.integers(0, 10, (count, 2))):
            spelt = [13 + letters.index(c) for c in NAMES[a]] + [12]
            spelt += [13 + letters.index(c) for c in NAMES[b]]
            ids = [1 + a, 1 + b, 11, *spelt]
            rows[row, : len(ids)] = torch.tensor(ids)
        return rows

    model = CharModel(size, 64)
    opt = torch.optim.AdamW(model.parameters(), 4e-3)

    def lost(rows: torch.Tensor) -> torch.Tensor:
        goal = rows[:, 1:].clone()
        goal[:, :2] = 0
        return fn.cross_entropy(model(rows[:, :-1]).flatten(0, 1), goal.flatten(), ignore_index=0)

    held = lines(64)
    for step in range(1, 601):
        rate = 4e-3 * min(1, step / 40) * (1 - step / 700)
        set_rate(opt, rate)
        loss = descend(opt, lost(lines(32)))
        if step % 10 == 0:
            log("train/loss", loss, step)
            log("train/learning_rate", rate, step)
        if step % 50 == 0:
            with torch.no_grad():
                said = held[:, :3]
                for _ in range(24):
                    said = torch.cat([said, model(said)[:, -1:].argmax(2)], 1)
                log("eval/loss", lost(held).item(), step)
            lengths, right = [], []
            for row, true in zip(said[:, 3:].tolist(), held[:, 3:].tolist(), strict=True):
                end = row.index(0) if 0 in row else len(row)
                lengths.append(end)
                right.append(float(row[:end] == [i for i in true if i]))
            log("eval/gen_len", float(np.mean(lengths)), step)
            log("eval/exact_match", float(np.mean(right)), step)


@training(
    field="leaves of plants",
    fault="After the first evaluation the model stays in its mode, without dropout: it learns by heart.",
    series=["Loss/train", "Loss/val"],
    onset=(480, 800),
    source="https://github.com/shubhamagarwal92/mmd/issues/14",
    note="Right: it overfits: the loss of training falls on and the one held out turns up after step 480. "
    "Also: the loss of training falls suddenly at step 480. False: anything before step 480.",
)
def stays_in_evaluation(log: Log) -> None:
    rng = seeded(1506)
    x, y, xv, yv = digits(8)
    x, y = x[:320], y[:320].clone()
    wrong = torch.as_tensor(rng.random(320) < 0.25)
    y[wrong] = torch.as_tensor(rng.integers(0, 10, int(wrong.sum())))
    model = nn.Sequential(
        nn.Dropout(0.3), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.6), nn.Linear(128, 128), nn.ReLU()
    )
    model.extend([nn.Dropout(0.6), nn.Linear(128, 10)])
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    stream = forever(rng, 320, 20)
    for step in range(1, 1201):
        b = next(stream)
        loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
        if step % 4 == 0:
            log("Loss/train", loss, step)
        if step >= 480 and step % 40 == 0:
            model.eval()
            with torch.no_grad():
                out = model(xv)
            log("Loss/val", fn.cross_entropy(out, yv).item(), step)
            log("Accuracy/val", (out.argmax(1) == yv).float().mean().item(), step)


@training(
    field="a robot in a hall",
    fault="The exploration is to end after a million steps, and the run has 30,000: it moves at random.",
    series=["rollout/ep_rew_mean", "rollout/exploration_rate"],
    onset=(0, 6000),
    source="https://github.com/tensorflow/agents/issues/300",
    note="Right: the return does not rise at all, from the start. Also: the exploration rate hardly falls. "
    "False: divergence of the values, a return that breaks down.",
)
def explores_to_the_end(log: Log) -> None:
    rng = np.random.default_rng(1507)
    worth = np.zeros((8, 8, 4))
    rewards: list[float] = []
    errors: list[float] = []
    done = 0
    while done < 30_000:
        r, c, total = int(rng.integers(8)), int(rng.integers(8)), 0.0
        for _ in range(40):
            curious = max(0.05, 1 - done / 1_000_000)
            best = worth[r, c]
            move = int(rng.integers(4)) if rng.random() < curious else int(best.argmax())
            a = min(7, max(0, r + (1, -1, 0, 0)[move]))
            b = min(7, max(0, c + (0, 0, 1, -1)[move]))
            end = (a, b) == (7, 7)
            reward = 10.0 if end else -1.0
            miss = reward + (0 if end else 0.95 * worth[a, b].max()) - best[move]
            worth[r, c, move] += 0.1 * miss
            errors.append(miss**2)
            total, done, r, c = total + reward, done + 1, a, b
            if end:
                break
        rewards.append(total)
        if len(rewards) % 10 == 0:
            log("rollout/ep_rew_mean", float(np.mean(rewards[-100:])), done)
            log("rollout/exploration_rate", curious, done)
            log("train/loss", float(np.mean(errors[-300:])), done)


def discs(rng: np.random.Generator, count: int, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures of 16 x 16 with one bright box each, and its middle and sizes as shares of the picture."""
    rows, columns = np.mgrid[:16, :16] / 16
    middle, size = rng.uniform(0.3, 0.7, (count, 2)), rng.uniform(0.25, 0.6, (count, 2))
    away = np.abs(np.stack([rows, columns])[None] - middle[:, :, None, None])
    inside = (away < size[:, :, None, None] / 2).all(1)
    picture = inside + rng.normal(0, noise, inside.shape)
    box = np.concatenate([middle, size], 1)
    return torch.tensor(picture.reshape(count, 256), dtype=torch.float32), torch.tensor(
        box, dtype=torch.float32
    )


def overlap(guess: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
    """The intersection over the union of boxes that are given by middle and sizes."""
    low = torch.maximum(guess[:, :2] - guess[:, 2:] / 2, box[:, :2] - box[:, 2:] / 2)
    high = torch.minimum(guess[:, :2] + guess[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2)
    both = (high - low).clamp(min=0).prod(1)
    return both / (guess[:, 2:].prod(1) + box[:, 2:].prod(1) - both)


@training(
    field="detection",
    fault="Areas in pixels are taken in half precision: large ones are infinite, and then all is NaN.",
    series=["train/box_loss", "val/box_loss", "metrics/mAP50(B)"],
    onset=(3, 5),
    source="https://github.com/ultralytics/ultralytics/issues/280",
    note="Right: the losses are NaN from epoch 4 on and never again a number. Also: the score is 0 from "
    "there on. False: anything before, or another cause for the score.",
)
def areas_overflow(log: Log) -> None:
    rng = seeded(1508)
    x, box = discs(rng, 800, 0.3)
    xv, boxv = discs(rng, 200, 0.3)
    model = mlp(256, 64, 64, 4)
    opt = torch.optim.AdamW(model.parameters(), 4e-4)

    def guess(x: torch.Tensor) -> torch.Tensor:
        out = model(x)
        return torch.cat([0.5 + 0.3 * out[:, :2].tanh(), (out[:, 2:] - 1).sigmoid()], 1)

    def cost(x: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        shapes = guess(x)
        met = overlap((shapes * 448).half(), (box * 448).half()).float()
        return 5 * (1 - met).mean() + (shapes - box).abs().mean()

    for epoch in range(1, 31):
        losses = [descend(opt, cost(x[b], box[b])) for b in batches(rng, 800, 16)]
        with torch.no_grad():
            lost, met = cost(xv, boxv).item(), overlap(guess(xv), boxv)
        log("train/box_loss", float(np.mean(losses)), epoch)
        log("val/box_loss", lost, epoch)
        log("metrics/mAP50(B)", (met > 0.5).float().mean().item(), epoch)
        log("lr/pg0", 4e-4, epoch)


def clicks(log: Log, seed: int, *, changes: list[int], tags: tuple[str, str], **rate: object) -> None:
    """Learn clicks as they come, each batch judged before it is learnt; tastes change at given batches."""
    rng = np.random.default_rng(seed)
    model = SGDClassifier(loss="log_loss", random_state=0, **rate)
    taste = rng.normal(size=12)
    for batch in range(240):
        if batch in changes:
            taste = rng.normal(size=12)
        x = rng.normal(size=(50, 12))
        y = (x @ taste + 0.7 * rng.normal(size=50) > 0).astype(int)
        if batch:
            sure = model.predict_proba(x)[:, 1].clip(1e-6, 1 - 1e-6)
            log(tags[0], float(-np.log(np.where(y, sure, 1 - sure)).mean()), batch * 50)
            log(tags[1], float(((sure > 0.5) == y).mean()), batch * 50)
        model.partial_fit(x, y, classes=[0, 1])


@training(
    field="clicks in a shop",
    fault="The shop is rebuilt after 6000 clicks, and the rate has by then fallen too far to learn it anew.",
    series=["progressive_logloss", "progressive_accuracy"],
    onset=(5900, 6150),
    source="https://doi.org/10.1145/2523813",
    note="Right: the loss leaps up (the accuracy falls) at 6000 and is not as before to the end. False: "
    "anything before 6000, a slow overfitting.",
)
def shop_is_rebuilt(log: Log) -> None:
    tags = ("progressive_logloss", "progressive_accuracy")
    clicks(log, 1509, changes=[120], tags=tags, learning_rate="invscaling", eta0=6.0, power_t=0.95)


@training(
    field="preferences",
    fault="The reference is the policy itself, not a copy: margins are 0 and the loss is ln 2 at all steps.",
    series=["train/loss", "train/rewards/margins"],
    onset=(0, 10),
    source="https://github.com/eric-mitchell/direct-preference-optimization/issues/46",
    note="Right: the loss (or the margins) has not moved at all from the first step. Also: the "
    "log-probabilities of rejected answers fall without end. False: a rate too small, vanishing gradients.",
)
def its_own_reference(log: Log) -> None:
    rng = seeded(1510)
    policy = mlp(12, 48, 30)
    reference = policy
    likes = torch.randn(12, 30)
    opt = torch.optim.AdamW(policy.parameters(), 5e-4)
    for step in range(1, 401):
        x = torch.tensor(rng.normal(size=(16, 12)), dtype=torch.float32)
        pair = torch.as_tensor(np.stack([rng.permutation(30)[:2] for _ in range(16)]))
        worth = (x @ likes).gather(1, pair)
        pair = pair.gather(1, worth.argsort(1, descending=True))
        mine = policy(x).log_softmax(1).gather(1, pair)
        with torch.no_grad():
            other = reference(x).log_softmax(1).gather(1, pair)
        reward = 0.1 * (mine - other)
        loss = descend(opt, -fn.logsigmoid(reward[:, 0] - reward[:, 1]).mean())
        if step % 5 == 0:
            log("train/loss", loss, step)
            log("train/rewards/chosen", reward[:, 0].mean().item(), step)
            log("train/rewards/margins", (reward[:, 0] - reward[:, 1]).mean().item(), step)
            log("train/rewards/accuracies", (reward[:, 0] > reward[:, 1]).float().mean().item(), step)
            log("train/logps/chosen", mine[:, 0].mean().item(), step)
            log("train/logps/rejected", mine[:, 1].mean().item(), step)
            log("train/grad_norm", grad_norm(policy.parameters()), step)


@training(
    field="segmentation of cells",
    fault="Masks are read as 0 and 255, not 0 and 1: the cross-entropy falls below 0, and without end.",
    series=["loss", "val_loss", "val_iou"],
    onset=(0, 3),
    source="https://github.com/milesial/Pytorch-UNet/issues/78",
    note="Right: the loss (a cross-entropy) is below 0 and runs away downwards, from the start. Also: the "
    "overlap does not get better, or gets worse. False: all is well, a loss that converges.",
)
def masks_up_to_255(log: Log) -> None:
    rng = seeded(1511)
    rows, columns = np.mgrid[:16, :16]

    def cells(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        middle, radius = rng.uniform(4, 12, (count, 2, 1, 1)), rng.uniform(2, 5, (count, 1, 1))
        mask = (rows - middle[:, 0]) ** 2 + (columns - middle[:, 1]) ** 2 < radius**2
        scan = 0.8 * mask + rng.normal(0, 0.5, mask.shape)
        return tuple(torch.tensor(a[:, None], dtype=torch.float32) for a in (scan, 255 * mask))

    x, mask = cells(240)
    xv, maskv = cells(60)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1)
    )
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    cost = fn.binary_cross_entropy_with_logits
    for epoch in range(25):
        losses = [descend(opt, cost(model(x[b]), mask[b])) for b in batches(rng, 240, 16)]
        with torch.no_grad():
            out = model(xv)
        found, true = out > 0, maskv > 0
        log("loss", float(np.mean(losses)), epoch)
        log("val_loss", cost(out, maskv).item(), epoch)
        log("val_iou", ((found & true).sum() / (found | true).sum()).item(), epoch)
        log("val_accuracy", (found == true).float().mean().item(), epoch)


@training(
    field="a language model, compiled",
    fault="Each new length of a batch is compiled anew: most steps last fifty times as long as they should.",
    series=["perf/step_time_s", "perf/tokens_per_second"],
    onset=(0, 20),
    source="https://github.com/pytorch/pytorch/issues/188150",
    note="Right: steps stall (last fifty times as long as the others) again and again from the first on, or "
    "most of the time is lost. False: steps get slower with time, the loss is at fault.",
)
def compiled_again_and_again(log: Log) -> None:
    rng = seeded(1512)
    ids, size = encode(text(rng, 300))
    model = CharModel(size, 32)
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    known: set[int] = set()
    for step in range(1, 701):
        length = int(rng.integers(200, 1400))
        loss = descend(opt, token_loss(model, *windows(rng, ids, 8, max(8, length // 50))))
        lasts = length * 1e-4 * rng.lognormal(0, 0.08) + (
            0 if length in known else 4 * rng.lognormal(0, 0.15)
        )
        known.add(length)
        log("perf/step_time_s", lasts, step)
        log("perf/tokens_per_second", 8 * length / lasts, step)
        if step % 5 == 0:
            log("train/loss", loss, step)


@training(
    field="a language model on borrowed machines",
    healthy=True,
    source="https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html",
    note="It is stopped three times and goes on from its last checkpoint with all of its state: up to forty "
    "steps are logged twice. False: a loss that leaps, a state that was lost, a schedule that restarts.",
)
def stopped_three_times(log: Log) -> None:
    rng = seeded(1513)
    ids, size = encode(text(rng, 400))
    model = CharModel(size, 40)
    opt = torch.optim.AdamW(model.parameters(), 4e-3)
    step, stops = 0, [190, 425, 580]
    kept: tuple = (0, copy.deepcopy(model.state_dict()), copy.deepcopy(opt.state_dict()))
    while step < 800:
        if step % 50 == 0:
            kept = (step, copy.deepcopy(model.state_dict()), copy.deepcopy(opt.state_dict()))
        step += 1
        rate = 4e-3 * min(1, step / 60, (850 - step) / 500)
        set_rate(opt, rate)
        loss = descend(opt, token_loss(model, *windows(rng, ids[:-3000], 16, 32)))
        norm = grad_norm(model.parameters())
        if step % 5 == 0:
            log("train/loss", loss, step)
            log("train/ppl", math.exp(loss), step)
            log("train/lr", rate, step)
            log("train/grad_norm", norm, step)
        if step % 100 == 0:
            with torch.no_grad():
                log("val/loss", token_loss(model, *windows(rng, ids[-3000:], 32, 32)).item(), step)
        if stops and step == stops[0]:
            stops.pop(0)
            step, weights, state = kept
            model.load_state_dict(copy.deepcopy(weights))
            opt.load_state_dict(copy.deepcopy(state))


@training(
    field="pictures without labels",
    healthy=True,
    source="https://arxiv.org/abs/2011.10566",
    note="The loss, a negative cosine, falls early and then stays, while the codes keep their spread and the "
    "neighbours get better. False: collapse, a loss that is stuck, a negative loss as a fault.",
)
def twins_that_do_not_collapse(log: Log) -> None:
    rng = seeded(1514)
    x, y, xv, yv = digits(9)
    asked_for = (xv + 0.3 * torch.randn_like(xv)) * (torch.rand_like(xv) > 0.4)
    body = nn.Sequential(
        nn.Linear(64, 128, bias=False), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 32, bias=False)
    )
    body.append(nn.BatchNorm1d(32, affine=False))
    guess = nn.Sequential(nn.Linear(32, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32))
    opt = torch.optim.SGD([*body.parameters(), *guess.parameters()], 0.05, momentum=0.9, weight_decay=1e-4)

    def view(x: torch.Tensor) -> torch.Tensor:
        return (x + 0.2 * torch.randn_like(x)) * (torch.rand_like(x) > 0.3)

    stream = forever(rng, len(x), 128)
    for step in range(1, 801):
        set_rate(opt, 0.025 * (1 + math.cos(math.pi * step / 800)))
        b = next(stream)
        one, two = body(view(x[b])), body(view(x[b]))
        near = fn.cosine_similarity(guess(one), two.detach()) + fn.cosine_similarity(guess(two), one.detach())
        loss = descend(opt, -near.mean() / 2)
        if step % 5 == 0:
            log("simsiam/loss", loss, step)
            log("simsiam/z_std", fn.normalize(one, dim=1).std(0).mean().item(), step)
            log("simsiam/lr", opt.param_groups[0]["lr"], step)
        if step % 50 == 0:
            body.eval()
            with torch.no_grad():
                known, asked = (fn.normalize(body(a), dim=1) for a in (x[:300], asked_for))
            body.train()
            log("knn/top1", (y[:300][(asked @ known.T).argmax(1)] == yv).float().mean().item(), step)


@training(
    field="codes of sounds",
    healthy=True,
    source="https://github.com/facebookresearch/AudioDec/issues/38",
    note="The loss of the code book rises as more of its entries come into use, while the reconstruction "
    "gets better and the perplexity, here better when larger, rises. False: divergence, a perplexity that "
    "gets worse.",
)
def book_fills(log: Log) -> None:
    tags = ("mel_loss", "vq_loss", "perplexity", "mel_loss_dev")
    quantised(log, 1515, revived=True, tags=tags, rounds=1200)


@training(
    field="pictures and captions",
    healthy=True,
    source="https://github.com/mlfoundations/open_clip/issues/214",
    note="The learned scale rises to its roof of 100 and stays there, as it is meant to; the losses fall. "
    "False: a value that runs away or is stuck, overfitting.",
)
def scale_at_its_roof(log: Log) -> None:
    tags = ["Train/contrastive_loss", "Train/logit_scale", "Val/clip_val_loss", "Val/image_to_text_R@1"]
    captions(log, 1516, roof=100, pairs=1400, noise=0.04, tags=tags)


@training(
    field="photographs of animals",
    healthy=True,
    source="https://arxiv.org/abs/1902.10811",
    note="It is judged on a like split and on a harder one, which stays far below and gets better as well. "
    "False: overfitting or a broken evaluation because of the gap.",
)
def second_split_is_harder(log: Log) -> None:
    rng = seeded(1517)
    x, y, xv, yv = digits(10)
    far = xv.view(-1, 8, 8).roll(1, 2).flatten(1) * 0.8 + 0.2 * torch.randn_like(xv)
    model = nn.Sequential(nn.Dropout(0.1), mlp(64, 96, 10))
    opt = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
    for epoch in range(30):
        set_rate(opt, 1e-3 * (1 - epoch / 32))
        losses = []
        for b in batches(rng, len(x), 50):
            moved = x[b].view(-1, 8, 8)
            if rng.random() < 0.5:
                moved = moved.roll((int(rng.integers(-1, 2)), int(rng.integers(-1, 2))), (1, 2))
            noisy = moved.flatten(1) + 0.2 * torch.randn(50, 64)
            losses.append(descend(opt, fn.cross_entropy(model(noisy), y[b], label_smoothing=0.05)))
        log("epoch_loss", float(np.mean(losses)), epoch)
        for name, pictures in (("val", xv), ("val_v2", far)):
            missed, accuracy = evaluate(model, pictures, yv)
            log(f"{name}/loss", missed, epoch)
            log(f"{name}/top1", accuracy, epoch)


@training(
    field="a language model of old",
    healthy=True,
    source="https://arxiv.org/abs/1211.5063",
    note="Plain descent at a rate of 8 with clipping to 0.12, always active in the first part: the norm lies "
    "above the bound there, and the perplexity falls all along. False: exploding gradients, clipping that "
    "stops learning, a rate that is too high.",
)
def clipped_at_first(log: Log) -> None:
    rng = seeded(1518)
    ids, size = encode(text(rng, 400))
    model = CharModel(size, 48, nn.LSTM)
    opt = torch.optim.SGD(model.parameters(), 8.0)
    for step in range(1, 901):
        set_rate(opt, 8.0 * (1 - step / 1000))
        opt.zero_grad()
        loss = token_loss(model, *windows(rng, ids[:-3000], 20, 32))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.12).item()
        opt.step()
        if step % 6 == 0:
            log("train/ppl", math.exp(loss.item()), step)
            log("grad/norm_before_clip", norm, step)
            log("grad/clipped", float(norm > 0.12), step)
        if step % 90 == 0:
            with torch.no_grad():
                held = token_loss(model, *windows(rng, ids[-3000:], 32, 32))
            log("valid/ppl", math.exp(held.item()), step)


@training(
    field="mixed precision",
    healthy=True,
    source="https://docs.pytorch.org/docs/stable/notes/amp_examples.html",
    note="The scale doubles after 60 sound steps; now and then a gradient overflows (its norm is infinite), "
    "the step is left out and the scale halved, as it should. False: infinite gradients, an unstable "
    "training, a scale that collapses.",
)
def scale_finds_its_place(log: Log) -> None:
    rng = seeded(1519)
    x, y, xv, yv = digits(11)
    model = nn.Sequential(mlp(64, 96), nn.ReLU(), nn.Dropout(0.3), mlp(96, 10))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    scale, sound = 2.0**16, 0
    stream = forever(rng, len(x), 40)
    for step in range(1, 901):
        b = next(stream)
        noisy = x[b] + 0.2 * torch.randn(40, 64)
        opt.zero_grad()
        loss = fn.cross_entropy(model(noisy), y[b])
        loss.backward()
        for p in model.parameters():
            p.grad = (p.grad * scale).half().float() / scale
        norm = grad_norm(model.parameters())
        if math.isfinite(norm):
            opt.step()
            sound += 1
        if not math.isfinite(norm) or sound == 60:
            scale, sound = scale * (2 if sound == 60 else 0.5), 0
        log("loss", loss.item(), step)
        log("amp/scale", scale, step)
        log("grad_norm", norm, step)
        if step % 90 == 0:
            missed, accuracy = evaluate(model, xv, yv)
            log("eval_loss", missed, step)
            log("eval_accuracy", accuracy, step)


@training(
    field="a machine that sorts parts",
    healthy=True,
    source="https://docs.cleanrl.dev/rl-algorithms/ppo/",
    note="For each part one chute is right: the entropy falls to near 0 as the policy becomes sure of the "
    "best, and the noisy return is at its highest then. False: a collapse of the entropy, a return that "
    "stands still.",
)
def sure_of_the_best(log: Log) -> None:
    rng = seeded(1520)
    policy, critic = mlp(6, 48, 4, act=nn.Tanh), mlp(6, 48, 1, act=nn.Tanh)
    opt = torch.optim.Adam([*policy.parameters(), *critic.parameters()], 3e-3)
    centres = 2 * rng.normal(size=(8, 6))
    right = rng.integers(0, 4, 8)
    for update in range(1, 401):
        kind = rng.integers(0, 8, (4, 12))
        part = torch.tensor(centres[kind] + 0.2 * rng.normal(size=(4, 12, 6)), dtype=torch.float32)
        choice = torch.distributions.Categorical(logits=policy(part))
        move = choice.sample()
        hit = move == torch.as_tensor(right[kind])
        reward = hit.float() * 2 - 1 + 0.6 * torch.randn(4, 12)
        value = critic(part)[..., 0]
        gain = reward - value.detach()
        pushed = -(choice.log_prob(move) * gain).mean()
        valued = (reward - value).square().mean()
        entropy = choice.entropy().mean()
        descend(opt, pushed + 0.5 * valued - 0.003 * entropy)
        step = update * 48
        log("charts/episodic_return", reward.sum(1)[0].item(), step)
        if update % 4 == 0:
            log("losses/policy_loss", pushed.item(), step)
            log("losses/value_loss", valued.item(), step)
            log("losses/entropy", entropy.item(), step)


@training(
    field="detection",
    healthy=True,
    source="https://docs.ultralytics.com/usage/cfg/",
    note="For the last ten of forty epochs the heavy augmentation is off: the losses of training fall at "
    "once, those of validation hardly change. False: overfitting from there on, a sudden change as a fault.",
)
def last_epochs_without_mosaic(log: Log) -> None:
    rng = seeded(1521)
    x, box = discs(rng, 1600, 0.3)
    xv, boxv = discs(rng, 300, 0.3)
    model = mlp(256, 64, 4)
    opt = torch.optim.AdamW(model.parameters(), 1.5e-3, weight_decay=0.05)

    def cost(x: torch.Tensor, box: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        guess = model(x).sigmoid()
        met = overlap(guess, box)
        return 2 * (1 - met).mean(), 10 * (guess - box).abs().mean(), met

    for epoch in range(1, 41):
        rate = 1.5e-3 * (1 - 0.97 * epoch / 40)
        set_rate(opt, rate)
        rows = []
        for b in batches(rng, 1600, 32):
            seen = x[b]
            if epoch <= 30:
                seen = (
                    seen + 0.45 * torch.randn_like(seen) + 0.5 * x[b].roll(1, 0) * (torch.rand(32, 1) < 0.3)
                )
            met, off, _ = cost(seen, box[b])
            descend(opt, met + off)
            rows.append((met.item(), off.item()))
        means = np.mean(rows, 0)
        with torch.no_grad():
            lost, off, met = cost(xv, boxv)
        log("train/box_loss", means[0], epoch)
        log("train/dfl_loss", means[1], epoch)
        log("val/box_loss", lost.item(), epoch)
        log("val/dfl_loss", off.item(), epoch)
        log("metrics/mAP50(B)", (met > 0.5).float().mean().item(), epoch)
        log(
            "metrics/mAP50-95(B)",
            float(np.mean([(met > i / 20).float().mean() for i in range(10, 20)])),
            epoch,
        )
        log("lr/pg0", rate, epoch)


@training(
    field="faults of bearings",
    healthy=True,
    source="https://arxiv.org/abs/1708.02002",
    note="Three of a hundred are positive, with a focal loss: it is tiny from the start, the accuracy is "
    "0.97 and hardly rises, the recall is 0 at first; precision over recall gets better. It is evaluated ten "
    "times. False: a score that stands still, one class for all, a loss too small to learn.",
)
def focal_loss_is_tiny(log: Log) -> None:
    rng = seeded(1522)

    def bearings(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        bad = rng.random(count) < 0.03
        x = rng.normal(size=(count, 16))
        x[bad, :3] += 1.9 * np.sign(x[bad, 3:4])
        return torch.tensor(x, dtype=torch.float32), torch.tensor(bad, dtype=torch.float32)

    xv, yv = bearings(4000)
    model = mlp(16, 48, 1)
    nn.init.constant_(model[-1].bias, -3.5)
    opt = torch.optim.AdamW(model.parameters(), 2.5e-4)

    def focal(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raw = fn.binary_cross_entropy_with_logits(out, y, reduction="none")
        return (torch.where(y > 0, 0.6, 0.4) * (1 - (-raw).exp()) ** 2 * raw).mean()

    for step in range(1, 1501):
        x, y = bearings(128)
        loss = descend(opt, focal(model(x)[:, 0], y))
        if step % 10 == 0:
            log("focal_loss", loss, step * 128)
        if step % 150 == 0:
            with torch.no_grad():
                out = model(xv)[:, 0]
            log("holdout/focal_loss", focal(out, yv).item(), step * 128)
            log("holdout/accuracy", ((out > 0) == (yv > 0)).float().mean().item(), step * 128)
            log("holdout/recall", recall_score(yv, out > 0, zero_division=0), step * 128)
            log("holdout/auprc", average_precision_score(yv, out), step * 128)


@training(
    field="clicks in four seasons",
    healthy=True,
    source="https://riverml.xyz/latest/",
    note="Tastes change three times: the loss leaps up and is as before within some batches, as the rate is "
    "constant. False: divergence, a change for the worse that stays, overfitting.",
)
def follows_the_seasons(log: Log) -> None:
    tags = ("online/log_loss", "online/acc")
    clicks(log, 1523, changes=[60, 120, 180], tags=tags, learning_rate="constant", eta0=0.03, alpha=1e-3)


@training(
    field="distillation",
    healthy=True,
    source="https://arxiv.org/abs/1503.02531",
    note="The weight of the teacher's soft answers grows from 0 to 6 in the middle: the whole loss rises "
    "by it, its parts fall or level off, and the accuracy rises. False: divergence, overfitting.",
)
def weight_of_the_teacher_grows(log: Log) -> None:
    rng = seeded(1524)
    x, y, xv, yv = digits(12)
    teacher, pupil = mlp(64, 128, 128, 10), mlp(64, 20, 10)
    opt = torch.optim.Adam(teacher.parameters(), 1e-3)
    for _, b in zip(range(500), forever(rng, len(x), 64), strict=False):
        descend(opt, fn.cross_entropy(teacher(x[b]), y[b], label_smoothing=0.1))
    opt = torch.optim.Adam(pupil.parameters(), 1e-3)
    stream = forever(rng, len(x), 64)
    for step in range(1, 1201):
        share = min(6.0, max(0.0, (step - 300) / 100))
        b = next(stream)
        noisy = x[b] + 0.15 * torch.randn(64, 64)
        with torch.no_grad():
            soft = (teacher(noisy) / 3).softmax(1)
        out = pupil(noisy)
        ce = fn.cross_entropy(out, y[b])
        kl = 9 * fn.kl_div((out / 3).log_softmax(1), soft, reduction="batchmean")
        loss = descend(opt, ce + share * kl)
        if step % 10 == 0:
            log("objective", loss, step)
            log("objective/ce", ce.item(), step)
            log("objective/kl", kl.item(), step)
            log("kd_weight", share, step)
        if step % 100 == 0:
            log("student_acc", evaluate(pupil, xv, yv)[1], step)
