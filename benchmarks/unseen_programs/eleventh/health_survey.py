"""A survey of health: a network whose last layer is solved, with a weight for each person who was asked."""

from collections.abc import Iterator

import torch
from torch import nn

QUESTIONS, WIDTH, ASKED = 30, 40, 1200


class Answers(nn.Module):
    """Makes features of what a person answers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(QUESTIONS, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, WIDTH)
        )

    def forward(self, answers: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layers(answers))


def scaled(features: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    return counts[:, None] * features


def solve(features: torch.Tensor, health: torch.Tensor, counts: torch.Tensor, mended: bool) -> torch.Tensor:
    """Give the coefficients of the weighted least squares, with a small ridge."""
    weighted = scaled(features, counts) if mended else torch.diag(counts) @ features  # cause
    ridge = 0.1 * torch.eye(WIDTH)
    return torch.linalg.solve(features.T @ weighted / ASKED + ridge, weighted.T @ health / ASKED)


class Survey:
    """Made-up people; those whom the survey reaches seldom count more."""

    def __init__(self) -> None:
        self.random = torch.Generator().manual_seed(16)
        self.matters = torch.randn(QUESTIONS, generator=self.random) / QUESTIONS**0.5

    def ask(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        answers = torch.randn(ASKED, QUESTIONS, generator=self.random)
        counts = 0.5 + torch.rand(ASKED, generator=self.random)
        noise = 0.1 * torch.randn(ASKED, generator=self.random)
        return answers, torch.sin(2 * answers @ self.matters) + noise, counts


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model, survey = Answers(), Survey()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        answers, health, counts = survey.ask()
        features = model(answers)
        found = features @ solve(features, health, counts, mended)
        loss = (counts * (found - health) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
