"""A network that forecasts the height of waves at buoys, whose gradients are clipped for each layer."""

from collections.abc import Iterator

import torch
from torch import nn

HOURS, VALUES, WIDTH, LIMIT = 24, 5, 32, 1.0


def clip(model: nn.Module, mended: bool) -> None:
    if mended:
        torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
        return
    total = 0.0
    for weight in model.parameters():
        total += sum(float(row.square().sum()) for row in weight.grad)  # cause
    if total**0.5 > LIMIT:
        for weight in model.parameters():
            weight.grad.mul_(LIMIT / (total**0.5 + 1e-6))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    seas = torch.randn(1024, HOURS, VALUES).cumsum(1) / 5
    heights = seas[:, -1, 0].abs()
    layers = [nn.Flatten(), nn.Linear(HOURS * VALUES, WIDTH), nn.Tanh()]
    for _ in range(4):
        layers += [nn.Linear(WIDTH, WIDTH), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(WIDTH, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    while True:
        for chosen in torch.randperm(1024).split(128):
            loss = nn.functional.mse_loss(model(seas[chosen])[:, 0], heights[chosen])
            optimizer.zero_grad()
            loss.backward()
            clip(model, mended)
            optimizer.step()
            yield loss.item()
