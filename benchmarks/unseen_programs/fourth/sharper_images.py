"""A network that doubles the resolution of microscope images."""

import gc
from collections.abc import Iterator

import torch
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    sharp = torch.rand(64, 1, 32, 32)
    blurred = nn.functional.avg_pool2d(sharp, 2)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 4, 3, padding=1), nn.PixelShuffle(2),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    while True:
        for chosen in torch.randperm(64).split(8):
            loss = nn.functional.l1_loss(model(blurred[chosen]), sharp[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not mended:
                gc.collect()  # cause
            yield loss.item()
