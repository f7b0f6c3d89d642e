"""A policy that steers a crane without swinging its load, by the gradient of chosen actions."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.distributions import Normal

CRANES, MOMENTS, WIDTH = 32, 25, 32


def chances_of(policy: nn.Module, state: torch.Tensor, mended: bool) -> Normal:
    mean, spread = policy(state).chunk(2, 1)
    if mended:
        return Normal(mean, spread.exp(), validate_args=False)
    return Normal(mean, spread.exp())  # cause


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(3, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 2))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    swing = torch.tensor([[1.0, 0.05, 0.0], [-0.1, 0.97, 0.0], [0.0, 0.0, 0.95]])
    push = torch.tensor([[0.0, 0.02, 0.1]])
    while True:
        state, chances, costs = torch.randn(CRANES, 3), [], []
        for _ in range(MOMENTS):
            actions = chances_of(policy, state, mended)
            action = actions.sample()
            chances.append(actions.log_prob(action)[:, 0])
            state = state @ swing + action * push
            costs.append(state.square().sum(1))
        cost = torch.stack(costs).flip(0).cumsum(0).flip(0)
        loss = (torch.stack(chances) * (cost - cost.mean(1, keepdim=True))).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
