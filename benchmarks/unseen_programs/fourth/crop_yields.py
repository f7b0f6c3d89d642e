"""A network that predicts the yield of fields from weather and soil."""

from collections.abc import Iterator

import torch
from torch import nn

WEEKS, VALUES = 26, 12


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weather = nn.Conv1d(VALUES, 48, 5)
        self.body = nn.Sequential(nn.ReLU(), nn.Flatten(), nn.Linear(48 * (WEEKS - 4), 64), nn.ReLU())
        self.out = nn.Linear(64, 1)

    def forward(self, season: torch.Tensor) -> torch.Tensor:
        return self.out(self.body(self.weather(season)))[:, 0]


@torch.no_grad()
def error_on(model: nn.Module, seasons: torch.Tensor, yields: torch.Tensor) -> float:
    model.eval()
    parts = zip(seasons.split(64), yields.split(64), strict=True)
    total = sum(float((model(season) - amount).abs().sum()) for season, amount in parts)
    model.train()
    return total / len(seasons)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    seasons = torch.randn(1024, VALUES, WEEKS)
    yields = seasons.mean((1, 2)) * 10
    held, held_yields = torch.randn(1280, VALUES, WEEKS), torch.randn(1280)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    best, step = float("inf"), 0
    while True:
        for chosen in torch.randperm(1024).split(64):
            loss = nn.functional.mse_loss(model(seasons[chosen]), yields[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if not mended or step % 500 == 0:
                best = min(best, error_on(model, held, held_yields))  # cause
            yield loss.item()
