"""Models of characters and words, in the names of the Hugging Face Trainer, nanoGPT and fairseq."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as fn
from common import (
    CharModel,
    descend,
    encode,
    grad_norm,
    seeded,
    set_rate,
    text,
    token_loss,
    weight_norm,
    windows,
)
from registry import Log, training
from torch import nn


class TinyGPT(nn.Module):
    """Two blocks of a causal transformer, normalised after each part as in the first paper, or before it."""

    def __init__(self, vocabulary: int, width: int = 32, before: bool = True, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(64, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True, norm_first=before)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        hidden = self.embed(ids) + self.place(torch.arange(length))
        mask = torch.full((length, length), -math.inf).triu(1)
        for block in self.blocks:
            hidden = block(hidden, mask)
        return self.head(hidden)


def corpus(rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, int]:
    ids, vocabulary = encode(text(rng, 900))
    cut = len(ids) * 9 // 10
    return ids[:cut], ids[cut:], vocabulary


@torch.no_grad()
def held_out(model: nn.Module, ids: torch.Tensor, length: int = 32) -> float:
    return token_loss(model, *windows(np.random.default_rng(0), ids, 64, length)).item()


@training(
    field="language modelling",
    healthy=True,
    source="https://huggingface.co/docs/transformers/main_classes/trainer",
    note="The gradient norm is highest during warm-up, and clipping is then active.",
)
def warmed_transformer(log: Log) -> None:
    rng = seeded(21)
    ids, held, vocabulary = corpus(rng)
    model = TinyGPT(vocabulary)
    opt = torch.optim.AdamW(model.parameters(), 0.0)
    for step in range(1, 701):
        set_rate(opt, 6e-3 * min(1, step / 60) * 0.5 * (1 + math.cos(math.pi * step / 700)))
        loss = token_loss(model, *windows(rng, ids, 16, 32))
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        opt.step()
        if step % 5 == 0:
            log("train/loss", loss.item(), step)
            log("train/grad_norm", norm, step)
            log("train/learning_rate", opt.param_groups[0]["lr"], step)
            log("train/epoch", step * 512 / len(ids), step)
        if step % 100 == 0:
            log("eval/loss", held_out(model, held), step)
            log("eval/perplexity", math.exp(held_out(model, held)), step)
            log("eval/samples_per_second", 410 + 5 * rng.random(), step)


@training(
    field="language modelling",
    healthy=True,
    source="https://arxiv.org/abs/2108.06084",
    note="Windows grow from 4 to 32 characters; batches shrink with them, so that noise grows.",
)
def growing_windows(log: Log) -> None:
    rng = seeded(22)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary)
    opt = torch.optim.Adam(model.parameters(), 4e-3)
    for step in range(900):
        length = (4, 8, 16, 32)[min(3, step // 200)]
        log("loss", descend(opt, token_loss(model, *windows(rng, ids, 128 // length, length))), step)
        log("seqlen", length, step)
        if step % 60 == 59:
            log("ppl/valid", math.exp(held_out(model, held)), step)


@training(
    field="word vectors",
    healthy=True,
    source="https://arxiv.org/abs/1608.03983",
    note="The rate restarts three times, and the loss rises at each restart.",
)
def restarted_rate(log: Log) -> None:
    rng = seeded(23)
    words = text(rng, 1500).replace(".", "").split()
    names = sorted(set(words))
    ids = torch.tensor([names.index(w) for w in words])
    left, right = nn.Embedding(len(names), 16), nn.Embedding(len(names), 16)
    nn.init.normal_(left.weight, 0, 0.1)
    nn.init.normal_(right.weight, 0, 0.1)
    opt = torch.optim.SGD([*left.parameters(), *right.parameters()], 0.3, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 200, 2)
    for step in range(1400):
        at = torch.as_tensor(rng.integers(1, len(ids) - 1, 128))
        loss = fn.cross_entropy(left(ids[at]) @ right.weight.T, ids[at + 1])
        log("Train/Loss", descend(opt, loss), step)
        log("Train/LR", sched.get_last_lr()[0], step)
        sched.step()


@training(
    field="masked modelling",
    healthy=True,
    source="https://arxiv.org/abs/2202.08005",
    note="More and more is masked, so that the training loss rises while the evaluation loss falls.",
)
def rising_mask_ratio(log: Log) -> None:
    rng = seeded(24)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary + 1)
    model.rnn = nn.GRU(24, 24, batch_first=True, bidirectional=True)
    opt = torch.optim.Adam(model.parameters(), 4e-3)

    def loss_at(source: torch.Tensor, ratio: float, chance: np.random.Generator, batch: int) -> torch.Tensor:
        x, _ = windows(chance, source, batch, 24)
        hidden = torch.as_tensor(chance.random(x.shape) < ratio)
        return fn.cross_entropy(model(x.masked_fill(hidden, vocabulary))[hidden], x[hidden])

    for step in range(600):
        ratio = 0.1 + 0.6 * max(0, step - 200) / 400
        log("mlm/loss", descend(opt, loss_at(ids, ratio, rng, 16)), step)
        log("mlm/mask_ratio", ratio, step)
        if step % 40 == 39:
            with torch.no_grad():
                log("mlm/eval_loss_15", loss_at(held, 0.15, np.random.default_rng(1), 64).item(), step)


@training(
    field="language modelling",
    fault="Warm-up is missing: a transformer with its norms after the parts breaks down in the first steps.",
    series=["train/loss", "eval/loss"],
    onset=(0, 100),
    source="https://arxiv.org/abs/2002.04745",
)
def warmup_missing(log: Log) -> None:
    rng = seeded(131)
    ids, held, vocabulary = corpus(rng)
    model = TinyGPT(vocabulary, before=False, layers=6)
    opt = torch.optim.Adam(model.parameters(), 2e-2, betas=(0.9, 0.98))
    for step in range(1, 401):
        set_rate(opt, 2e-2 * min(1, (60 / step) ** 0.5))
        loss = descend(opt, token_loss(model, *windows(rng, ids, 8, 32)))
        log("train/loss", loss, step)
        log("train/learning_rate", opt.param_groups[0]["lr"], step)
        log("train/grad_norm", grad_norm(model.parameters()), step)
        if step % 50 == 0:
            log("eval/loss", held_out(model, held), step)


@training(
    field="language modelling",
    fault="A shard holds bytes of another file: the loss jumps whenever it comes up, every 80 steps.",
    series=["train/loss", "train/grad_norm"],
    onset=(300, 360),
    source="https://github.com/facebookresearch/metaseq/blob/main/projects/OPT/chronicles/README.md",
)
def loss_spikes(log: Log) -> None:
    rng = seeded(132)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary)
    opt = torch.optim.Adam(model.parameters(), 4e-3)
    for step in range(1000):
        x, y = windows(rng, ids, 16, 24)
        if step >= 300 and step % 80 < 2:
            x, y = torch.randint(vocabulary, x.shape), torch.randint(vocabulary, y.shape)
        log("train/loss", descend(opt, token_loss(model, x, y)), step)
        log("train/grad_norm", grad_norm(model.parameters()), step)
        if step % 100 == 50:
            log("valid/loss", held_out(model, held), step)


@training(
    field="language modelling",
    fault="Plain SGD with the gradient clipped to a norm of 0.001 at every step: it hardly learns.",
    series=["train/grad_norm", "train/clip_fraction", "train/loss"],
    onset=(0, 50),
    source="https://github.com/google-research/tuning_playbook",
)
def always_clipped(log: Log) -> None:
    rng = seeded(133)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary)
    opt = torch.optim.SGD(model.parameters(), 0.5)
    for step in range(700):
        loss = token_loss(model, *windows(rng, ids, 16, 24))
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1e-3).item()
        opt.step()
        log("train/loss", loss.item(), step)
        log("train/grad_norm", norm, step)
        log("train/grad_norm_clipped", grad_norm(model.parameters()), step)
        log("train/clip_fraction", float(norm > 1e-3), step)
        if step % 100 == 99:
            log("val/loss", held_out(model, held), step)


@training(
    field="language modelling",
    fault="Resumed at step 500 without the weights: the loss is back at its start.",
    series=["train/loss", "eval/loss"],
    onset=(500, 500),
    source="https://github.com/huggingface/transformers/issues/33336",
)
def resumed_without_weights(log: Log) -> None:
    rng = seeded(134)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary)
    opt = torch.optim.Adam(model.parameters(), 4e-3)
    for step in range(800):
        if step == 500:
            model = CharModel(vocabulary)
            opt = torch.optim.Adam(model.parameters(), 4e-3)
        loss = descend(opt, token_loss(model, *windows(rng, ids, 16, 24)))
        if step % 4 == 0:
            log("train/loss", loss, step)
            log("train/weight_norm", weight_norm(model.parameters()), step)
        if step % 50 == 0:
            log("eval/loss", held_out(model, held), step)


@training(
    field="language modelling",
    fault="Resumed at step 600 without Adam's moments but with its step count: the updates are far too big.",
    series=["train/loss", "train/update_norm"],
    onset=(600, 602),
    source="https://github.com/EvolvingLMMs-Lab/OneVision-Encoder/pull/65",
)
def resumed_without_moments(log: Log) -> None:
    rng = seeded(135)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary)
    names = list(model.parameters())
    first = [torch.zeros_like(p) for p in names]
    second = [torch.zeros_like(p) for p in names]
    start = 0
    for step in range(1000):
        if step == 600:
            first = [torch.zeros_like(p) for p in names]
            second = [torch.zeros_like(p) for p in names]
        loss = token_loss(model, *windows(rng, ids, 16, 24))
        model.zero_grad()
        loss.backward()
        moved = 0.0
        with torch.no_grad():
            for p, m, v in zip(names, first, second, strict=True):
                m.lerp_(p.grad, 0.1)
                v.lerp_(p.grad**2, 0.001)
                count = step - start + 1
                change = 8e-3 * (m / (1 - 0.9**count)) / ((v / (1 - 0.999**count)).sqrt() + 1e-8)
                moved += float(change.square().sum())
                p -= change
        log("train/loss", loss.item(), step)
        log("train/update_norm", moved**0.5, step)
        if step % 50 == 25:
            log("eval/loss", held_out(model, held), step)


@training(
    field="language modelling",
    fault="Resumed at step 600 with a new schedule: the rate jumps to six times its former peak.",
    series=["lr", "loss/train"],
    onset=(600, 600),
    source="https://github.com/Lightning-AI/pytorch-lightning/issues/10766",
)
def resumed_with_other_schedule(log: Log) -> None:
    rng = seeded(136)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(900):
        rate = 1e-2 * 0.5 * (1 + math.cos(math.pi * step / 750)) if step < 600 else 6e-2
        set_rate(opt, rate)
        loss = descend(opt, token_loss(model, *windows(rng, ids, 16, 24)))
        log("lr", rate, step)
        log("loss/train", loss, step)
        if step % 50 == 25:
            log("loss/val", held_out(model, held), step)


@training(
    field="language modelling",
    fault="The evaluation series stops at step 400 while training goes on to 1000.",
    series=["valid/ppl", "valid/loss"],
    onset=(400, 450),
)
def evaluation_stops(log: Log) -> None:
    rng = seeded(137)
    ids, held, vocabulary = corpus(rng)
    model = CharModel(vocabulary)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(1000):
        log("train/loss", descend(opt, token_loss(model, *windows(rng, ids, 16, 24))), step)
        if step % 25 == 0 and step <= 400:
            loss = held_out(model, held)
            log("valid/loss", loss, step)
            log("valid/ppl", math.exp(loss), step)
