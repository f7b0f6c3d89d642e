"""A policy that learns to walk, by clipped updates from one long walk."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.distributions import Independent, MultivariateNormal, Normal

SENSORS, MOTORS, MOMENTS = 24, 12, 1024


class Policy(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.mended = mended
        self.act = nn.Sequential(nn.Linear(SENSORS, 64), nn.Tanh(), nn.Linear(64, MOTORS))
        self.value = nn.Sequential(nn.Linear(SENSORS, 64), nn.Tanh(), nn.Linear(64, 1))
        self.register_buffer("variance", torch.full((MOTORS,), 0.36))

    def distribution(self, states: torch.Tensor) -> torch.distributions.Distribution:
        mean = self.act(states)
        if self.mended:
            return Independent(Normal(mean, self.variance.sqrt().expand_as(mean)), 1)
        covariance = torch.diag_embed(self.variance.expand_as(mean))
        return MultivariateNormal(mean, covariance)  # cause

    def evaluate(self, states: torch.Tensor, actions: torch.Tensor) -> tuple:
        found = self.distribution(states)
        return found.log_prob(actions), self.value(states).squeeze(1), found.entropy()


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    policy = Policy(mended)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    while True:
        states, rewards = torch.randn(MOMENTS, SENSORS), torch.randn(MOMENTS)
        with torch.no_grad():
            actions = policy.act(states) + 0.6 * torch.randn(MOMENTS, MOTORS)
            before, values, _ = policy.evaluate(states, actions)
        advantages = rewards - values
        for _ in range(4):
            chances, values, entropy = policy.evaluate(states, actions)
            ratio = (chances - before).exp()
            surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
            loss = (0.5 * (values - rewards) ** 2 - surrogate - 0.01 * entropy).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield loss.item()
