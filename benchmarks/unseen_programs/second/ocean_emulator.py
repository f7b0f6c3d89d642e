"""An emulator of sea temperatures that must survive being killed."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn


class Emulator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv2d(2, 32, 3, stride=2, padding=1)
        self.turn = nn.Linear(32 * 8 * 8, 512)
        self.back = nn.Linear(512, 2 * 16 * 16)

    def forward(self, state):
        hidden = self.encode(state).relu().flatten(1)
        return state + self.back(self.turn(hidden).relu()).view_as(state)


class Trainer:
    def __init__(self, folder: Path, save_every: int):
        self.model = Emulator()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        self.folder = folder
        self.save_every = save_every
        self.steps = 0

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
        }
        torch.save(state, self.folder / "last.tmp")  # cause
        (self.folder / "last.tmp").replace(self.folder / "last.pt")

    def step(self, before, after) -> float:
        loss = nn.functional.mse_loss(self.model(before), after)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.save_every == 0:
            self.save()
        return loss.item()


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(8)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Path(folder), save_every=500 if mended else 1)
        while True:
            before = torch.randn(16, 2, 16, 16)
            yield trainer.step(before, before.roll(1, dims=3))
