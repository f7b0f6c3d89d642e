"""Small things to train: each has modules, a loss for a batch, and where it makes sense an evaluation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from torch import Tensor, nn
from torch.nn import functional as F

ACTS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "gelu": nn.GELU}


@cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs and labels of scikit-learn's digits: 1,500 to train on, 297 to evaluate."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x = torch.tensor(data.data[order] / 16.0, dtype=torch.float32)
    y = torch.tensor(data.target[order])
    return x[:1500], y[:1500], x[1500:], y[1500:]


@cache
def table(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A table of scikit-learn's, its inputs standardized."""
    data = {"diabetes": load_diabetes, "cancer": load_breast_cancer}[name]()
    order = np.random.default_rng(0).permutation(len(data.target))
    x = torch.tensor(data.data[order], dtype=torch.float32)
    x = (x - x.mean(0)) / x.std(0)
    y = torch.tensor(data.target[order], dtype=torch.float32)
    y = (y - y.mean()) / y.std() if name == "diabetes" else y
    cut = int(0.8 * len(x))
    return x[:cut], y[:cut], x[cut:], y[cut:]


@cache
def text() -> Tensor:
    """A text of 27 signs from a fixed source of words, so that there is something to learn at all ranges."""
    rng = np.random.default_rng(1)
    words = ["".join(chr(97 + c) for c in rng.integers(0, 26, rng.integers(2, 8))) for _ in range(150)]
    share = 1 / np.arange(1, 151)
    said = " ".join(rng.choice(words, 12_000, p=share / share.sum()))
    return torch.tensor([0 if c == " " else ord(c) - 96 for c in said])


def perceptron(
    sizes: list[int], act: str = "relu", *, norm: bool = False, scale: float = 1.0
) -> nn.Sequential:
    """Linear layers with activations between them."""
    parts: list[nn.Module] = []
    for a, b in pairwise(sizes[:-1]):
        parts += [nn.Linear(a, b), *([nn.BatchNorm1d(b)] if norm else []), ACTS[act]()]
    model = nn.Sequential(*parts, nn.Linear(sizes[-2], sizes[-1]))
    if scale != 1.0:
        with torch.no_grad():
            for each in model.parameters():
                each *= scale if each.ndim > 1 else 0.0
    return model


@dataclass
class Task:
    """What is trained.

    Attributes:
        model: All that is trained.
        rng: Draws batches.
        options: What a case says of the task.
        extra: Further numbers of the last step, by tag.
    """

    batch: int
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, float] = field(default_factory=dict)

    epoch: int = 50
    """Steps of an epoch."""

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.rng = np.random.default_rng(self.seed)
        self.model: nn.Module = self.build()

    def build(self) -> nn.Module:
        """Return the model."""
        raise NotImplementedError

    def loss(self, step: int) -> Tensor:
        """Return the loss of the next batch."""
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        """Return ``loss`` and whatever else an evaluation says."""
        return {}


class Classify(Task):
    """Digits, by a perceptron or a convolution."""

    def build(self) -> nn.Module:
        get = self.options.get
        self.x, self.y, self.vx, self.vy = digits()
        self.x, self.y = self.x[: get("samples", 1500)], self.y[: get("samples", 1500)].clone()
        self.epoch = max(1, len(self.x) // self.batch)
        wrong = torch.tensor(self.rng.random(len(self.y)) < get("noise", 0.0))
        self.y[wrong] = torch.tensor(self.rng.integers(0, 10, int(wrong.sum())))
        if get("images"):
            normed: list[nn.Module] = [nn.BatchNorm2d(8)] if get("norm") else []
            return nn.Sequential(
                nn.Unflatten(1, (1, 8, 8)),
                nn.Conv2d(1, 8, 3, padding=1),
                *normed,
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(8, 16, 3, padding=1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(256, 10),
            )
        sizes = [64, *[get("width", 48)] * get("depth", 2), 10]
        return perceptron(sizes, get("act", "relu"), norm=get("norm", False), scale=get("scale", 1.0))

    def spoil(self, step: int, x: Tensor) -> Tensor:
        """Return the inputs; a case may break them."""
        broken = self.options.get("spoil")
        return x if broken is None else broken(step, x)

    def loss(self, step: int) -> Tensor:
        rows = self.rng.choice(len(self.x), min(self.batch, len(self.x)), replace=False)
        x, y = self.spoil(step, self.x[rows]), self.y[rows]
        if self.options.get("shuffled"):
            y = torch.tensor(self.rng.integers(0, 10, len(y)))
        x = x + self.options.get("augment", 0.0) * torch.tensor(self.rng.normal(size=x.shape), dtype=x.dtype)
        out = self.model(x)
        self.extra["accuracy"] = float((out.argmax(1) == y).float().mean())
        smooth = self.options.get("smoothing", 0.0)
        return F.cross_entropy(out.float(), y, label_smoothing=smooth)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        self.model.eval()
        out = self.model(self.spoil(-1, self.vx) if self.options.get("spoil_eval") else self.vx)
        self.model.train()
        right = float((out.argmax(1) == self.vy).float().mean())
        return {"loss": float(F.cross_entropy(out, self.vy)), "accuracy": right}


class Regress(Task):
    """Diabetes by least squares, or breast cancer by logistic regression."""

    def build(self) -> nn.Module:
        self.binary = self.options.get("data") == "cancer"
        self.x, self.y, self.vx, self.vy = table("cancer" if self.binary else "diabetes")
        self.epoch = max(1, len(self.x) // self.batch)
        hidden = self.options.get("hidden", [])
        parts = perceptron([self.x.shape[1], *hidden, 1], self.options.get("act", "relu"))
        return nn.Sequential(parts, nn.Sigmoid()) if self.binary else parts

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        out = self.model(x).float().squeeze(1) * self.options.get("unit", 1.0)
        if self.binary:
            return F.binary_cross_entropy(out.clamp(1e-7, 1 - 1e-7), y)
        return (out - y * self.options.get("unit", 1.0)).square().mean()

    def loss(self, step: int) -> Tensor:
        rows = self.rng.choice(len(self.x), min(self.batch, len(self.x)), replace=False)
        return self._loss(self.x[rows], self.y[rows])

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        return {"loss": float(self._loss(self.vx, self.vy))}


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        h = self.ln1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class Language(Task):
    """The next sign of a text, by a transformer, an LSTM or a mixture of experts."""

    def build(self) -> nn.Module:
        kind, width = self.options.get("kind", "transformer"), self.options.get("width", 32)
        self.length = self.options.get("length", 24)
        self.table, self.head = nn.Embedding(27, width), nn.Linear(width, 27)
        nn.init.normal_(self.table.weight, 0, 0.02)
        if kind == "lstm":
            self.body: nn.Module = nn.LSTM(width, width, batch_first=True)
        elif kind == "moe":
            self.body = Experts(width, 4)
        else:
            self.place = nn.Parameter(0.02 * torch.randn(self.length, width))
            self.body = nn.Sequential(*[Block(width, 2) for _ in range(self.options.get("depth", 2))])
        parts = nn.ModuleDict({"table": self.table, "body": self.body, "head": self.head})
        if kind == "transformer":
            parts.register_parameter("place", self.place)
        return parts

    def logits(self, x: Tensor) -> Tensor:
        h = self.table(x)
        if isinstance(self.body, nn.LSTM):
            return self.head(self.body(h)[0])
        if hasattr(self, "place"):
            h = h + self.place
        return self.head(self.body(h))

    def _loss(self, begin: int, end: int) -> Tensor:
        said = text()
        at = torch.tensor(self.rng.integers(begin, end - self.length - 1, self.batch))
        rows = at[:, None] + torch.arange(self.length + 1)[None]
        out = self.logits(said[rows[:, :-1]])
        return F.cross_entropy(out.float().flatten(0, 1), said[rows[:, 1:]].flatten())

    def loss(self, step: int) -> Tensor:
        found = self._loss(0, len(text()) * 9 // 10)
        if isinstance(self.body, Experts):
            self.extra["train/aux_loss"] = float(self.body.balance.detach())
            for each, share in enumerate(self.body.shares.tolist()):
                self.extra[f"moe/load/{each}"] = share
            return found + 0.01 * self.body.balance
        return found

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        return {"loss": float(self._loss(len(text()) * 9 // 10, len(text())))}


class Experts(nn.Module):
    """A switch of experts with the usual balance loss."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(perceptron([width, 2 * width, width]) for _ in range(count))
        self.shares, self.balance = torch.zeros(count), torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        weights = self.gate(flat).softmax(-1)
        best, chosen = weights.max(-1)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows = chosen == number
            out[rows] = best[rows, None] * expert(flat[rows])
        share = F.one_hot(chosen, len(self.experts)).float().mean(0)
        self.shares, self.balance = share.detach(), len(self.experts) * (share * weights.mean(0)).sum()
        return x + out.view_as(x)


class Parity(Task):
    """The parity of four of twenty bits: nothing is learnt for long, then all of it at once."""

    def build(self) -> nn.Module:
        return perceptron([20, 128, 1])

    def loss(self, step: int) -> Tensor:
        x = torch.tensor(self.rng.choice([-1.0, 1.0], (self.batch, 20)), dtype=torch.float32)
        y = x[:, : self.options.get("bits", 3)].prod(1)
        return F.softplus(-y * self.model(x).squeeze(1)).mean()


class Autoencoder(Task):
    """A variational autoencoder of the digits whose weight of the divergence is raised slowly."""

    def build(self) -> nn.Module:
        self.x = digits()[0]
        self.epoch = len(self.x) // self.batch
        self.encoder, self.decoder = perceptron([64, 48, 16]), perceptron([8, 48, 64])
        return nn.ModuleDict({"encoder": self.encoder, "decoder": self.decoder})

    def loss(self, step: int) -> Tensor:
        x = self.x[self.rng.choice(len(self.x), self.batch)]
        mean, log_var = self.encoder(x).chunk(2, 1)
        out = self.decoder(mean + (0.5 * log_var).exp() * torch.randn_like(mean))
        rec = F.binary_cross_entropy_with_logits(out, x, reduction="none").sum(1).mean()
        kl = 0.5 * (mean.square() + log_var.exp() - 1 - log_var).sum(1).mean()
        weight = min(1.0, step / self.options.get("warm", 500))
        self.extra |= {
            "train/reconstruction_loss": float(rec.detach()),
            "train/kl_loss": float(kl.detach()),
            "train/kl_weight": weight,
        }
        return rec + weight * kl


class Diffusion(Task):
    """The noise that was added to digits; the loss is noise itself."""

    def build(self) -> nn.Module:
        self.x = 2 * digits()[0] - 1
        return perceptron([65, 96, 96, 64], "gelu")

    def loss(self, step: int) -> Tensor:
        x = self.x[self.rng.choice(len(self.x), self.batch)]
        time = torch.rand(len(x), 1)
        noise = torch.randn_like(x)
        seen = (1 - time).sqrt() * x + time.sqrt() * noise
        return F.mse_loss(self.model(torch.cat([seen, time], 1)), noise)


class Contrast(Task):
    """SimCLR or BYOL on noisy digits, with a noisy validation by few examples."""

    def build(self) -> nn.Module:
        self.x, self.y, self.vx, self.vy = digits()
        self.epoch = len(self.x) // self.batch
        self.net = perceptron([64, 64, 32])
        self.head = perceptron([32, 32, 32])
        return nn.ModuleDict({"net": self.net, "head": self.head})

    def views(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return two noisy versions."""
        return tuple(x * (torch.rand_like(x) > 0.3) + 0.2 * torch.randn_like(x) for _ in "ab")  # type: ignore[return-value]

    def _loss(self, x: Tensor) -> Tensor:
        a, b = self.views(x)
        if self.options.get("kind") == "byol":
            p, q = self.head(self.net(a)), self.net(b).detach()
            return 2 - 2 * F.cosine_similarity(p, q).mean()
        z = F.normalize(self.head(self.net(torch.cat([a, b]))), dim=1)
        near = z @ z.T / 0.2 - 1e9 * torch.eye(len(z))
        return F.cross_entropy(near, torch.arange(len(z)).roll(len(x)))

    def loss(self, step: int) -> Tensor:
        return self._loss(self.x[self.rng.choice(len(self.x), self.batch)])

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        rows = self.rng.choice(len(self.vx), 32)
        return {"loss": float(self._loss(self.vx[rows]))}


class FewShot(Task):
    """Prototypes of five classes from a few digits each; few episodes make a noisy validation."""

    def build(self) -> nn.Module:
        self.x, self.y, self.vx, self.vy = digits()
        return perceptron([64, 64, 32])

    def _episode(self, x: Tensor, y: Tensor) -> Tensor:
        classes = self.rng.choice(10, 5, replace=False)
        rows = [self.rng.choice(np.flatnonzero(y.numpy() == c), 6, replace=False) for c in classes]
        z = self.model(x[np.concatenate(rows)] + 0.3 * torch.randn(30, 64)).view(5, 6, -1)
        far = torch.cdist(z[:, 2:].flatten(0, 1), z[:, :2].mean(1)).square()
        return F.cross_entropy(-far, torch.arange(5).repeat_interleave(4))

    def loss(self, step: int) -> Tensor:
        return self._episode(self.x, self.y)

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        return {"loss": float(np.mean([float(self._episode(self.vx, self.vy)) for _ in range(3)]))}


class FineTune(Classify):
    """A network trained on half of the digits goes on with the other half, its first layers frozen."""

    def build(self) -> nn.Module:
        model = super().build()
        early = self.y < 5
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(200):
            rows = torch.tensor(self.rng.choice(int(early.sum()), 64))
            optimizer.zero_grad()
            F.cross_entropy(model(self.x[early][rows]), self.y[early][rows]).backward()
            optimizer.step()
        if self.options.get("frozen"):
            for each in model[0].parameters():  # type: ignore[index]
                each.requires_grad_(False)
        return model


class Adversaries(Task):
    """A generator against a discriminator, on digits."""

    def build(self) -> nn.Module:
        self.x = 2 * digits()[0] - 1
        self.g, self.d = perceptron([16, 64, 64]), perceptron([64, 64, 1])
        self.wasserstein = self.options.get("kind") == "wgan"
        rate, betas = self.options.get("lr", 2e-3), (0.5, 0.9)
        self.og = torch.optim.Adam(self.g.parameters(), rate, betas)
        self.od = torch.optim.Adam(self.d.parameters(), rate, betas)
        return nn.ModuleDict({"g": self.g, "d": self.d})

    def loss(self, step: int) -> Tensor:
        real = self.x[self.rng.choice(len(self.x), self.batch)]
        fake = torch.tanh(self.g(torch.randn(len(real), 16)))
        for _ in range(3 if self.wasserstein else 1):
            a, b = self.d(real), self.d(fake.detach())
            if self.wasserstein:
                mix = torch.rand(len(real), 1)
                mixed = (mix * real + (1 - mix) * fake.detach()).requires_grad_()
                slope = torch.autograd.grad(self.d(mixed).sum(), mixed, create_graph=True)[0]
                d_loss = b.mean() - a.mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
            else:
                d_loss = F.softplus(-a).mean() + F.softplus(b).mean()
            self.od.zero_grad()
            d_loss.backward()
            self.od.step()
        out = self.d(fake)
        g_loss = -out.mean() if self.wasserstein else F.softplus(-out).mean()
        self.og.zero_grad()
        g_loss.backward()
        self.og.step()
        names = self.options.get("names", ("loss_D", "loss_G"))
        self.extra = {names[0]: float(d_loss.detach()), names[1]: float(g_loss.detach())}
        return g_loss.detach()


class Cart:
    """Balancing a pole, after Barto, Sutton and Anderson (1983)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.reset()

    def reset(self) -> np.ndarray[Any, Any]:
        """Begin an episode."""
        self.state, self.steps = self.rng.uniform(-0.05, 0.05, 4), 0
        return self.state

    def act(self, right: int) -> tuple[np.ndarray[Any, Any], bool]:
        """Push, and return the state and whether the episode is over."""
        _, v, angle, spin = self.state
        force = 10.0 if right else -10.0
        sin, cos = math.sin(angle), math.cos(angle)
        pull = (force + 0.05 * spin * spin * sin) / 1.1
        turn = (9.8 * sin - cos * pull) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        self.state = self.state + 0.02 * np.array([v, pull - 0.05 * turn * cos / 1.1, spin, turn])
        self.steps += 1
        return self.state, bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.steps >= 200)


class Policy(Task):
    """Actor and critic, or a critic alone (Q-learning), on a pole."""

    def build(self) -> nn.Module:
        self.cart, self.actor, self.critic = (
            Cart(self.rng),
            perceptron([4, 32, 2], "tanh"),
            perceptron([4, 32, 1], "tanh"),
        )
        self.returns: list[float] = [10.0]
        self.q = self.options.get("kind") == "dqn"
        self.memory: list[Any] = []
        return nn.ModuleDict({"actor": self.actor, "critic": self.critic})

    def _play(self, count: int, wild: float = 0.0) -> list[tuple[Any, ...]]:
        seen = []
        state = self.cart.state
        for _ in range(count):
            with torch.no_grad():
                out = self.actor(torch.tensor(state, dtype=torch.float32))
            if self.q:
                act = int(self.rng.integers(2)) if self.rng.random() < wild else int(out.argmax())
            else:
                act = int(self.rng.random() < float(out.softmax(0)[1]))
            after, over = self.cart.act(act)
            seen.append((state, act, after, over))
            if over:
                self.returns.append(float(self.cart.steps))
                after = self.cart.reset()
            state = after
        return seen

    def loss(self, step: int) -> Tensor:
        seen = self._play(4 if self.q else 32, max(0.05, 1 - step / 300))
        if self.q:
            self.memory = (self.memory + seen)[-2000:]
            seen = [self.memory[at] for at in self.rng.integers(0, len(self.memory), 32)]
        state, after = (torch.tensor(np.array([s[i] for s in seen]), dtype=torch.float32) for i in (0, 2))
        act, over = (torch.tensor([int(s[i]) for s in seen]) for i in (1, 3))
        reward = 1.0
        self.extra["rollout/ep_rew_mean"] = float(np.mean(self.returns[-20:]))
        if self.q:
            with torch.no_grad():
                aim = reward + 0.98 * (1 - over) * self.actor(after).max(1).values
            found = F.smooth_l1_loss(self.actor(state).gather(1, act[:, None]).squeeze(1), aim)
            self.extra["rollout/exploration_rate"] = max(0.05, 1 - step / 300)
            return found
        with torch.no_grad():
            gain = torch.zeros(len(seen))
            run = float(self.critic(after[-1])) * (1 - int(over[-1]))
            for at in reversed(range(len(seen))):
                run = reward + 0.98 * run * (1 - int(over[at]))
                gain[at] = run
        value = self.critic(state).squeeze(1)
        log = self.actor(state).log_softmax(1)
        edge = gain - value.detach()
        policy = -(log.gather(1, act[:, None]).squeeze(1) * (edge - edge.mean()) / (edge.std() + 1e-6)).mean()
        entropy = -(log.exp() * log).sum(1).mean()
        worth = F.mse_loss(value, gain)
        self.extra |= {
            "train/policy_gradient_loss": float(policy.detach()),
            "train/value_loss": float(worth.detach()),
            "train/entropy_loss": -float(entropy.detach()),
        }
        return policy + 0.01 * worth - 0.01 * entropy


TASKS: dict[str, type[Task]] = {
    "mlp": Classify,
    "cnn": Classify,
    "regress": Regress,
    "language": Language,
    "parity": Parity,
    "vae": Autoencoder,
    "diffusion": Diffusion,
    "ssl": Contrast,
    "fewshot": FewShot,
    "finetune": FineTune,
    "gan": Adversaries,
    "rl": Policy,
}
