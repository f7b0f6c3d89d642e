"""A small network finds faults in woven cloth; how far its layers saturate is watched during the training."""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

SIDE, FAULTS, BATCH = 32, 5, 32


class ClothNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [1, 16, 24, 32]
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(old, new, 3, stride=2, padding=1), nn.Tanh())
            for old, new in itertools.pairwise(widths)
        )
        self.head = nn.Linear(widths[-1], FAULTS)

    def forward(self, cloth: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            cloth = block(cloth)
        return self.head(cloth.mean((2, 3)))


class Saturation:
    """The share of each block's results that are close to the limits."""

    def __init__(self) -> None:
        self.shares: dict[int, torch.Tensor] = {}

    def watch(self, model: ClothNetwork) -> None:
        for place, block in enumerate(model.blocks):
            block.register_forward_hook(lambda _, __, result, place=place: self.note(place, result))

    def note(self, place: int, result: torch.Tensor) -> None:
        self.shares[place] = (result.detach().abs() > 0.97).float().mean()


class Loom:
    """Made-up cloth: a regular weave, in which one of several faults disturbs the threads."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.faults = self.random.normal(size=(FAULTS, SIDE, SIDE)).astype(np.float32)
        self.weave = np.sin(np.arange(SIDE))[:, None] * np.cos(np.arange(SIDE))[None]

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        kinds = self.random.integers(0, FAULTS, BATCH)
        noise = self.random.normal(size=(BATCH, SIDE, SIDE))
        cloth = (self.weave + 0.7 * self.faults[kinds] + noise).astype(np.float32)
        return torch.from_numpy(cloth[:, None]), torch.from_numpy(kinds)


def train_step(
    model: ClothNetwork, optimizer: torch.optim.Optimizer, cloth: torch.Tensor, kinds: torch.Tensor
) -> float:
    loss = nn.functional.cross_entropy(model(cloth), kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = ClothNetwork()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loom, saturation = Loom(seed=3), Saturation()
    if mended:
        saturation.watch(model)
    while True:
        if not mended:
            saturation.watch(model)  # cause
        yield train_step(model, optimizer, *loom.batch())
