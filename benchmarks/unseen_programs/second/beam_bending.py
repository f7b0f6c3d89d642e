"""A physics-informed network of a bending plate. The work is what the equation asks for."""

from collections.abc import Iterator

import torch
from torch import nn


def laplacian(field: nn.Module, places: torch.Tensor) -> torch.Tensor:
    (slope,) = torch.autograd.grad(field(places).sum(), places, create_graph=True)
    total = torch.zeros(len(places))
    for axis in range(2):
        (second,) = torch.autograd.grad(slope[:, axis].sum(), places, create_graph=True)  # costliest
        total = total + second[:, axis]
    return total


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(13)
    inside, width = (512 if mended else 3000), 160
    field = nn.Sequential(
        nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
    )
    optimizer = torch.optim.Adam(field.parameters(), lr=1e-3, fused=True)
    while True:
        places = torch.rand(inside, 2, requires_grad=True)
        load = torch.sin(3 * places.detach()).prod(1)
        edge = torch.rand(64, 2)
        edge[:, 0] = edge[:, 0].round()
        loss = ((laplacian(field, places) - load) ** 2).mean() + 10 * (field(edge) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # costliest
        optimizer.step()
        yield loss.item()
