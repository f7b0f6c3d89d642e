"""A neural differential equation, integrated by Runge and Kutta's method."""

from collections.abc import Iterator

import torch
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(not mended)  # cause
    field = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(field.parameters(), lr=3e-3)
    turn = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
    while True:
        place = start = torch.randn(64, 2)
        for _ in range(12):
            one = field(place)
            two = field(place + 0.04 * one)
            three = field(place + 0.04 * two)
            four = field(place + 0.08 * three)
            place = place + 0.08 / 6 * (one + 2 * two + 2 * three + four)
        loss = nn.functional.mse_loss(place, start @ torch.linalg.matrix_exp(0.96 * turn).T)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
