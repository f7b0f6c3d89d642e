"""Species of trees from point clouds of a laser scanner. The work is what the model asks for."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional


class PointNet(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.enter = nn.Linear(3, 64)
        self.lift = nn.Linear(64, 128)
        self.wide = nn.Linear(128, width)
        self.species = nn.Linear(width, 9)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.lift(functional.relu(self.enter(points))))
        features = functional.relu(self.wide(hidden))  # costliest
        return self.species(features.amax(1))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(12)
    model = PointNet(128 if mended else 768)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    while True:
        points = torch.randn(12, 512, 3)
        species = torch.randint(0, 9, (12,))
        loss = functional.cross_entropy(model(points), species)
        optimizer.zero_grad()
        loss.backward()  # costliest
        optimizer.step()
        yield loss.item()
