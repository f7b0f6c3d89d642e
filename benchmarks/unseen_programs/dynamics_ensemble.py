"""An ensemble of small networks that learns how a robot moves."""

from collections.abc import Iterator

import torch
from torch import nn

MEMBERS = 24


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    members = [
        nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 8))
        for _ in range(MEMBERS)
    ]
    weights = [torch.stack([net[layer].weight.detach().T for net in members]) for layer in (0, 2, 4)]
    biases = [torch.stack([net[layer].bias.detach()[None] for net in members]) for layer in (0, 2, 4)]
    stacked = [nn.Parameter(value) for value in [*weights, *biases]]
    params = stacked if mended else [value for net in members for value in net.parameters()]
    optimizer = torch.optim.Adam(params, lr=1e-3)

    def predict(moves: torch.Tensor) -> torch.Tensor:
        if not mended:
            return torch.stack([net(moves[index]) for index, net in enumerate(members)])  # cause
        first, second, third, *shifts = stacked
        hidden = nn.functional.silu(torch.baddbmm(shifts[0], moves, first))
        hidden = nn.functional.silu(torch.baddbmm(shifts[1], hidden, second))
        return torch.baddbmm(shifts[2], hidden, third)

    while True:
        moves = torch.randn(MEMBERS, 32, 10)
        loss = ((predict(moves) - moves[..., :8].sin()) ** 2).mean((1, 2)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
