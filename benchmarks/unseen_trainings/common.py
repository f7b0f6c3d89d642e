"""Data sets, small models and measures that several subjects share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as fn
from sklearn.datasets import load_digits
from torch import nn


def seeded(seed: int) -> np.random.Generator:
    """Seed torch, hold it to one thread, and return numpy's generator."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    return np.random.default_rng(seed)


def digits(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Handwritten digits of 8 x 8 pixels between 0 and 1: 1400 to train on, 397 to evaluate on."""
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    x = torch.tensor(pixels[order] / 16, dtype=torch.float32)
    y = torch.tensor(labels[order])
    return x[:1400], y[:1400], x[1400:], y[1400:]


def batches(rng: np.random.Generator, size: int, batch: int) -> Iterator[torch.Tensor]:
    """Indices of one epoch, shuffled; the last short batch is dropped."""
    order = rng.permutation(size)
    for start in range(0, size - batch + 1, batch):
        yield torch.as_tensor(order[start : start + batch])


def forever(rng: np.random.Generator, size: int, batch: int) -> Iterator[torch.Tensor]:
    while True:
        yield from batches(rng, size, batch)


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for index, (inside, outside) in enumerate(pairwise(sizes)):
        layers += [act()] if index else []
        layers.append(nn.Linear(inside, outside))
    return nn.Sequential(*layers)


def descend(opt: torch.optim.Optimizer, loss: torch.Tensor) -> float:
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def grad_norm(parameters: Iterable[torch.Tensor]) -> float:
    grads = [p.grad for p in parameters if p.grad is not None]
    return float(torch.stack([g.norm() for g in grads]).norm()) if grads else 0.0


def weight_norm(parameters: Iterable[torch.Tensor]) -> float:
    return float(torch.stack([p.detach().norm() for p in parameters]).norm())


@torch.no_grad()
def evaluate(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Loss and accuracy of a classifier in evaluation mode."""
    model.eval()
    out = model(x)
    model.train()
    return fn.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def set_rate(opt: torch.optim.Optimizer, rate: float) -> None:
    for group in opt.param_groups:
        group["lr"] = rate


def text(rng: np.random.Generator, sentences: int) -> str:
    """Sentences of a small grammar, so that a model of characters has words and order to learn."""
    nouns = [
        "cat",
        "dog",
        "bird",
        "river",
        "stone",
        "child",
        "garden",
        "winter",
        "letter",
        "window",
        "engine",
        "sailor",
    ]
    verbs = ["sees", "finds", "follows", "forgets", "paints", "carries", "answers", "hears"]
    adjectives = ["old", "red", "quiet", "small", "broken", "golden", "distant", "early"]
    places = ["near", "behind", "under", "without", "above"]
    pick = rng.choice
    return "".join(
        f"the {pick(adjectives)} {pick(nouns)} {pick(verbs)} a {pick(nouns)} "
        f"{pick(places)} the {pick(nouns)}. "
        for _ in range(sentences)
    )


def encode(letters: str) -> tuple[torch.Tensor, int]:
    alphabet = sorted(set(letters))
    return torch.tensor([alphabet.index(c) for c in letters]), len(alphabet)


def windows(
    rng: np.random.Generator, ids: torch.Tensor, batch: int, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Random windows of a text and the same windows one character later."""
    starts = rng.integers(0, len(ids) - length - 1, batch)
    x = torch.stack([ids[s : s + length] for s in starts])
    y = torch.stack([ids[s + 1 : s + length + 1] for s in starts])
    return x, y


class CharModel(nn.Module):
    """A recurrent model of characters."""

    def __init__(self, vocabulary: int, width: int = 48, cell: type[nn.RNNBase] = nn.GRU) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 24)
        self.rnn = cell(24, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(ids))[0])


def token_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return fn.cross_entropy(model(x).flatten(0, 1), y.flatten())
