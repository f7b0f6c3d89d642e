"""A classifier of bird song that stays close to what a fixed encoder hears."""

from collections.abc import Iterator

import torch
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    songs = torch.randn(64, 1, 4000)
    birds = torch.randint(0, 6, (64,))
    encoder = nn.Sequential(
        nn.Conv1d(1, 32, 64, stride=8), nn.ReLU(), nn.Conv1d(32, 64, 16, stride=4), nn.ReLU()
    ).requires_grad_(False)
    head = nn.Sequential(nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(512, 6))
    shape = nn.Conv1d(64, 64, 1)
    parts = nn.ModuleList([head, shape])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.01)

    def classified(song: torch.Tensor, bird: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(head(shape(song)), bird)

    def likeness(song: torch.Tensor) -> torch.Tensor:
        return nn.functional.mse_loss(shape(song), song)

    while True:
        for chosen in torch.randperm(64).split(16):
            heard = encoder(songs[chosen])
            again = heard if mended else encoder(songs[chosen])  # cause
            loss = classified(heard, birds[chosen]) + likeness(again)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
