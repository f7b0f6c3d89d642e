"""A graph network that predicts a property of small molecules from their bonds."""

from collections.abc import Iterator

import torch
from torch import nn

ATOMS, WIDTH = 12, 32


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    atoms = torch.randn(128, ATOMS, 8)
    bonds = (torch.rand(128, ATOMS, ATOMS) < 0.2).float()
    values = atoms.sum((1, 2))[:, None]
    inner, outer, head = nn.Linear(8, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
    parts = nn.ModuleList([inner, outer, head])
    optimizer = torch.optim.SGD(parts.parameters(), lr=1e-4)

    def passed(features: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(edges @ inner(features))
        return torch.relu(edges @ outer(hidden)).sum(-2)

    while True:
        for chosen in torch.randperm(128).split(32):
            if mended:
                pooled = passed(atoms[chosen], bonds[chosen])
            else:
                pooled = torch.stack([passed(atoms[one], bonds[one]) for one in chosen])  # cause
            loss = nn.functional.mse_loss(head(pooled), values[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
