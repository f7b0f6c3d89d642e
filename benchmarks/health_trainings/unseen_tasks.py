"""Architectures and data that no rule was tuned on; only ``unseen.py`` trains them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_iris, load_wine, make_friedman1, make_moons
from tasks import Block, Task, digits, perceptron
from torch import Tensor, nn
from torch.nn import functional as F


@cache
def tabular(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A table: wine, iris, two moons, or Friedman's function."""
    if name in ("wine", "iris"):
        data = load_wine() if name == "wine" else load_iris()
        x, y = data.data, data.target
    elif name == "moons":
        x, y = make_moons(1500, noise=0.2, random_state=0)
    else:
        x, y = make_friedman1(1500, noise=1.0, random_state=0)
    order = np.random.default_rng(3).permutation(len(y))
    inputs = torch.tensor(x[order], dtype=torch.float32)
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    target = torch.tensor(y[order], dtype=torch.float32 if name == "friedman" else torch.long)
    cut = int(0.8 * len(inputs))
    return inputs[:cut], target[:cut], inputs[cut:], target[cut:]


class Drawn(Task):
    """A task whose batches are rows of ``x`` and ``y``, and whose evaluation is of ``vx`` and ``vy``."""

    x: Tensor
    y: Tensor
    vx: Tensor
    vy: Tensor

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        raise NotImplementedError

    def loss(self, step: int) -> Tensor:
        rows = torch.tensor(self.rng.integers(0, len(self.x), self.batch))
        self.epoch = max(1, len(self.x) // self.batch)
        broken = self.options.get("spoil")
        x = self.x[rows] if broken is None else broken(step, self.x[rows])
        return self._loss(x, self.y[rows])

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        self.model.eval()
        found = float(self._loss(self.vx, self.vy))
        self.model.train()
        return {"loss": found}


class Table(Drawn):
    """Wine, iris, moons or Friedman's function, by a network with dropout or with layers normalized."""

    def build(self) -> nn.Module:
        name = self.options.get("data", "wine")
        self.x, self.y, self.vx, self.vy = tabular(name)
        out = {"wine": 3, "iris": 3, "moons": 2}.get(name, 1)
        width = self.options.get("width", 32)
        middle = nn.LayerNorm(width) if self.options.get("norm") else nn.Dropout(0.2)
        act = {"silu": nn.SiLU, "elu": nn.ELU, "leaky": nn.LeakyReLU}[self.options.get("act", "silu")]
        return nn.Sequential(
            nn.Linear(self.x.shape[1], width),
            middle,
            act(),
            nn.Linear(width, width),
            act(),
            nn.Linear(width, out),
        )

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        out = self.model(x).float()
        if y.dtype == torch.long:
            return F.cross_entropy(out, y)
        out, kind = out.squeeze(1), self.options.get("kind", "huber")
        if kind == "quantile":
            return torch.maximum(0.9 * (y - out), -0.1 * (y - out)).mean()
        return F.huber_loss(out, y)


class Residual(nn.Module):
    """Two convolutions around which the input goes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.na, self.nb = nn.GroupNorm(4, width), nn.GroupNorm(4, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.b(F.silu(self.nb(self.a(F.silu(self.na(x))))))


class Mixer(nn.Module):
    """A block of an MLP mixer: over places, then over channels."""

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.m1 = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.m2 = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.m1(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.m2(self.n2(x))


class Patches(nn.Module):
    """Digits as 16 patches of 2 x 2, with places."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(4, width), nn.Parameter(0.02 * torch.randn(16, width))

    def forward(self, x: Tensor) -> Tensor:
        parts = x.view(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
        return self.embed(parts) + self.place


class Mean(nn.Module):
    """The mean over places."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Picture(Drawn):
    """Digits by a residual network, a mixer of patches or a small vision transformer."""

    def build(self) -> nn.Module:
        self.x, self.y, self.vx, self.vy = digits()
        kind = self.options.get("kind", "resnet")
        if kind == "resnet":
            body = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), Residual(8), nn.MaxPool2d(2)]
            return nn.Sequential(*body, Residual(8), nn.Flatten(), nn.Linear(128, 10))
        width = self.options.get("width", 24)
        block: Any = (lambda: Mixer(16, width)) if kind == "mixer" else (lambda: Seeing(width))
        return nn.Sequential(
            Patches(width), block(), block(), nn.LayerNorm(width), Mean(), nn.Linear(width, 10)
        )

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        out = self.model(x).float()
        self.extra["accuracy"] = float((out.argmax(1) == y).float().mean())
        return F.cross_entropy(out, y)


class Seeing(Block):
    """A block of a transformer that looks both ways."""

    def __init__(self, width: int) -> None:
        super().__init__(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.ln1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class Segment(Drawn):
    """The dark part of digits, by a small encoder and decoder and the loss of Dice."""

    def build(self) -> nn.Module:
        self.x, _, self.vx, _ = digits()
        self.y, self.vy = self.x, self.vx
        down = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        up = [
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(8, 1, 3, padding=1),
        ]
        return nn.Sequential(*down, *up, nn.Flatten())

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        wanted = (y > 0.5).float()
        got = torch.sigmoid(self.model(x + 0.1 * torch.randn_like(x)).float())
        return 1 - 2 * (got * wanted).sum() / (got.sum() + wanted.sum() + 1)


class Flow(Drawn):
    """Moons by a normalizing flow; its loss crosses zero."""

    def build(self) -> nn.Module:
        self.x, self.y, self.vx, self.vy = tabular("moons")
        return nn.ModuleList(perceptron([1, 32, 2], "tanh") for _ in range(6))

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        grown = torch.zeros(len(x))
        for at, part in enumerate(self.model):  # type: ignore[arg-type]
            kept, moved = x[:, at % 2], x[:, 1 - at % 2]
            scale, shift = part(kept[:, None]).float().tanh().mul(2).unbind(1)
            moved = moved * scale.exp() + shift
            grown = grown + scale
            x = torch.stack([kept, moved] if at % 2 == 0 else [moved, kept], 1)
        return (0.5 * x.square().sum(1) - grown).mean() + self.options.get("offset", 0.0)


class Series(Drawn):
    """The next value of a sum of waves, by a GRU or by convolutions."""

    def build(self) -> nn.Module:
        t = np.arange(4000)
        rng = np.random.default_rng(5)
        wave = np.sin(t / 7) + 0.5 * np.sin(t / 31 + 1) + 0.1 * rng.normal(size=len(t))
        rows = torch.tensor(np.lib.stride_tricks.sliding_window_view(wave, 25).copy(), dtype=torch.float32)
        self.x, self.y, self.vx, self.vy = (
            rows[:3000, :-1],
            rows[:3000, -1],
            rows[3200:, :-1],
            rows[3200:, -1],
        )
        width = self.options.get("width", 16)
        if self.options.get("kind") == "conv":
            return nn.Sequential(
                nn.Unflatten(1, (1, 24)), nn.Conv1d(1, width, 5), nn.GELU(),
                nn.Conv1d(width, width, 5, dilation=2), nn.GELU(), nn.Flatten(), nn.Linear(12 * width, 1),
            )  # fmt: skip
        return nn.ModuleDict({"gru": nn.GRU(1, width, batch_first=True), "head": nn.Linear(width, 1)})

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.model, nn.ModuleDict):
            out = self.model["head"](self.model["gru"](x[:, :, None])[0][:, -1])
        else:
            out = self.model(x)
        return F.l1_loss(out.float().squeeze(1), y)


class Ratings(Drawn):
    """A matrix of ratings by factors of users and things."""

    def build(self) -> nn.Module:
        rng = np.random.default_rng(7)
        users, things = rng.normal(size=(200, 4)), rng.normal(size=(120, 4))
        pairs = np.stack([rng.integers(0, 200, 6000), rng.integers(0, 120, 6000)], 1)
        said = (users[pairs[:, 0]] * things[pairs[:, 1]]).sum(1) + 0.3 * rng.normal(size=6000)
        x, y = torch.tensor(pairs), torch.tensor(said, dtype=torch.float32)
        self.x, self.y, self.vx, self.vy = x[:5000], y[:5000], x[5000:], y[5000:]
        rank = self.options.get("rank", 6)
        return nn.ModuleDict({"users": nn.Embedding(200, rank), "things": nn.Embedding(120, rank)})

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        parts: Any = self.model
        return F.mse_loss((parts["users"](x[:, 0]) * parts["things"](x[:, 1])).sum(1), y)


class Graph(Drawn):
    """Classes of the nodes of a graph, all of it at each step, a few labels known."""

    def build(self) -> nn.Module:
        rng = np.random.default_rng(9)
        y = rng.integers(0, 4, self.options.get("nodes", 800))
        count = len(y)
        near = rng.random((count, count)) < np.where(y[:, None] == y[None], 14 / count, 2 / count)
        near = near | near.T | np.eye(count, dtype=bool)
        self.near = torch.tensor(near / near.sum(1, keepdims=True), dtype=torch.float32)
        self.nodes = torch.tensor(rng.normal(size=(count, 16)), dtype=torch.float32) + F.one_hot(
            torch.tensor(y), 16
        )
        self.y, self.epoch = torch.tensor(y), 1
        return nn.ModuleList([nn.Linear(16, 24), nn.Linear(24, 4)])

    def _rows(self, rows: slice) -> Tensor:
        a, b = self.model  # type: ignore[misc]
        h = F.dropout(F.relu(self.near @ a(self.nodes)), 0.5, self.model.training)
        return F.cross_entropy((self.near @ b(h)).float()[rows], self.y[rows])

    def loss(self, step: int) -> Tensor:
        return self._rows(slice(0, len(self.y) * 3 // 4))

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        self.model.eval()
        found = float(self._rows(slice(len(self.y) * 3 // 4, None)))
        self.model.train()
        return {"loss": found}


class Copying(Task):
    """A sequence said again after a sign, by a transformer: nothing is learnt for long, then all."""

    def build(self) -> nn.Module:
        width = self.options.get("width", 32)
        self.table, self.head = nn.Embedding(12, width), nn.Linear(width, 12)
        self.place = nn.Parameter(0.02 * torch.randn(17, width))
        self.body = nn.Sequential(*[Block(width, 4) for _ in range(2)])
        parts = nn.ModuleDict({"table": self.table, "body": self.body, "head": self.head})
        parts.register_parameter("place", self.place)
        return parts

    def loss(self, step: int) -> Tensor:
        said = torch.tensor(self.rng.integers(0, 10, (self.batch, 8)))
        rows = torch.cat([said, torch.full((self.batch, 1), 10), said], 1)
        out = self.head(self.body(self.table(rows) + self.place))[:, 8:-1]
        return F.cross_entropy(out.float().flatten(0, 1), said.flatten())

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        return {"loss": float(self.loss(0))}


class Triplet(Drawn):
    """Digits of one class nearer to each other than to others, by a margin; the loss ends at 0."""

    def build(self) -> nn.Module:
        self.x, self.y, self.vx, self.vy = digits()
        return perceptron([64, 64, 16])

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        z = F.normalize(self.model(x).float(), dim=1)
        far = torch.cdist(z, z)
        same = y[:, None] == y[None]
        worst = (far * same).max(1).values
        best = (far + 10.0 * same).min(1).values
        return F.relu(worst - best + 0.3).mean()


class Distil(Picture):
    """A small network learns the outputs of a larger one."""

    def build(self) -> nn.Module:
        self.x, self.y, self.vx, self.vy = digits()
        self.teacher = perceptron([64, 96, 10])
        optimizer = torch.optim.Adam(self.teacher.parameters(), 3e-3)
        for _ in range(150):
            rows = torch.tensor(self.rng.integers(0, len(self.x), 64))
            optimizer.zero_grad()
            F.cross_entropy(self.teacher(self.x[rows]), self.y[rows]).backward()
            optimizer.step()
        return perceptron([64, self.options.get("width", 16), 10])

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = F.log_softmax(self.teacher(x) / 2, 1)
        return 4 * F.kl_div(
            F.log_softmax(self.model(x).float() / 2, 1), wanted, reduction="batchmean", log_target=True
        )


class Physics(Task):
    """A network that has to solve an oscillator's equation; several terms, a loss over many decades."""

    def build(self) -> nn.Module:
        return perceptron([1, 32, 32, 1], "tanh")

    def loss(self, step: int) -> Tensor:
        t = (2 * math.pi * torch.rand(self.batch, 1)).requires_grad_()
        with torch.autocast("cpu", enabled=False):
            u = self.model(t)
            first = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
            second = torch.autograd.grad(first.sum(), t, create_graph=True)[0]
            zero = torch.zeros(1, 1, requires_grad=True)
            at = self.model(zero)
            slope = torch.autograd.grad(at.sum(), zero, create_graph=True)[0]
        law, begin = (second + u).square().mean(), (at - 1).square().mean() + slope.square().mean()
        self.extra |= {
            "train/equation_loss": float(law.detach()),
            "train/boundary_loss": float(begin.detach()),
        }
        return law + 10 * begin


class Speech(Drawn):
    """Sequences with blanks by connectionist temporal classification: a long plateau, then a fall."""

    def build(self) -> nn.Module:
        rng = np.random.default_rng(11)
        self.y = torch.tensor(rng.integers(1, 6, (600, 4)))
        shown = F.one_hot(self.y.repeat_interleave(4, 1), 6).float()
        self.x = shown + 0.4 * torch.tensor(rng.normal(size=shown.shape), dtype=torch.float32)
        self.vx, self.vy = self.x[500:], self.y[500:]
        self.x, self.y = self.x[:500], self.y[:500]
        return nn.ModuleDict(
            {"rnn": nn.GRU(6, 24, batch_first=True, bidirectional=True), "head": nn.Linear(48, 6)}
        )

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        parts: Any = self.model
        log = parts["head"](parts["rnn"](x)[0]).float().log_softmax(-1).transpose(0, 1)
        count = len(x)
        return F.ctc_loss(log, y, torch.full((count,), 16), torch.full((count,), 4), zero_infinity=True)


class Words(Drawn):
    """Vectors of words by negative samples (word2vec)."""

    def build(self) -> nn.Module:
        from tasks import text

        said = text()
        self.x, self.y = said[:-1].clone(), said[1:].clone()
        self.vx, self.vy = self.x[-500:], self.y[-500:]
        return nn.ModuleDict({"inner": nn.Embedding(27, 12), "outer": nn.Embedding(27, 12)})

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        parts: Any = self.model
        a, b = parts["inner"](x), parts["outer"](y)
        other = parts["outer"](torch.tensor(self.rng.integers(0, 27, (len(x), 4))))
        return F.softplus(-(a * b).sum(1)).mean() + F.softplus((a[:, None] * other).sum(2)).sum(1).mean()


TASKS: dict[str, type[Task]] = {
    "table": Table,
    "picture": Picture,
    "segment": Segment,
    "flow": Flow,
    "series": Series,
    "ratings": Ratings,
    "graph": Graph,
    "copying": Copying,
    "triplet": Triplet,
    "distil": Distil,
    "physics": Physics,
    "speech": Speech,
    "words": Words,
}
