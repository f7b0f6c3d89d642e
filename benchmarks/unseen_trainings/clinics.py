"""Twenty-eight short trainings, as people bring them to a clinic: fourteen with one mistake, fourteen sound.

Each sound one lies near a fault. They were committed with their answers before any was judged; their author
had read neither the rules nor their names.
"""

from __future__ import annotations

import copy
import math

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
from sklearn.metrics import average_precision_score, r2_score, recall_score
from torch import nn


def lesions(rng: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scans of 16 x 16 with a bright disc in each, of changing exposure, and the masks of the discs."""
    rows, columns = np.mgrid[:16, :16]
    middle, radius = rng.uniform(4, 12, (count, 2, 1, 1)), rng.uniform(2, 4.5, (count, 1, 1))
    mask = (rows - middle[:, 0]) ** 2 + (columns - middle[:, 1]) ** 2 < radius**2
    gain, bias = rng.uniform(0.6, 1.6, (count, 1, 1)), rng.uniform(-1, 1, (count, 1, 1))
    scan = gain * (mask + rng.normal(0, 0.5, mask.shape)) + bias
    return torch.tensor(scan[:, None], dtype=torch.float32), torch.tensor(mask[:, None], dtype=torch.float32)


def mean_iou(guess: torch.Tensor, mask: torch.Tensor) -> float:
    """The intersection over the union, averaged over the two classes."""
    pairs = ((guess, mask), (~guess, ~mask))
    return float(np.mean([((a & b).sum() / (a | b).sum().clamp(min=1)).item() for a, b in pairs]))


@training(
    field="segmentation of scans",
    fault="Batch norm has the other framework's momentum, 0.99: validation depends on the last small batch.",
    series=["val/mIoU", "val/loss"],
    onset=(0, 700),
    source="https://discuss.pytorch.org/t/what-does-the-parameter-momentum-mean-in-batchnorm/28318",
)
def momentum_of_the_other_framework(log: Log) -> None:
    rng = seeded(1401)
    x, mask = lesions(rng, 200)
    xv, maskv = lesions(rng, 60)
    layers: list[nn.Module] = []
    for inside, outside in ((1, 8), (8, 8), (8, 8)):
        layers += [
            nn.Conv2d(inside, outside, 3, padding=1),
            nn.BatchNorm2d(outside, momentum=0.99),
            nn.ReLU(),
        ]
    model = nn.Sequential(*layers, nn.Conv2d(8, 1, 1))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    step = 0
    for _ in range(18):
        for b in batches(rng, len(x), 2):
            out = model(x[b])
            loss = descend(opt, fn.binary_cross_entropy_with_logits(out, mask[b]))
            step += 1
            if step % 10 == 0:
                log("train/loss", loss, step)
                log("train/mIoU", mean_iou(out > 0, mask[b] > 0), step)
        model.eval()
        with torch.no_grad():
            out = model(xv)
        model.train()
        log("val/loss", fn.binary_cross_entropy_with_logits(out, maskv).item(), step)
        log("val/mIoU", mean_iou(out > 0, maskv > 0), step)


class Reader(nn.Module):
    """A small transformer that reads a sentence and answers yes or no."""

    def __init__(self, vocabulary: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 32)
        self.place = nn.Parameter(0.1 * torch.randn(length, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(ids) + self.place).mean(1))


def reviews(rng: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences of twelve of forty words, of which ten praise, ten blame and one turns the sentence round."""
    ids = rng.integers(0, 40, (count, 12))
    good = (ids < 10).sum(1) - ((ids >= 10) & (ids < 20)).sum(1)
    good = np.where((ids == 39).any(1), -good, good)
    keep = good != 0
    return torch.as_tensor(ids[keep]), torch.as_tensor((good[keep] > 0).astype(int))


@training(
    field="fine-tuning on reviews",
    fault="The rate warms up to a height that no transformer bears: the answers become one class for good.",
    series=["train/loss", "eval/loss", "eval/matthews_correlation"],
    onset=(150, 320),
    source="https://github.com/huggingface/transformers/issues/5369",
)
def peak_too_high(log: Log) -> None:
    rng = seeded(1402)
    ids, label = reviews(rng, 3000)
    idv, labelv = reviews(rng, 500)
    model = Reader(40, 12)
    opt = torch.optim.AdamW(model.parameters(), 1e-4)
    peak, warm, total = 3e-2, 500, 1000
    stream = forever(rng, len(ids), 32)
    for step in range(1, total + 1):
        b = next(stream)
        set_rate(opt, peak * min(step / warm, (total - step) / (total - warm)))
        loss = descend(opt, fn.cross_entropy(model(ids[b]), label[b]))
        if step % 10 == 0:
            log("train/loss", loss, step)
            log("train/learning_rate", opt.param_groups[0]["lr"], step)
            log("train/grad_norm", grad_norm(model.parameters()), step)
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                out = model(idv)
            model.train()
            log("eval/loss", fn.cross_entropy(out, labelv).item(), step)
            guess = out.argmax(1).numpy()
            spread = guess.std() * labelv.numpy().std()
            matthews = np.mean((guess - guess.mean()) * (labelv.numpy() - labelv.numpy().mean()))
            log("eval/matthews_correlation", matthews / spread if spread else 0.0, step)


SOUNDS = 8


def utterances(rng: np.random.Generator, voices: np.ndarray, count: int) -> tuple[torch.Tensor, list]:
    """Power spectra of 32 frames with three to five sounds in each, and the sounds."""
    frames, spoken = [], []
    for _ in range(count):
        sounds = rng.integers(1, SOUNDS + 1, rng.integers(3, 6))
        row = np.concatenate([np.repeat([0, s], [rng.integers(0, 2), rng.integers(4, 6)]) for s in sounds])
        row = np.pad(row, (0, 32 - len(row)))[:32]
        frames.append(np.exp(voices[row] + rng.normal(0, 0.5, (32, 12)) - 9))
        spoken.append(sounds.tolist())
    return torch.tensor(np.stack(frames), dtype=torch.float32), spoken


def edits(said: list[int], heard: list[int]) -> int:
    """The least number of insertions, deletions and exchanges that lead from one to the other."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(said, 1):
        above, row = row, [i]
        for j, b in enumerate(heard, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b)))
    return row[-1]


def transcribe(log: Log, seed: int, *, logarithm: bool, tags: tuple[str, str, str], rounds: int) -> None:
    """Train a recurrent net with the loss of CTC; ``tags`` name the losses and the error rate."""
    rng = seeded(seed)
    voices = rng.normal(0, 1, (SOUNDS + 1, 12))
    x, said = utterances(rng, voices, 400)
    xv, saidv = utterances(rng, voices, 60)
    if logarithm:
        x, xv = (x.log() + 9) / 2, (xv.log() + 9) / 2
    body = nn.GRU(12, 32, batch_first=True, bidirectional=True)
    head = nn.Linear(64, SOUNDS + 1)
    opt = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-3)

    def lost(x: torch.Tensor, said: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        out = head(body(x)[0]).log_softmax(2).transpose(0, 1)
        flat = torch.tensor([s for row in said for s in row])
        lengths = torch.tensor([len(row) for row in said])
        return fn.ctc_loss(out, flat, torch.full((len(said),), 32), lengths), out.argmax(2).T

    stream = forever(rng, len(x), 20)
    for step in range(1, rounds + 1):
        b = next(stream)
        loss, _ = lost(x[b], [said[i] for i in b.tolist()])
        descend(opt, loss)
        if step % 5 == 0:
            log(tags[0], loss.item(), step)
        if step % 20 == 0:
            with torch.no_grad():
                loss, best = lost(xv, saidv)
            wrong = 0
            for path, row in zip(best.tolist(), saidv, strict=True):
                heard = [s for s, before in zip(path, [0, *path], strict=False) if s not in (0, before)]
                wrong += edits(row, heard)
            log(tags[1], loss.item(), step)
            log(tags[2], wrong / sum(map(len, saidv)), step)


@training(
    field="speech",
    fault="Power spectra without a logarithm are all near zero: the net is deaf and writes only blanks.",
    series=["ctc_loss", "valid_ctc_loss", "wer"],
    onset=(0, 200),
    source="https://github.com/SeanNaren/deepspeech.pytorch/issues/59",
)
def blanks_to_the_end(log: Log) -> None:
    transcribe(log, 1403, logarithm=False, tags=("ctc_loss", "valid_ctc_loss", "wer"), rounds=500)


def houses(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rooms, age, area, income and the day of the sale, as they stand in the table, and the log price."""
    rooms, age = rng.integers(1, 8, count), rng.uniform(0, 90, count)
    area, income = rooms * rng.uniform(20, 40, count), rng.lognormal(10.8, 0.4, count)
    day = rng.uniform(1.2e9, 1.7e9, count)
    price = 0.008 * area - 0.006 * age + 0.6 * np.log(income) + (day - 1.2e9) / 1e9
    return np.stack([rooms, age, area, income, day], 1), price + rng.normal(0, 0.1, count)


@training(
    field="tabular",
    fault="The columns are not scaled, and one holds seconds since 1970: R2 stays far below zero.",
    series=["train_mse", "val_mse", "val_r2"],
    onset=(0, 5),
    source="https://stackoverflow.com/questions/40050397/deep-learning-nan-loss-reasons",
)
def columns_as_they_stand(log: Log) -> None:
    rng = seeded(1404)
    x, y = houses(rng, 2500)
    data = torch.tensor(x, dtype=torch.float32)
    target = torch.tensor(y - y.mean(), dtype=torch.float32)[:, None]
    model = mlp(5, 32, 32, 1)
    opt = torch.optim.RMSprop(model.parameters(), 1e-2)
    for epoch in range(60):
        losses = [descend(opt, fn.mse_loss(model(data[b]), target[b])) for b in batches(rng, 2000, 50)]
        with torch.no_grad():
            guess = model(data[2000:])
        log("train_mse", float(np.mean(losses)), epoch)
        log("val_mse", fn.mse_loss(guess, target[2000:]).item(), epoch)
        log("val_r2", r2_score(target[2000:], guess), epoch)


def cart(log: Log, seed: int, *, forgets: bool, rounds: int) -> None:
    """Policy gradients for a cart on a rail, whose sensors have other scales, so that they are normalised.

    With ``forgets`` the evaluation starts with fresh statistics, those of no observation.
    """
    rng = seeded(seed)
    policy = mlp(2, 32, 3, act=nn.Tanh)
    opt = torch.optim.Adam(policy.parameters(), 5e-3)
    mean, square, seen = torch.zeros(2), torch.ones(2), 1e-4

    def drive(learn: bool, count: int = 16) -> tuple[list, list, torch.Tensor]:
        nonlocal mean, square, seen
        place = torch.tensor(rng.uniform(-1, 1, count), dtype=torch.float32)
        speed = torch.zeros(count)
        chances, rewards = [], []
        for _ in range(30):
            sensed = torch.stack([400 + 100 * place, 0.01 * speed - 3], 1)
            if learn:
                old, seen = seen, seen + count
                mean = mean + (sensed.mean(0) - mean) * count / seen
                square = (square * old + ((sensed - mean) ** 2).sum(0)) / seen
            shift, scale = (torch.zeros(2), torch.ones(2)) if forgets and not learn else (mean, square.sqrt())
            out = policy(((sensed - shift) / (scale + 1e-8)).clamp(-10, 10))
            choice = torch.distributions.Categorical(logits=out)
            move = choice.sample() if learn else out.argmax(1)
            chances.append(choice.log_prob(move) + 0.01 * choice.entropy())
            speed = (0.9 * speed + 0.1 * (move - 1)).clamp(-0.5, 0.5)
            place = (place + speed).clamp(-2, 2)
            rewards.append(-place.abs())
        return chances, rewards, torch.stack(rewards).sum(0)

    recent: list[float] = []
    for step in range(1, rounds + 1):
        chances, rewards, total = drive(True)
        later = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        gain = (later - later.mean(1, keepdim=True)) / (later.std() + 1e-6)
        loss = descend(opt, -(torch.stack(chances) * gain).mean())
        recent = [*recent, total.mean().item()][-10:]
        if step % 2 == 0:
            log("rollout/ep_rew_mean", float(np.mean(recent)), step * 480)
            log("train/policy_gradient_loss", loss, step * 480)
        if step % 8 == 0:
            with torch.no_grad():
                log("eval/mean_reward", drive(False)[2].mean().item(), step * 480)


@training(
    field="reinforcement learning",
    fault="The evaluation does not load the statistics of the observations: there it never gets better.",
    series=["eval/mean_reward"],
    onset=(0, 40_000),
    source="https://github.com/DLR-RM/stable-baselines3/issues/1103",
)
def statistics_left_behind(log: Log) -> None:
    cart(log, 1405, forgets=True, rounds=240)


@training(
    field="recommender",
    fault="Sixteen factors without any decay learn the ratings by heart: those held out get worse.",
    series=["rmse/test"],
    onset=(2, 7),
    source="https://developers.google.com/machine-learning/recommendation/collaborative/matrix",
)
def films_by_heart(log: Log) -> None:
    rng = seeded(1406)
    user, item = rng.integers(0, 300, 9000), rng.integers(0, 200, 9000)
    taste, kind = rng.normal(0, 1, (300, 3)), rng.normal(0, 1, (200, 3))
    true = 3.5 + 0.5 * (taste[user] * kind[item]).sum(1) + 0.4 * kind[item, 0]
    stars = torch.tensor(np.clip(np.round(true + rng.normal(0, 0.7, 9000)), 1, 5), dtype=torch.float32)
    pair = torch.as_tensor(np.stack([user, item]))
    users, items = nn.Embedding(300, 16), nn.Embedding(200, 16)
    for table in (users, items):
        nn.init.normal_(table.weight, 0, 0.05)
    opt = torch.optim.Adam([*users.parameters(), *items.parameters()], 1e-2)

    def error(b: torch.Tensor) -> torch.Tensor:
        return ((users(pair[0, b]) * items(pair[1, b])).sum(1) + 3.5 - stars[b]).square().mean()

    for epoch in range(50):
        losses = [descend(opt, error(b)) for b in batches(rng, 8000, 100)]
        log("rmse/train", math.sqrt(np.mean(losses)), epoch)
        with torch.no_grad():
            log("rmse/test", error(torch.arange(8000, 9000)).sqrt().item(), epoch)


def hands(rng: np.random.Generator, count: int) -> torch.Tensor:
    """Points near eight places on a circle."""
    angle = rng.integers(0, 8, count) * math.pi / 4
    points = np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(0, 0.05, (count, 2))
    return torch.tensor(points, dtype=torch.float32)


def covered(points: torch.Tensor) -> tuple[int, float]:
    """How many of the eight places have a fiftieth of the points, and the points' mean distance apart."""
    angle = torch.arange(8) * math.pi / 4
    near = torch.cdist(points, torch.stack([angle.cos(), angle.sin()], 1)).min(1)
    counts = torch.bincount(near.indices[near.values < 0.25], minlength=8)
    return int((counts >= len(points) / 50).sum()), torch.cdist(points, points).mean().item()


@training(
    field="adversarial",
    fault="The generator learns ten times as fast as the discriminator: all samples fall into one place.",
    series=["modes_covered", "sample_diversity"],
    onset=(0, 400),
    source="https://developers.google.com/machine-learning/gan/problems",
)
def one_place_of_eight(log: Log) -> None:
    rng = seeded(1407)
    maker, judge = mlp(2, 48, 48, 2), mlp(2, 48, 48, 1)
    opt_g = torch.optim.Adam(maker.parameters(), 3e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(judge.parameters(), 3e-4, betas=(0.5, 0.999))
    for step in range(1, 2401):
        fake = maker(torch.randn(64, 2))
        loss_d = fn.softplus(judge(fake.detach())).mean() + fn.softplus(-judge(hands(rng, 64))).mean()
        descend(opt_d, loss_d)
        loss_g = descend(opt_g, fn.softplus(-judge(fake)).mean())
        if step % 8 == 0:
            log("D_loss", loss_d.item(), step)
            log("G_loss", loss_g, step)
        if step % 40 == 0:
            with torch.no_grad():
                places, apart = covered(maker(torch.randn(400, 2)))
            log("modes_covered", places, step)
            log("sample_diversity", apart, step)


class Coder(nn.Module):
    """A variational autoencoder of eight numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = mlp(64, 96, 16), mlp(8, 96, 64)

    def forward(self, x: torch.Tensor, weight: float) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = self.encoder(x).chunk(2, 1)
        z = mean + (spread / 2).exp() * torch.randn_like(mean)
        recon = weight * (self.decoder(z) - x).square().sum(1).mean()
        return recon, 0.5 * (mean**2 + spread.exp() - 1 - spread).sum(1).mean()


@training(
    field="variational autoencoder",
    fault="Raw grey values and an exponential without a bound: the variance overflows and all becomes NaN.",
    series=["elbo", "recon", "kl"],
    onset=(250, 450),
    source="https://discuss.pytorch.org/t/vae-loss-becomes-nan/177127",
)
def variance_overflows(log: Log) -> None:
    rng = seeded(1408)
    x = digits()[0] * 16
    model = Coder()
    opt = torch.optim.SGD(model.parameters(), 1e-6)
    for step, b in zip(range(800), forever(rng, len(x), 32), strict=False):
        set_rate(opt, 1e-6 * min(step, 500))
        recon, kl = model(x[b], 0.5)
        descend(opt, recon + kl)
        if step % 4 == 0:
            log("elbo", -(recon + kl).item(), step)
            log("recon", recon.item(), step)
            log("kl", kl.item(), step)
            log("lr", opt.param_groups[0]["lr"], step)


@training(
    field="diffusion",
    fault="The noise to predict is drawn anew, not that in the picture: the loss stays at one, its variance.",
    series=["train_mse", "val_mse"],
    onset=(0, 200),
    source="https://huggingface.co/docs/diffusers/tutorials/basic_training",
)
def noise_drawn_twice(log: Log) -> None:
    rng = seeded(1409)
    x, _, xv, _ = digits()
    x, xv = 2 * x - 1, 2 * xv - 1
    model = mlp(65, 128, 128, 64, act=nn.SiLU)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    keep = torch.cumprod(1 - torch.linspace(1e-3, 0.15, 50), 0)

    def lost(x: torch.Tensor) -> torch.Tensor:
        at = torch.as_tensor(rng.integers(0, 50, len(x)))
        mixed = keep[at, None].sqrt() * x + (1 - keep[at, None]).sqrt() * torch.randn_like(x)
        return fn.mse_loss(model(torch.cat([mixed, at[:, None] / 25 - 1], 1)), torch.randn_like(x))

    stream = forever(rng, len(x), 64)
    for step in range(1, 1501):
        b = next(stream)
        loss = descend(opt, lost(x[b]))
        if step % 6 == 0:
            log("train_mse", loss, step)
        if step % 75 == 0:
            with torch.no_grad():
                log("val_mse", lost(xv).item(), step)


def citations(rng: np.random.Generator, classes: np.ndarray, links: int) -> torch.Tensor:
    """The normalised matrix of a graph whose links join, four times of five, two nodes of a class."""
    size = len(classes)
    matrix = torch.eye(size)
    for a in range(size):
        fellows = np.flatnonzero(classes == classes[a])
        for _ in range(links):
            b = rng.choice(fellows) if rng.random() < 0.8 else rng.integers(size)
            matrix[a, b] = matrix[b, a] = 1
    scale = matrix.sum(1).rsqrt()
    return scale[:, None] * matrix * scale


@training(
    field="graph neural net",
    fault="Sixteen layers of convolution smooth all nodes into one: the classes cannot be told apart.",
    series=["loss", "train_acc", "val_acc"],
    onset=(0, 30),
    source="https://arxiv.org/abs/1801.07606",
)
def smoothed_into_one(log: Log) -> None:
    rng = seeded(1410)
    classes = rng.integers(0, 5, 500)
    graph = citations(rng, classes, 2)
    x = torch.tensor(
        rng.normal(0, 1, (500, 24)) + 0.8 * rng.normal(0, 1, (5, 24))[classes], dtype=torch.float32
    )
    y = torch.as_tensor(classes)
    layers = nn.ModuleList(nn.Linear(a, 16) for a in [24] + [16] * 15)
    head = nn.Linear(16, 5)
    opt = torch.optim.Adam([*layers.parameters(), *head.parameters()], 1e-3, weight_decay=5e-4)
    for epoch in range(1, 201):
        h = x
        for layer in layers:
            h = fn.relu(graph @ layer(fn.dropout(h, 0.3)))
        out = head(h)
        loss = descend(opt, fn.cross_entropy(out[:200], y[:200]))
        hit = (out.argmax(1) == y).float()
        log("loss", loss, epoch)
        log("train_acc", hit[:200].mean().item(), epoch)
        log("val_acc", hit[200:].mean().item(), epoch)
        log("node_spread", ((h - h.mean(0)).norm() / h.norm()).item(), epoch)


class Rounded(nn.Module):
    """A classifier of digits whose weights and activations can be rounded to a few bits."""

    def __init__(self, bits: int, reach: float | None) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)
        self.bits, self.reach, self.rounds = bits, reach, False

    def fake(self, x: torch.Tensor) -> torch.Tensor:
        """Round on a grid, and let the gradient through."""
        if not self.rounds:
            return x
        reach = self.reach or x.detach().abs().max().item()
        scale = reach / (2 ** (self.bits - 1) - 1)
        grid = (x / scale).round().clamp(-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1) * scale
        return x + (grid - x).detach()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            x = self.fake(fn.relu(fn.linear(x, self.fake(layer.weight), layer.bias)))
        return fn.linear(x, self.fake(self.third.weight), self.third.bias)


def quantise(
    log: Log, seed: int, *, bits: int, reach: float | None, rate: float, tags: tuple[str, ...]
) -> None:
    """Train, then turn rounding on after epoch 15 and go on with a lower rate."""
    rng = seeded(seed)
    x, y, xv, yv = digits(seed)
    model = Rounded(bits, reach)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    step = 0
    for epoch in range(35):
        if epoch == 15:
            model.rounds = True
            set_rate(opt, rate)
        for b in batches(rng, len(x), 40):
            loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
            step += 1
            if step % 5 == 0:
                log(tags[0], loss, step)
        missed, accuracy = evaluate(model, xv, yv)
        log(tags[1], missed, step)
        log(tags[2], accuracy, step)
        log(tags[3], float(model.rounds), step)


@training(
    field="quantisation-aware training",
    fault="The range of the rounding, 0.05, cuts off nearly all values: with it the accuracy falls for good.",
    series=["qat/loss", "qat/val_loss", "qat/val_top1"],
    onset=(520, 570),
    source="https://docs.pytorch.org/docs/stable/quantization.html",
)
def range_cut_off(log: Log) -> None:
    tags = ("qat/loss", "qat/val_loss", "qat/val_top1", "qat/observer_on")
    quantise(log, 1411, bits=4, reach=0.05, rate=1e-5, tags=tags)


def parcels(rng: np.random.Generator, count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pictures of 16 x 16, whether a parcel lies in them, and its middle, width and height, as parts of 1."""
    size = rng.integers(4, 9, (count, 2))
    corner = (rng.random((count, 2)) * (17 - size)).astype(int)
    present = rng.random(count) < 0.7
    pictures = rng.normal(0, 0.2, (count, 16, 16))
    for picture, (x, y), (w, h), there in zip(pictures, corner, size, present, strict=True):
        picture[y : y + h, x : x + w] += there
    boxes = np.concatenate([corner + size / 2, size], 1) / 16
    floats = (torch.tensor(a, dtype=torch.float32) for a in (pictures.reshape(count, 256), present, boxes))
    return tuple(floats)  # type: ignore[return-value]


def overlap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The intersection over the union of boxes given by two corners."""
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    both = (high - low).clamp(min=0).prod(1)
    return both / ((a[:, 2:] - a[:, :2]).clamp(min=0).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - both)


@training(
    field="detection of parcels",
    fault="The evaluation takes middles and sizes for corners: the losses fall and no box is ever found.",
    series=["metrics/mAP_0.5", "metrics/recall"],
    onset=(0, 12),
    source="https://github.com/ultralytics/yolov5/issues/2293",
)
def middles_for_corners(log: Log) -> None:
    rng = seeded(1412)
    x, there, boxes = parcels(rng, 1200)
    xv, therev, boxesv = parcels(rng, 300)
    corners = torch.cat([boxesv[:, :2] - boxesv[:, 2:] / 2, boxesv[:, :2] + boxesv[:, 2:] / 2], 1)
    model = mlp(256, 128, 64, 5)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)

    def lost(x: torch.Tensor, there: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out = model(x)
        apart = (fn.smooth_l1_loss(out[:, 1:], boxes, reduction="none").sum(1) * there).sum() / there.sum()
        return 5 * apart, fn.binary_cross_entropy_with_logits(out[:, 0], there), out

    for epoch in range(45):
        kept = []
        for b in batches(rng, len(x), 24):
            box, presence, _ = lost(x[b], there[b], boxes[b])
            descend(opt, box + presence)
            kept.append((box.item(), presence.item()))
        with torch.no_grad():
            box, presence, out = lost(xv, therev, boxesv)
        found = (overlap(out[:, 1:], corners) > 0.5) & (therev > 0)
        trust = out[:, 0].sigmoid()
        precise = average_precision_score(found, trust) if found.any() else 0.0
        log("train/box_loss", float(np.mean(kept, 0)[0]), epoch)
        log("train/obj_loss", float(np.mean(kept, 0)[1]), epoch)
        log("val/box_loss", box.item(), epoch)
        log("val/obj_loss", presence.item(), epoch)
        recall = ((trust > 0.5) & found).sum().item() / therev.sum().item()
        log("metrics/recall", recall, epoch)
        log("metrics/mAP_0.5", precise * found.sum().item() / therev.sum().item(), epoch)


def instruct(log: Log, seed: int, *, lines: int, epochs: int, rate: float) -> None:
    """Pretrain a model of characters on one text, then tune it on few lines of another."""
    rng = seeded(seed)
    ids, size = encode(text(rng, 400))
    other = torch.as_tensor(rng.permutation(size))
    model = CharModel(size, 96)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        descend(opt, token_loss(model, *windows(rng, ids, 16, 32)))
    few, held = other[encode(text(rng, 400))[0]][: lines * 48], other[encode(text(rng, 60))[0]]
    x = few[: lines * 48].view(lines, 48)
    held = held[: len(held) // 48 * 48].view(-1, 48)
    opt = torch.optim.AdamW(model.parameters(), rate)
    total, step = epochs * (lines // 8), 0
    for epoch in range(epochs):
        for b in batches(rng, lines, 8):
            set_rate(opt, rate * (1 - step / total))
            out = model(x[b, :-1])
            loss = descend(opt, fn.cross_entropy(out.flatten(0, 1), x[b, 1:].flatten()))
            step += 1
            log("train/loss", loss, step)
            log("train/mean_token_accuracy", (out.argmax(2) == x[b, 1:]).float().mean().item(), step)
            log("train/learning_rate", opt.param_groups[0]["lr"], step)
            log("train/grad_norm", grad_norm(model.parameters()), step)
        with torch.no_grad():
            log("eval/loss", token_loss(model, held[:, :-1], held[:, 1:]).item(), step)
        log("train/epoch", epoch + 1, step)


@training(
    field="fine-tuning a language model",
    fault="Far too many epochs on few lines: they are learnt by heart and the loss of the others rises.",
    series=["eval/loss"],
    onset=(84, 140),
    source="https://magazine.sebastianraschka.com/p/practical-tips-for-finetuning-llms",
)
def sixty_epochs_of_instructions(log: Log) -> None:
    instruct(log, 1413, lines=32, epochs=60, rate=8e-3)


@training(
    field="translation",
    fault="The words to predict are not shifted by one: the decoder copies its input and translates nothing.",
    series=["train_loss", "train_token_acc", "valid_loss", "valid_bleu"],
    onset=(0, 250),
    source="https://discuss.pytorch.org/t/transformer-decoder-outputs/123826",
)
def target_not_shifted(log: Log) -> None:
    rng = seeded(1414)
    change = torch.as_tensor(rng.permutation(20)) + 2
    reader, writer = nn.GRU(24, 48, batch_first=True), nn.GRU(24, 48, batch_first=True)
    source, target, head = nn.Embedding(20, 24), nn.Embedding(22, 24), nn.Linear(48, 22)
    parts = nn.ModuleList([reader, writer, source, target, head])
    opt = torch.optim.Adam(parts.parameters(), 3e-3)

    def pair(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        said = torch.as_tensor(rng.integers(0, 20, (count, 6)))
        return said, change[said.flip(1)]

    def write(state: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, state = writer(target(words), state)
        return head(out), state

    @torch.no_grad()
    def bleu(said: torch.Tensor, right: torch.Tensor) -> float:
        state, word, words = reader(source(said))[1], torch.zeros(len(said), 1, dtype=torch.long), []
        for _ in range(6):
            out, state = write(state, word)
            word = out.argmax(2)
            words.append(word)
        heard, logs = torch.cat(words, 1), []
        for n in range(1, 5):
            hits, total = 0.0, 0
            for a, b in zip(heard.tolist(), right.tolist(), strict=True):
                left = [tuple(b[i : i + n]) for i in range(7 - n)]
                for i in range(7 - n):
                    if tuple(a[i : i + n]) in left:
                        left.remove(tuple(a[i : i + n]))
                        hits += 1
                total += 7 - n
            logs.append(math.log(max(hits, 1e-3) / total))
        return 100 * math.exp(np.mean(logs))

    for step in range(1, 1001):
        said, right = pair(32)
        out, _ = write(reader(source(said))[1], right)
        loss = descend(opt, fn.cross_entropy(out.flatten(0, 1), right.flatten()))
        if step % 10 == 0:
            log("train_loss", loss, step)
            log("train_token_acc", (out.argmax(2) == right).float().mean().item(), step)
        if step % 50 == 0:
            said, right = pair(100)
            with torch.no_grad():
                out, _ = write(reader(source(said))[1], right)
            log("valid_loss", fn.cross_entropy(out.flatten(0, 1), right.flatten()).item(), step)
            log("valid_bleu", bleu(said, right), step)


@training(
    field="quantisation-aware training",
    healthy=True,
    source="https://docs.pytorch.org/docs/stable/quantization.html",
    note="When rounding to three bits begins, the loss jumps and comes back in part; its price is small.",
)
def rounding_begins(log: Log) -> None:
    tags = ("Train/Loss", "Val/Loss", "Val/Acc@1", "fake_quant_enabled")
    quantise(log, 1421, bits=3, reach=None, rate=3e-4, tags=tags)


@training(
    field="photographs",
    healthy=True,
    source="https://arxiv.org/abs/1608.03983",
    note="At each restart of the rate the losses jump; each cycle ends as low as the one before, or lower.",
)
def restarts_with_longer_cycles(log: Log) -> None:
    rng = seeded(1422)
    x, y, xv, yv = digits(1)
    xv = xv + 0.25 * torch.tensor(rng.normal(0, 1, xv.shape), dtype=torch.float32)
    model = mlp(64, 96, 10)
    opt = torch.optim.SGD(model.parameters(), 0.2, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 5, 2)
    per = len(x) // 32
    for epoch in range(75):
        losses = []
        for i, b in enumerate(batches(rng, len(x), 32)):
            noisy = x[b] + 0.3 * torch.randn(32, 64)
            losses.append(descend(opt, fn.cross_entropy(model(noisy), y[b])))
            if i % 11 == 0:
                log("lr", opt.param_groups[0]["lr"], epoch * per + i)
                log("Loss/train", float(np.mean(losses[-11:])), epoch * per + i)
            schedule.step(epoch + (i + 1) / per)
        missed, accuracy = evaluate(model, xv, yv)
        log("Loss/val", missed, (epoch + 1) * per - 1)
        log("Accuracy/val", accuracy, (epoch + 1) * per - 1)


def quakes(rng: np.random.Generator, count: int, noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Signals of 64 samples with a short wave of one of four frequencies, in noise."""
    kind, start = rng.integers(0, 4, count), rng.integers(4, 40, (count, 1))
    at = np.arange(64) - start
    wave = np.sin(at * (0.4 + 0.4 * kind[:, None])) * np.exp(-((at / 12 - 0.7) ** 2)) * (at >= 0)
    signal = wave + rng.normal(0, 1, wave.shape) * noise
    return torch.tensor(signal[:, None], dtype=torch.float32), torch.as_tensor(kind)


@training(
    field="signals of earthquakes",
    healthy=True,
    source="https://lilianweng.github.io/posts/2020-01-29-curriculum-rl/",
    note="The curriculum adds noise, so that the loss of training rises; the hard test gets better.",
)
def fainter_and_fainter(log: Log) -> None:
    rng = seeded(1423)
    model = nn.Sequential(
        nn.Conv1d(1, 16, 9, stride=2, padding=4),
        nn.ReLU(),
        nn.Conv1d(16, 16, 9, stride=2, padding=4),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
    )
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    xv, yv = quakes(rng, 400, 0.8)
    for step in range(1600):
        noise = 0.1 + 0.7 * min(1, max(0, step - 200) / 1000)
        x, y = quakes(rng, 32, noise)
        out = model(x)
        loss = descend(opt, fn.cross_entropy(out, y))
        if step % 8 == 0:
            log("curriculum/noise_level", noise, step)
            log("batch_loss", loss, step)
            log("batch_acc", (out.argmax(1) == y).float().mean().item(), step)
        if step % 80 == 79:
            missed, accuracy = evaluate(model, xv, yv)
            log("hard_test/loss", missed, step)
            log("hard_test/acc", accuracy, step)


@training(
    field="reinforcement learning",
    healthy=True,
    source="https://gymnasium.farama.org/tutorials/training_agents/frozenlake_q_learning/",
    note="The only reward is behind three doors: nothing for long, then the agent finds it nearly always.",
)
def treasure_behind_doors(log: Log) -> None:
    rng = seeded(1424)
    worth = np.zeros((9, 9, 4))
    walls = {(r, c) for r in (2, 4, 6) for c in range(9)} - {(2, 4), (4, 2), (6, 6)}
    found: list[float] = []
    lengths: list[float] = []
    for episode in range(1, 3001):
        curious = max(0.05, 1 - episode / 2400)
        r, c, reward, taken = 0, 0, 0.0, 0
        for taken in range(1, 91):  # noqa: B007 - it is logged
            best = worth[r, c]
            move = (
                int(rng.integers(4))
                if rng.random() < curious
                else int(rng.choice(np.flatnonzero(best == best.max())))
            )
            a, b = r + (1, -1, 0, 0)[move], c + (0, 0, 1, -1)[move]
            if not (0 <= a < 9 and 0 <= b < 9) or (a, b) in walls:
                a, b = r, c
            reward = float((a, b) == (8, 8))
            worth[r, c, move] += 0.2 * (reward + (1 - reward) * 0.98 * worth[a, b].max() - best[move])
            r, c = a, b
            if reward:
                break
        found.append(reward)
        lengths.append(taken)
        if episode % 20 == 0:
            log("rollout/ep_rew_mean", float(np.mean(found[-100:])), episode)
            log("rollout/ep_len_mean", float(np.mean(lengths[-100:])), episode)
            log("rollout/exploration_rate", curious, episode)
            log("q_start", worth[0, 0].max(), episode)


@training(
    field="adversarial",
    healthy=True,
    source="https://arxiv.org/abs/1802.05957",
    note="The two losses swing against each other and do not fall, while all eight places get covered.",
)
def swings_and_covers(log: Log) -> None:
    rng = seeded(1425)
    maker, judge = mlp(8, 64, 64, 2), mlp(2, 64, 64, 1)
    opt_g = torch.optim.Adam(maker.parameters(), 2e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(judge.parameters(), 4e-3, betas=(0.5, 0.99))
    average = copy.deepcopy(maker)
    for step in range(1, 2001):
        set_rate(opt_g, 2e-3 * (1 - step / 2200))
        set_rate(opt_d, 4e-3 * (1 - step / 2200))
        real, fake = hands(rng, 96).requires_grad_(), maker(torch.randn(96, 8))
        on_real = judge(real)
        slope = torch.autograd.grad(on_real.sum(), real, create_graph=True)[0].square().sum(1).mean()
        loss_d = fn.softplus(judge(fake.detach())).mean() + fn.softplus(-on_real).mean()
        descend(opt_d, loss_d + 0.0015 * slope)
        loss_g = descend(opt_g, fn.softplus(-judge(fake)).mean())
        with torch.no_grad():
            for kept, now in zip(average.parameters(), maker.parameters(), strict=True):
                kept.lerp_(now, 0.01)
        if step % 4 == 0:
            log("loss/discriminator", loss_d.item(), step)
            log("loss/generator", loss_g, step)
            log("loss/r1", slope.item(), step)
        if step % 80 == 0:
            with torch.no_grad():
                points = average(torch.randn(600, 8))
            real = hands(rng, 600)
            angle = torch.arange(16) * math.pi / 16
            ways = torch.stack([angle.cos(), angle.sin()])
            log(
                "metrics/swd",
                ((points @ ways).sort(0)[0] - (real @ ways).sort(0)[0]).abs().mean().item(),
                step,
            )
            log("metrics/modes", covered(points)[0], step)


@training(
    field="arithmetic",
    healthy=True,
    source="https://arxiv.org/abs/2201.02177",
    note="Grokking: the training set is known by heart early, and the rest is understood long after.",
)
def understood_late(log: Log) -> None:
    rng = seeded(1426)
    p = 23
    pairs = torch.as_tensor(np.stack(np.divmod(rng.permutation(p * p), p), 1))
    y = pairs.sum(1) % p
    x = torch.cat([fn.one_hot(pairs[:, 0], p), fn.one_hot(pairs[:, 1], p)], 1).float()
    known = int(0.7 * p * p)
    model = nn.Sequential(nn.Linear(2 * p, 128, bias=False), nn.ReLU(), nn.Linear(128, p, bias=False))
    opt = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=2.0)
    for step in range(3001):
        out = model(x[:known])
        loss = descend(opt, fn.cross_entropy(out, y[:known]))
        if step % 15 == 0:
            missed, accuracy = evaluate(model, x[known:], y[known:])
            log("train/ce", loss, step)
            log("train/acc", (out.argmax(1) == y[:known]).float().mean().item(), step)
            log("test/ce", missed, step)
            log("test/acc", accuracy, step)


@training(
    field="fine-tuning a language model",
    healthy=True,
    source="https://huggingface.co/docs/trl/sft_trainer",
    note="Three epochs, and so three points of evaluation, while the losses still fall at the end.",
)
def three_points_of_evaluation(log: Log) -> None:
    instruct(log, 1427, lines=160, epochs=3, rate=8e-3)


@training(
    field="fraud in a graph of payments",
    healthy=True,
    source="https://arxiv.org/abs/1908.02591",
    note="Three of a hundred are fraud and weigh more: the accuracy falls while fraud is found.",
)
def accuracy_given_for_recall(log: Log) -> None:
    rng = seeded(1428)
    size = 900
    fraud = (rng.random(size) < 0.04).astype(int)
    graph = citations(rng, fraud, 2)
    shift = rng.normal(0, 1, 16) * fraud[:, None] * 0.45
    x = torch.tensor(rng.normal(0, 1, (size, 16)) + shift, dtype=torch.float32)
    y = torch.tensor(fraud, dtype=torch.float32)
    first, second = nn.Linear(16, 16), nn.Linear(16, 1)
    nn.init.constant_(second.bias, -3)
    opt = torch.optim.Adam([*first.parameters(), *second.parameters()], 3e-3, weight_decay=1e-3)
    weight = torch.tensor(12.0)

    def score(rate: float) -> torch.Tensor:
        return second(fn.dropout(fn.relu(graph @ first(x)), rate))[:, 0]

    for epoch in range(150):
        loss = fn.binary_cross_entropy_with_logits(score(0.3)[:600], y[:600], pos_weight=weight)
        descend(opt, loss)
        if epoch % 3 == 0:
            with torch.no_grad():
                out = score(0.0)[600:]
            held = y[600:]
            log("weighted_bce", loss.item(), epoch)
            log(
                "weighted_bce_val",
                fn.binary_cross_entropy_with_logits(out, held, pos_weight=weight).item(),
                epoch,
            )
            log("acc_val", ((out > 0) == (held > 0)).float().mean().item(), epoch)
            log("recall_val", recall_score(held, out > 0, zero_division=0), epoch)
            log("auprc_val", average_precision_score(held, out), epoch)


@training(
    field="contrastive",
    healthy=True,
    source="https://lightning.ai/docs/pytorch/stable/notebooks/course_UvA-DL/13-contrastive-learning.html",
    note="The loss falls little and stays far above zero, as views are hard to match; the codes get better.",
)
def views_hard_to_match(log: Log) -> None:
    rng = seeded(1429)
    x, y, xv, yv = digits(2)
    moved = xv.view(-1, 8, 8).roll((1, -1), (1, 2)).flatten(1) + 0.2 * torch.randn_like(xv)
    model, head = mlp(64, 128, 64), mlp(64, 64, 32)
    opt = torch.optim.AdamW([*model.parameters(), *head.parameters()], 2e-3)

    def view(x: torch.Tensor) -> torch.Tensor:
        moved = torch.roll(x.view(-1, 8, 8), (int(rng.integers(-1, 2)), int(rng.integers(-1, 2))), (1, 2))
        return (moved.flatten(1) + 0.2 * torch.randn_like(x)) * (torch.rand_like(x) > 0.25)

    stream = forever(rng, len(x), 128)
    for step in range(1, 1201):
        b = next(stream)
        codes = fn.normalize(head(model(torch.cat([view(x[b]), view(x[b])]))), dim=1)
        alike = (codes @ codes.T / 0.1).masked_fill(torch.eye(256, dtype=torch.bool), -math.inf)
        mates = torch.arange(256).roll(128)
        loss = descend(opt, fn.cross_entropy(alike, mates))
        if step % 6 == 0:
            log("train_info_nce", loss, step)
            log("train_acc_top1", (alike.argmax(1) == mates).float().mean().item(), step)
        if step % 60 == 0:
            with torch.no_grad():
                known, asked = (fn.normalize(model(a), dim=1) for a in (x, moved))
            log("knn_top1", (y[(asked @ known.T).argmax(1)] == yv).float().mean().item(), step)


@training(
    field="distillation",
    healthy=True,
    source="https://arxiv.org/abs/2106.05237",
    note="The pupil sees mixed and noisy pictures: its loss stays high, and validation is far better.",
)
def patient_pupil(log: Log) -> None:
    rng = seeded(1430)
    x, y, xv, yv = digits(3)
    teacher, pupil = (
        mlp(64, 128, 128, 10),
        nn.Sequential(mlp(64, 24), nn.ReLU(), nn.Dropout(0.2), mlp(24, 10)),
    )
    opt = torch.optim.Adam(teacher.parameters(), 2e-3)
    for _, b in zip(range(400), forever(rng, len(x), 64), strict=False):
        descend(opt, fn.cross_entropy(teacher(x[b]), y[b]))
    opt = torch.optim.AdamW(pupil.parameters(), 2e-3)
    for epoch in range(70):
        losses, hits = [], []
        for b in batches(rng, len(x), 50):
            share = torch.tensor(rng.beta(0.4, 0.4, (50, 1)), dtype=torch.float32)
            mixed = share * x[b] + (1 - share) * x[b].roll(1, 0) + 0.3 * torch.randn(50, 64)
            with torch.no_grad():
                soft = (teacher(mixed) / 3).softmax(1)
            out = pupil(mixed)
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, 9 * fn.cross_entropy(out / 3, soft)))
        missed, accuracy = evaluate(pupil, xv, yv)
        log("distill/kd_loss", float(np.mean(losses)), epoch)
        log("distill/train_acc", float(np.mean(hits)), epoch)
        log("distill/val_ce", missed, epoch)
        log("distill/val_acc", accuracy, epoch)


@training(
    field="physics",
    healthy=True,
    source="https://arxiv.org/abs/2308.08468",
    note="The losses have spikes of up to sixtyfold, which pass; the error falls to less than a hundredth.",
)
def spikes_that_pass(log: Log) -> None:
    seeded(1431)
    model = mlp(1, 32, 32, 1, act=nn.Tanh)
    opt = torch.optim.Adam(model.parameters(), 2.5e-2)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9992)
    line = torch.linspace(-1, 1, 201)[:, None]
    for step in range(2501):
        x = (2 * torch.rand(64, 1) - 1).requires_grad_()
        u = model(x)
        du = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        ddu = torch.autograd.grad(du.sum(), x, create_graph=True)[0]
        inside = (ddu + math.pi**2 * (math.pi * x).sin()).square().mean()
        edge = model(torch.tensor([[-1.0], [1.0]])).square().mean()
        descend(opt, inside + 20 * edge)
        schedule.step()
        if step % 5 == 0:
            log("loss_pde", inside.item(), step)
            log("loss_bc", edge.item(), step)
        if step % 100 == 0:
            with torch.no_grad():
                right = (math.pi * line).sin()
                log("rel_l2", ((model(line) - right).norm() / right.norm()).item(), step)


@training(
    field="mixture of experts",
    healthy=True,
    source="https://arxiv.org/abs/2101.03961",
    note="The shares of the experts swing from batch to batch and their loss stays at one: that is balance.",
)
def experts_share_the_work(log: Log) -> None:
    rng = seeded(1432)
    gate = nn.Linear(8, 4)
    experts = nn.ModuleList(mlp(8, 24, 1) for _ in range(4))
    opt = torch.optim.Adam([*gate.parameters(), *experts.parameters()], 3e-3)
    middles, slopes = 2 * rng.normal(0, 1, (4, 8)), rng.normal(0, 1, (4, 8))

    def demand(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        kind = rng.integers(0, 4, count)
        x = middles[kind] + rng.normal(0, 1, (count, 8))
        y = (x * slopes[kind]).sum(1) + rng.normal(0, 0.3, count)
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

    def answer(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        chance = gate(x).softmax(1)
        trust, chosen = chance.max(1)
        every = torch.cat([expert(x) for expert in experts], 1)
        load = fn.one_hot(chosen, 4).float().mean(0)
        return every.gather(1, chosen[:, None])[:, 0] * trust, load, 4 * (load * chance.mean(0)).sum()

    held, right = demand(500)
    for step in range(1, 1801):
        x, y = demand(48)
        out, load, balance = answer(x)
        loss = fn.mse_loss(out, y)
        descend(opt, loss + 2 * balance)
        if step % 9 == 0:
            log("moe/mse", loss.item(), step)
            log("moe/aux_loss", balance.item(), step)
            for i, part in enumerate(load.tolist()):
                log(f"moe/expert_{i}_share", part, step)
        if step % 90 == 0:
            with torch.no_grad():
                log("moe/val_mse", fn.mse_loss(answer(held)[0], right).item(), step)


@training(
    field="variational autoencoder",
    healthy=True,
    source="https://arxiv.org/abs/1903.10145",
    note="The weight of the divergence goes up and down four times, and recon and kl with it.",
)
def weight_in_four_cycles(log: Log) -> None:
    rng = seeded(1433)
    x, _, xv, _ = digits(4)
    model = Coder()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step, b in zip(range(2400), forever(rng, len(x), 50), strict=False):
        beta = min(1, step % 600 / 300)
        recon, kl = model(x[b], 25)
        loss = descend(opt, recon + beta * kl)
        if step % 6 == 0:
            log("loss_total", loss, step)
            log("recon", recon.item(), step)
            log("kl", kl.item(), step)
            log("beta", beta, step)
        if step % 600 == 599 or step % 120 == 0:
            with torch.no_grad():
                recon, kl = model(xv, 25)
            log("val_elbo", -(recon + kl).item(), step)


@training(
    field="speech",
    healthy=True,
    source="https://distill.pub/2017/ctc/",
    note="For a third of the run only blanks come and the error rate is one; then the net learns to hear.",
)
def hears_after_a_while(log: Log) -> None:
    transcribe(log, 1434, logarithm=True, tags=("train_loss", "dev_loss", "dev_per"), rounds=600)
