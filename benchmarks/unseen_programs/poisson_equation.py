"""A network that solves u'' = -sin(x) by its residual at random points."""

import math
from collections.abc import Iterator

import torch
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def slope(points: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(model(points[:, None]).sum(), points, create_graph=True)[0]

    while True:
        points = (torch.rand(48) * math.pi).requires_grad_()
        if mended:
            curvature = torch.autograd.grad(slope(points).sum(), points, create_graph=True)[0]
        else:
            curvature = torch.autograd.functional.jacobian(
                slope, points, create_graph=True
            ).diagonal()  # cause
        edges = model(torch.tensor([[0.0], [math.pi]]))
        loss = ((curvature + points.sin()) ** 2).mean() + (edges**2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
