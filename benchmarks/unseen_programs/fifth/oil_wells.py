"""A model of the flow of oil, with small layers of its own for each well."""

from collections.abc import Iterator

import torch
from torch import nn

WELLS, VALUES = 48, 6


class Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(VALUES, 16), nn.Tanh())
        self.wells = nn.ModuleList([nn.Linear(16, 1) for _ in range(WELLS)])

    def forward(self, readings: torch.Tensor) -> torch.Tensor:
        common = self.shared(readings)
        weights = torch.stack([well.weight[0] for well in self.wells], 1)
        return common @ weights + torch.cat([well.bias for well in self.wells])


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    readings = torch.randn(1024, VALUES)
    flows = torch.sin(readings @ torch.randn(VALUES, WELLS))
    model = Field()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=mended)  # cause
    while True:
        for chosen in torch.randperm(1024).split(128):
            loss = nn.functional.mse_loss(model(readings[chosen]), flows[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
