"""A recurrent network that follows aircraft on a radar, whose weights are watched while it learns."""

from collections.abc import Iterator

import torch
from torch import nn

PLACES, VALUES, WIDTH = 12, 4, 24


class Tracker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [nn.Linear(PLACES * VALUES if i == 0 else WIDTH, WIDTH) for i in range(10)]
        )
        self.last = nn.Linear(WIDTH, VALUES)

    def forward(self, track: torch.Tensor) -> torch.Tensor:
        state = track.flatten(1)
        for layer in self.layers:
            state = torch.tanh(layer(state))
        return self.last(state)


def health(model: nn.Module) -> dict[str, float]:
    seen = {}
    for name, weight in model.named_parameters():
        seen[f"{name}.norm"] = weight.norm().item()
        seen[f"{name}.mean"] = weight.mean().item()
        seen[f"{name}.grad.norm"] = weight.grad.norm().item()
        seen[f"{name}.grad.max"] = weight.grad.abs().max().item()
    return seen


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    tracks = torch.randn(512, PLACES, VALUES).cumsum(1)
    model = Tracker()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    watched, step = [], 0
    while True:
        for chosen in torch.randperm(512).split(32):
            loss = nn.functional.mse_loss(model(tracks[chosen]), tracks[chosen, -1])
            optimizer.zero_grad()
            loss.backward()
            step += 1
            if not mended or step % 500 == 0:
                watched.append(health(model))  # cause
            optimizer.step()
            yield loss.item()
