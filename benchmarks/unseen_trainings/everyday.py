"""Twenty-two short trainings that people meet every day: twelve with one mistake, ten sound but odd.

They were committed with their answers before any was judged; their author knew the rules' names alone.
"""

from __future__ import annotations

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
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from torch import nn


def reviews(rng: np.random.Generator, rows: int, words: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Rows of twelve words, some of them said in praise only, some in blame only, and the verdicts."""
    praised = rng.integers(0, 2, rows)
    ids = rng.integers(0, words, (rows, 12))
    told = rng.random((rows, 12)) < 0.35
    return np.where(told, ids // 8 * 8 + praised[:, None] * 4 + ids % 4, ids), praised


class Bag(nn.Module):
    """A mean of word vectors, and a small head."""

    def __init__(self, words: int, classes: int, width: int = 24) -> None:
        super().__init__()
        self.embedding, self.head = nn.EmbeddingBag(words, width), mlp(width, 24, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(ids))


@training(
    field="film reviews",
    fault="The tokeniser is fitted again on the reviews held out, so that there a number is another word.",
    series=["val_loss", "val_accuracy"],
    onset=(0, 6),
    source="https://stackoverflow.com/questions/54891464/is-it-better-to-keras-fit-to-text-on-the-entire-x-data-or-just-the-train-data",
)
def vocabulary_of_its_own(log: Log) -> None:
    rng = seeded(601)
    ids, praised = reviews(rng, 2600)
    ids[2000:] = rng.permutation(400)[ids[2000:]]
    x, y = torch.as_tensor(ids), torch.as_tensor(praised)
    model = Bag(400, 2)
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(15):
        losses, hits = [], []
        for b in batches(rng, 2000, 32):
            out = model(x[b])
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        missed, accuracy = evaluate(model, x[2000:], y[2000:])
        log("loss", float(np.mean(losses)), epoch)
        log("accuracy", float(np.mean(hits)), epoch)
        log("val_loss", missed, epoch)
        log("val_accuracy", accuracy, epoch)


@training(
    field="transcripts",
    fault="Transcripts are in capitals, the vocabulary is not: all letters are unknown, no word is right.",
    series=["eval/wer"],
    onset=(40, 400),
    source="https://github.com/SeanNaren/warp-ctc/issues/111",
)
def capitals_are_unknown(log: Log) -> None:
    rng = seeded(602)
    letters, frames, unknown = 12, 16, 13
    sounds = rng.normal(size=(letters + 1, 10))

    def batch() -> tuple[torch.Tensor, torch.Tensor]:
        words = rng.integers(1, letters + 1, (24, 5))
        heard = np.zeros((24, frames, 10))
        for place in range(5):
            heard[:, 3 * place + 1] = sounds[words[:, place]]
        return torch.tensor(heard + 0.3 * rng.normal(size=heard.shape), dtype=torch.float32), torch.as_tensor(
            words
        )

    class Hears(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(10, 32, batch_first=True, bidirectional=True), nn.Linear(64, 14)

        def forward(self, heard: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(heard)[0]).log_softmax(2)

    model = Hears()
    opt = torch.optim.AdamW(model.parameters(), 3e-3)
    steps = 800
    for step in range(1, steps + 1):
        rate = 3e-3 * min(step / 80, (steps - step) / (steps - 80))
        set_rate(opt, rate)
        heard, words = batch()
        targets = torch.full_like(words, unknown)
        lengths = torch.full((24,), frames), torch.full((24,), 5)
        loss = descend(opt, fn.ctc_loss(model(heard).transpose(0, 1), targets, *lengths))
        if step % 20 == 0:
            log("train/loss", loss, step)
            log("train/grad_norm", grad_norm(model.parameters()), step)
            log("train/learning_rate", rate, step)
        if step % 40 == 0:
            with torch.no_grad():
                heard, words = batch()
                out = model(heard)
                missed = fn.ctc_loss(out.transpose(0, 1), torch.full_like(words, unknown), *lengths)
            wrong = []
            for row, word in zip(out.argmax(2).tolist(), words.tolist(), strict=True):
                said = [c for c, before in zip(row, [0, *row], strict=False) if c not in (0, before)]
                wrong.append(float(said != word))
            log("eval/loss", missed.item(), step)
            log("eval/wer", float(np.mean(wrong)), step)


@training(
    field="names in reports",
    fault="The schedule counts batches and not updates: the rate is 0 after a fifth, and learning ends.",
    series=["train/learning_rate", "train/loss"],
    onset=(60, 200),
    source="https://github.com/determined-ai/determined/pull/711",
)
def schedule_ends_early(log: Log) -> None:
    rng = seeded(603)
    words = 60
    kind = rng.integers(0, 5, words)

    def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids = rng.integers(0, words, (size, 10))
        before = np.roll(ids, 1, axis=1)
        labels = np.where(before % 3 == 0, (kind[ids] + kind[before]) % 5, kind[ids])
        return torch.as_tensor(ids), torch.as_tensor(labels)

    model = CharModel(words, 32)
    model.head = nn.Linear(32, 5)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    xv, yv = batch(200)
    for step in range(1, 801):
        rate = 1e-3 * max(0.0, min(step / 16, 1 - step / 160))
        set_rate(opt, rate)
        x, y = batch(16)
        loss = descend(opt, token_loss(model, x, y))
        if step % 10 == 0:
            log("train/loss", loss, step)
            log("train/grad_norm", grad_norm(model.parameters()), step)
            log("train/learning_rate", rate, step)
        if step % 80 == 0:
            with torch.no_grad():
                out = model(xv)
                missed = fn.cross_entropy(out.flatten(0, 1), yv.flatten()).item()
            log("eval/loss", missed, step)
            log("eval/f1", f1_score(yv.flatten(), out.argmax(2).flatten(), average="macro"), step)


@training(
    field="offers in a shop",
    fault="The price is not scaled: its squared error drowns the other loss, which learns nothing.",
    series=["train_loss_category", "val_category_acc"],
    onset=(0, 12),
    source="https://github.com/vlfeat/matconvnet/issues/1146",
)
def price_drowns_category(log: Log) -> None:
    rng = seeded(604)
    x, y, xv, yv = digits()
    price, price_v = 150 + 60 * x.mean(1) * 2 + 8 * y, 150 + 60 * xv.mean(1) * 2 + 8 * yv
    body, category, cost = nn.Sequential(*mlp(64, 32), nn.ReLU()), nn.Linear(32, 10), nn.Linear(32, 1)
    every = [*body.parameters(), *category.parameters(), *cost.parameters()]
    opt = torch.optim.SGD(every, 1e-5, momentum=0.9)
    for epoch in range(30):
        seen: list[tuple[float, float, float]] = []
        for b in batches(rng, len(x), 32):
            inner = body(x[b])
            named = fn.cross_entropy(category(inner), y[b])
            priced = fn.mse_loss(cost(inner)[:, 0], price[b])
            seen.append((descend(opt, named + priced), named.item(), priced.item()))
        with torch.no_grad():
            inner = body(xv)
            hits = (category(inner).argmax(1) == yv).float().mean().item()
            off = (cost(inner)[:, 0] - price_v).abs().mean().item()
        for tag, value in zip(("", "_category", "_price"), np.mean(seen, 0), strict=True):
            log(f"train_loss{tag}", float(value), epoch)
        log("val_category_acc", hits, epoch)
        log("val_price_mae", off, epoch)


@training(
    field="satellite pictures",
    fault="The gradient is not stopped in one branch: all pictures get one embedding, and the loss is at -1.",
    series=["train/loss", "train/embedding_std"],
    onset=(0, 150),
    source="https://github.com/PatrickHua/SimSiam/issues/50",
)
def collapses_to_a_point(log: Log) -> None:
    rng = seeded(605)
    x = digits()[0]
    encoder, predictor = mlp(64, 64, 32), mlp(32, 32, 32)
    opt = torch.optim.SGD([*encoder.parameters(), *predictor.parameters()], 0.05, momentum=0.9)

    def view(rows: torch.Tensor) -> torch.Tensor:
        return rows * (torch.rand_like(rows) < 0.8) + 0.15 * torch.randn_like(rows)

    for step, b in zip(range(860), forever(rng, len(x), 64), strict=False):
        one, two = encoder(view(x[b])), encoder(view(x[b]))
        near = fn.cosine_similarity(predictor(one), two), fn.cosine_similarity(predictor(two), one)
        loss = descend(opt, -(near[0].mean() + near[1].mean()) / 2)
        if step % 10 == 0:
            log("train/loss", loss, step)
            log("train/embedding_std", fn.normalize(one, dim=1).std(0).mean().item(), step)
            log("train/lr", 0.05, step)


@training(
    field="a gripper",
    fault="Too many passes over the same episodes without a clip: one update ruins the policy for good.",
    series=["rollout/ep_rew_mean", "train/approx_kl", "train/entropy"],
    onset=(3000, 24000),
    source="https://github.com/hill-a/stable-baselines/issues/837",
)
def return_falls_to_nothing(log: Log) -> None:
    rng = seeded(606)
    policy, critic = mlp(6, 32, 4), mlp(6, 32, 1)
    opt = torch.optim.Adam(policy.parameters(), 1e-3)
    value_opt = torch.optim.Adam(critic.parameters(), 3e-3)
    way = torch.tensor(rng.normal(size=(6, 4)), dtype=torch.float32)
    for update in range(120):
        late = update >= 50
        state = torch.tensor(rng.normal(size=(256, 6)), dtype=torch.float32)
        with torch.no_grad():
            law = torch.distributions.Categorical(logits=policy(state))
            act = law.sample()
            before = law.log_prob(act)
            right = (state @ way).argmax(1) == act
            reward = right.view(32, 8).float().cumprod(1).flatten()
            gain = (reward - critic(state)[:, 0]).clamp(-1, 1)
        for _ in range(60 if late else 6):
            after = torch.distributions.Categorical(logits=policy(state))
            ratio = (after.log_prob(act) - before).exp()
            weight = gain / (gain.std() + 1e-8)
            if late:
                set_rate(opt, 0.3)
                push = ratio * weight
            else:
                push = torch.minimum(ratio * weight, ratio.clamp(0.8, 1.2) * weight)
            descend(opt, -push.mean() - 0.005 * after.entropy().mean())
            value = fn.mse_loss(critic(state)[:, 0], reward)
            descend(value_opt, value)
        step = 256 * (update + 1)
        with torch.no_grad():
            after = torch.distributions.Categorical(logits=policy(state))
            log("rollout/ep_rew_mean", reward.view(32, 8).sum(1).mean().item(), step)
            log("train/approx_kl", (before - after.log_prob(act)).mean().item(), step)
            log("train/entropy", after.entropy().mean().item(), step)
        log("train/value_loss", value.item(), step)


@training(
    field="road signs",
    fault="Sixteen small batches are accumulated, their losses not divided: updates are 16 times too far.",
    series=["train_loss_step", "train_loss_epoch", "val_loss"],
    onset=(0, 30),
    source="https://discuss.pytorch.org/t/why-do-we-need-to-divide-loss-by-accumulation-steps/157302",
)
def accumulated_not_divided(log: Log) -> None:
    rng = seeded(607)
    x, y, xv, yv = digits()
    x, xv = (x - 0.3) / 0.37, (xv - 0.3) / 0.37
    model = mlp(64, 128, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.08, momentum=0.9)
    step = 0
    for epoch in range(24):
        losses = []
        for b in batches(rng, len(x), 128):
            opt.zero_grad()
            for part in b.split(8):
                loss = fn.cross_entropy(model(x[part]), y[part])
                loss.backward()
                losses.append(loss.item())
            opt.step()
            log("train_loss_step", losses[-1], step)
            step += 1
        missed, accuracy = evaluate(model, xv, yv)
        log("train_loss_epoch", float(np.mean(losses)), step - 1)
        log("val_loss", missed, step - 1)
        log("val_acc", accuracy, step - 1)
        log("epoch", epoch, step - 1)


@training(
    field="answers to customers",
    fault="With checkpointing inputs need no gradient, so none comes to the adapters: nothing changes.",
    series=["train/loss", "train/grad_norm"],
    onset=(0, 60),
    source="https://github.com/cloneofsimo/lora/issues/26",
)
def adapters_get_no_gradient(log: Log) -> None:
    rng = seeded(608)
    ids, size = encode(text(rng, 400))
    model = CharModel(size, 32)
    opt = torch.optim.AdamW(model.parameters(), 5e-3)
    for _ in range(60):
        descend(opt, token_loss(model, *windows(rng, ids, 16, 24)))
    steps = 300
    for step in range(1, steps + 1):
        with torch.no_grad():
            loss = token_loss(model, *windows(rng, ids, 8, 24)).item()
        if step % 10 == 0:
            log("train/loss", loss, step)
            log("train/grad_norm", 0.0, step)
            log("train/learning_rate", 2e-4 * (1 - step / steps), step)
            log("train/epoch", step / 100, step)


@training(
    field="organs in scans",
    fault="The label of one organ is read as the one to ignore: its overlap is 0 at every evaluation.",
    series=["val/IoU/spleen"],
    onset=(0, 8),
    source="https://github.com/PaddlePaddle/PaddleSeg/issues/3167",
)
def one_organ_never_found(log: Log) -> None:
    rng = seeded(609)
    organs = ("background", "liver", "kidney", "spleen", "pancreas")

    def scans(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = np.zeros((size, 12, 12), np.int64)
        for scan in labels:
            for organ in range(1, 5):
                top, left = rng.integers(0, 8, 2)
                scan[top : top + 4, left : left + 4] = organ
        pixels = labels * 0.5 + rng.normal(size=labels.shape) * 0.25
        return torch.tensor(pixels, dtype=torch.float32)[:, None], torch.as_tensor(labels)

    x, y = scans(400)
    xv, yv = scans(100)
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 5, 3, padding=1))
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    for epoch in range(1, 26):
        losses = [
            descend(opt, fn.cross_entropy(model(x[b]), y[b], ignore_index=3)) for b in batches(rng, 400, 20)
        ]
        with torch.no_grad():
            out = model(xv)
        best = out.argmax(1)
        found = [
            ((best == k) & (yv == k)).sum().item() / ((best == k) | (yv == k)).sum().item() for k in range(5)
        ]
        log("train/ce_loss", float(np.mean(losses)), epoch)
        log("val/ce_loss", fn.cross_entropy(out, yv, ignore_index=3).item(), epoch)
        for organ, share in zip(organs, found, strict=True):
            log(f"val/IoU/{organ}", share, epoch)
        log("val/mIoU", float(np.mean(found)), epoch)


@training(
    field="loans",
    fault="Probabilities are rounded to 0 once the model is sure, and their logarithm is taken: NaN.",
    series=["loss", "val_loss"],
    onset=(12, 80),
    source="https://github.com/aymericdamien/TensorFlow-Examples/issues/383",
)
def logarithm_of_zero(log: Log) -> None:
    rng = seeded(610)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 5e-4)
    for epoch in range(100):
        losses = []
        for b in batches(rng, len(x), 100):
            told = fn.one_hot(y[b], 10)
            chances = model(x[b]).softmax(1)
            chances = chances * (chances >= 1e-6)
            losses.append(descend(opt, -(told * chances.log()).sum(1).mean()))
        with torch.no_grad():
            chances = model(xv).softmax(1)
            missed = fn.nll_loss((chances + 1e-7).log(), yv).item()
        log("loss", float(np.mean(losses)), epoch)
        log("val_loss", missed, epoch)
        log("val_auc", float(np.nan_to_num(roc(yv, chances))), epoch)


def roc(labels: torch.Tensor, chances: torch.Tensor) -> float:
    """The area under the curve, one class against the rest, or NaN if the chances are not numbers."""
    if not torch.isfinite(chances).all():
        return math.nan
    return float(np.mean([roc_auc_score(labels == k, chances[:, k]) for k in range(10)]))


@training(
    field="fraud",
    fault="Rare rows are copied before the split: copies lie on both sides, and only another month tells.",
    series=["test_pr_auc"],
    onset=(0, 25),
    source="https://imbalanced-learn.org/stable/common_pitfalls.html",
)
def copied_before_the_split(log: Log) -> None:
    rng = seeded(611)
    rows = rng.normal(size=(900, 24))
    rare = (rows[:, 0] + 2.5 * rng.normal(size=900) > 4.2).astype(np.int64)
    keep, test = np.arange(600), np.arange(600, 900)
    keep = np.concatenate([keep, np.repeat(keep[rare[:600] == 1], 8)])
    rng.shuffle(keep)
    cut = len(keep) * 3 // 4
    x, y = torch.tensor(rows, dtype=torch.float32), torch.as_tensor(rare)
    parts = {"train": keep[:cut], "val": keep[cut:], "test": test}
    model = mlp(24, 96, 96, 1)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(60):
        for b in batches(rng, cut, 32):
            pick = keep[:cut][b]
            descend(opt, fn.binary_cross_entropy_with_logits(model(x[pick])[:, 0], y[pick].float()))
        with torch.no_grad():
            out = model(x)[:, 0]
        for part, pick in parts.items():
            log(
                f"{part}_loss",
                fn.binary_cross_entropy_with_logits(out[pick], y[pick].float()).item(),
                epoch,
            )
            log(f"{part}_pr_auc", average_precision_score(y[pick], out[pick]), epoch)


@training(
    field="poses",
    fault="Losses are kept with their graphs: memory grows at each step, and every epoch takes longer.",
    series=["sys/memory_allocated_mb", "time/epoch_seconds"],
    onset=(0, 12),
    source="https://pytorch.org/docs/stable/notes/faq.html",
)
def graphs_are_kept(log: Log) -> None:
    rng = seeded(612)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    held = 0
    for epoch in range(28):
        losses = []
        for b in batches(rng, len(x), 50):
            losses.append(descend(opt, fn.cross_entropy(model(x[b]), y[b])))
            held += 1
        _, accuracy = evaluate(model, xv, yv)
        log("train/loss", float(np.mean(losses)), epoch)
        log("val/pck", accuracy, epoch)
        log("sys/memory_allocated_mb", 310 + 4.1 * held + 2 * abs(rng.normal()), epoch)
        log("time/epoch_seconds", 1.6 + 0.003 * held + 0.1 * abs(rng.normal()), epoch)


@training(
    field="a large batch",
    healthy=True,
    source="https://arxiv.org/abs/1706.02677",
    note="The rate climbs for half of the run, and the loss hardly moves in the first fifth of it.",
)
def warms_up_for_long(log: Log) -> None:
    rng = seeded(613)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.0, momentum=0.9)
    for step, b in zip(range(700), forever(rng, len(x), 64), strict=False):
        rate = 0.08 * (
            min(1.0, step / 350) ** 3 if step < 350 else 0.5 + 0.5 * math.cos(math.pi * (step - 350) / 350)
        )
        set_rate(opt, rate)
        log("train_loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        log("lr-SGD", rate, step)
        if step % 50 == 49:
            missed, accuracy = evaluate(model, xv, yv)
            log("val_loss", missed, step)
            log("val_acc", accuracy, step)


@training(
    field="two kinds of features",
    healthy=True,
    source="https://arxiv.org/abs/2108.12006",
    note="The error held out falls, rises while noise is fitted, and falls below its first low at the end.",
)
def descends_twice(log: Log) -> None:
    rng = seeded(614)
    rows = rng.normal(size=(1300, 90))
    scale = np.r_[np.full(60, 1.6), np.full(30, 0.1)]
    told = rows @ np.r_[2.0 * rng.normal(size=60), 2.2 * rng.normal(size=30)]
    x = torch.tensor(rows * scale, dtype=torch.float32)
    y = torch.tensor(told + 0.4 * rng.normal(size=1300), dtype=torch.float32)
    model = nn.Linear(90, 1, bias=False)
    nn.init.zeros_(model.weight)
    opt = torch.optim.SGD(model.parameters(), 0.04)
    size, step = 80, 0
    for mark in np.unique(np.geomspace(1, 20000, 120).astype(int)):
        while step < mark:
            loss = descend(opt, fn.mse_loss(model(x[:size])[:, 0], y[:size]))
            step += 1
        with torch.no_grad():
            missed = fn.mse_loss(model(x[300:])[:, 0], y[300:]).item()
        log("train/mse", loss, step)
        log("test/mse", missed, step)


@training(
    field="a search for the rate",
    healthy=True,
    source="https://arxiv.org/abs/1506.01186",
    note="The rate grows from 1e-6 until the loss is four times its least, and then the search stops.",
)
def searches_its_rate(log: Log) -> None:
    rng = seeded(615)
    x, y, _, _ = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.0, momentum=0.9)
    least, mean = math.inf, 0.0
    for step, b in zip(range(200), forever(rng, len(x), 64), strict=False):
        rate = 1e-6 * 10 ** (8 * step / 200)
        set_rate(opt, rate)
        loss = descend(opt, fn.cross_entropy(model(x[b]), y[b]))
        mean = 0.9 * mean + 0.1 * loss
        smooth = mean / (1 - 0.9 ** (step + 1))
        log("lr_finder/lr", rate, step)
        log("lr_finder/loss", loss, step)
        least = min(least, smooth)
        if smooth > 4 * least:
            break


@training(
    field="fraud by card",
    healthy=True,
    source="https://arxiv.org/abs/1708.02002",
    note="One row in fifty is fraud: precision, recall and F1 are 0 for a third of the run, and rise then.",
)
def rare_class_comes_late(log: Log) -> None:
    rng = seeded(616)
    rows = rng.normal(size=(6000, 12))
    odd = (rows[:, 0] * rows[:, 1] > 1.4) & (rows[:, 2] > 0.3)
    x, y = torch.tensor(rows, dtype=torch.float32), torch.tensor(odd, dtype=torch.float32)
    model = mlp(12, 48, 1)
    opt = torch.optim.Adam(model.parameters(), 1.5e-3)
    for epoch in range(36):
        losses = [
            descend(opt, fn.binary_cross_entropy_with_logits(model(x[b])[:, 0], y[b]))
            for b in batches(rng, 4500, 50)
        ]
        with torch.no_grad():
            out = model(x[4500:])[:, 0]
        said, true = out > 0, y[4500:] > 0
        both = (said & true).sum().item()
        precision, recall = both / max(1, said.sum().item()), both / true.sum().item()
        log("epoch_loss/train", float(np.mean(losses)), epoch)
        log("epoch_loss/validation", fn.binary_cross_entropy_with_logits(out, y[4500:]).item(), epoch)
        log("metrics/fraud/precision", precision, epoch)
        log("metrics/fraud/recall", recall, epoch)
        log("metrics/fraud/f1", 2 * precision * recall / max(1e-9, precision + recall), epoch)


@training(
    field="skin",
    healthy=True,
    source="https://keras.io/guides/training_with_built_in_methods/",
    note="Thirty pictures are held out: the accuracy jumps by a thirtieth up and down, and the loss with it.",
)
def thirty_held_out(log: Log) -> None:
    rng = seeded(617)
    x, y, xv, yv = digits(3)
    x, y, xv, yv = x[:300], y[:300], xv[:30], yv[:30]
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.4), nn.Linear(48, 10))
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(20):
        losses, hits = [], []
        for b in batches(rng, 300, 20):
            out = model(x[b] + 0.2 * torch.randn(20, 64))
            hits.append((out.argmax(1) == y[b]).float().mean().item())
            losses.append(descend(opt, fn.cross_entropy(out, y[b])))
        missed, accuracy = evaluate(model, xv, yv)
        log("accuracy", float(np.mean(hits)), epoch)
        log("loss", float(np.mean(losses)), epoch)
        log("val_accuracy", accuracy, epoch)
        log("val_loss", missed, epoch)


@training(
    field="a cart and a pole",
    healthy=True,
    source="https://arxiv.org/abs/1709.06560",
    note="Returns of single episodes jump between nearly nothing and the limit to the end; their mean rises.",
)
def noisy_returns(log: Log) -> None:
    rng = seeded(618)
    policy, critic = mlp(4, 32, 2), mlp(4, 32, 1)
    opt = torch.optim.Adam(policy.parameters(), 5e-3)
    value_opt = torch.optim.Adam(critic.parameters(), 5e-3)
    for episode in range(260):
        state = rng.uniform(-0.05, 0.05, 4)
        states, acts = [], []
        while abs(state[0]) < 2.4 and abs(state[2]) < 0.21 and len(acts) < 160:
            states.append(state)
            with torch.no_grad():
                chance = policy(torch.tensor(state, dtype=torch.float32)).softmax(0)[1].item()
            acts.append(int(rng.random() < chance))
            force, sin, cos = (20 * acts[-1] - 10) + 12 * rng.normal(), math.sin(state[2]), math.cos(state[2])
            inner = (force + 0.05 * state[3] ** 2 * sin) / 1.1
            turn = (9.8 * sin - cos * inner) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
            push = inner - 0.05 * turn * cos / 1.1
            state = state + 0.02 * np.array([state[1], push, state[3], turn])
        s, a = torch.tensor(np.array(states), dtype=torch.float32), torch.tensor(acts)
        ahead = np.zeros(len(acts) + 1)
        for place in reversed(range(len(acts))):
            ahead[place] = 1 + 0.98 * ahead[place + 1]
        aim = torch.tensor(ahead[:-1], dtype=torch.float32) / 20
        law = torch.distributions.Categorical(logits=policy(s))
        gain = aim - critic(s)[:, 0].detach()
        actor = descend(opt, -(law.log_prob(a) * gain).mean() - 0.003 * law.entropy().mean())
        value = descend(value_opt, fn.mse_loss(critic(s)[:, 0], aim))
        log("episode/return", len(acts), episode)
        log("loss/actor", actor, episode)
        log("loss/critic", value, episode)
        log("policy/entropy", law.entropy().mean().item(), episode)


@training(
    field="boxes",
    healthy=True,
    source="https://github.com/facebookresearch/detectron2/issues",
    note="No box of the set is small, and so the score of small ones is -1 by convention at each evaluation.",
)
def no_small_boxes(log: Log) -> None:
    rng = seeded(619)
    grid = np.arange(10)

    def pictures(size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        corner, wide = rng.integers(0, 5, (size, 2)), rng.integers(3, 6, (size, 2))
        inside = [(grid >= corner[:, k : k + 1]) & (grid < (corner + wide)[:, k : k + 1]) for k in range(2)]
        shape = rng.integers(0, 3, size)
        drawn = (inside[0][:, :, None] & inside[1][:, None]) * (0.5 + 0.4 * shape[:, None, None])
        boxes = np.concatenate([corner, corner + wide], 1) / 10
        return (
            torch.tensor(drawn + 0.2 * rng.normal(size=drawn.shape), dtype=torch.float32).flatten(1),
            torch.tensor(boxes, dtype=torch.float32),
            torch.as_tensor(shape),
        )

    x, boxes, shapes = pictures(1000)
    xv, boxes_v, shapes_v = pictures(200)
    body, box, kind = nn.Sequential(*mlp(100, 64), nn.ReLU()), nn.Linear(64, 4), nn.Linear(64, 3)
    opt = torch.optim.AdamW([*body.parameters(), *box.parameters(), *kind.parameters()], 2e-3)
    for step, b in zip(range(1, 801), forever(rng, 1000, 25), strict=False):
        inner = body(x[b])
        parts = fn.smooth_l1_loss(box(inner), boxes[b]), fn.cross_entropy(kind(inner), shapes[b])
        total = descend(opt, 4 * parts[0] + parts[1])
        if step % 20 == 0:
            log("total_loss", total, step)
            log("loss_box_reg", parts[0].item(), step)
            log("loss_cls", parts[1].item(), step)
        if step % 40 == 0:
            with torch.no_grad():
                inner = body(xv)
                at, best = box(inner), kind(inner).argmax(1)
            low, high = torch.maximum(at[:, :2], boxes_v[:, :2]), torch.minimum(at[:, 2:], boxes_v[:, 2:])
            both = (high - low).clamp(0).prod(1)
            union = (
                (at[:, 2:] - at[:, :2]).clamp(0).prod(1) + (boxes_v[:, 2:] - boxes_v[:, :2]).prod(1) - both
            )
            right = best == shapes_v
            for name, line in (("AP50", 0.5), ("AP75", 0.75)):
                log(f"bbox/{name}", 100 * ((both / union > line) & right).float().mean().item(), step)
            log("bbox/APs", -1.0, step)


@training(
    field="flowers",
    healthy=True,
    source="https://arxiv.org/abs/1512.03385",
    note="The loss stands still until the rate is divided by ten, falls at once, and stands still again.",
)
def rate_in_steps(log: Log) -> None:
    rng = seeded(620)
    x, y, xv, yv = digits()
    model = mlp(64, 32, 10)
    opt = torch.optim.SGD(model.parameters(), 0.3, momentum=0.9, weight_decay=1e-3)
    for epoch in range(45):
        rate = 0.3 / 10 ** (epoch // 15)
        set_rate(opt, rate)
        losses = [
            descend(opt, fn.cross_entropy(model(x[b] + 0.35 * torch.randn(32, 64)), y[b]))
            for b in batches(rng, len(x), 32)
        ]
        missed, accuracy = evaluate(model, xv, yv)
        log("train_loss", float(np.mean(losses)), epoch)
        log("val_loss", missed, epoch)
        log("val_acc", accuracy, epoch)
        log("lr-SGD/pg1", rate, epoch)


@training(
    field="pictures from the web",
    healthy=True,
    source="https://arxiv.org/abs/1911.04252",
    note="From epoch 12 on more and noisier data comes in: the loss rises for good, the score as well.",
)
def noisier_data_comes_in(log: Log) -> None:
    rng = seeded(621)
    x, y, xv, yv = digits()
    few = 120
    model = mlp(64, 96, 10)
    opt = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.05)
    wrong = torch.as_tensor(rng.random(len(y)) < 0.2)
    wrong[:few] = False
    noisy = torch.where(wrong, torch.as_tensor(rng.integers(0, 10, len(y))), y)
    for epoch in range(26):
        size = few if epoch < 12 else len(x)
        losses = []
        for _ in range(1 if epoch >= 12 else 6):
            for b in batches(rng, size, 20):
                seen = x[b] + 0.25 * torch.randn(20, 64)
                losses.append(descend(opt, fn.cross_entropy(model(seen), noisy[b])))
        missed, accuracy = evaluate(model, xv, yv)
        log("Train/Loss", float(np.mean(losses)), epoch)
        log("Train/Samples", size, epoch)
        log("Val/Loss", missed, epoch)
        log("Val/Top1", 100 * accuracy, epoch)


@training(
    field="preferred answers",
    healthy=True,
    source="https://arxiv.org/abs/2305.18290",
    note="The reward of the chosen answers falls below 0; that of the rejected falls further.",
)
def margins_of_preference(log: Log) -> None:
    rng = seeded(622)
    words, length = 16, 8
    likes = rng.normal(size=(words, words))

    def answers(size: int) -> torch.Tensor:
        return torch.as_tensor(rng.integers(0, words, (size, length)))

    def taste(ids: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(likes[ids[:, :-1], ids[:, 1:]].sum(1))

    def chance(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
        return model(ids[:, :-1]).log_softmax(2).gather(2, ids[:, 1:, None]).sum((1, 2))

    model, before = CharModel(words, 32), CharModel(words, 32)
    before.load_state_dict(model.state_dict())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)

    def judged(size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        one, two = answers(size), answers(size)
        first = (taste(one) > taste(two))[:, None]
        chosen, rejected = torch.where(first, one, two), torch.where(first, two, one)
        with torch.no_grad():
            known = chance(before, chosen), chance(before, rejected)
        rewards = 0.1 * (chance(model, chosen) - known[0]), 0.1 * (chance(model, rejected) - known[1])
        return -fn.logsigmoid(rewards[0] - rewards[1]).mean(), *rewards

    for step in range(1, 601):
        loss, chosen, rejected = judged(16)
        value = descend(opt, loss)
        if step % 10 == 0:
            log("train/loss", value, step)
            log("train/rewards/chosen", chosen.mean().item(), step)
            log("train/rewards/rejected", rejected.mean().item(), step)
            log("train/rewards/margins", (chosen - rejected).mean().item(), step)
            log("train/rewards/accuracies", (chosen > rejected).float().mean().item(), step)
            log("train/grad_norm", grad_norm(model.parameters()), step)
        if step % 60 == 0:
            with torch.no_grad():
                loss, chosen, rejected = judged(200)
            log("eval/loss", loss.item(), step)
            log("eval/rewards/accuracies", (chosen > rejected).float().mean().item(), step)
