"""A classifier of traffic signs, whose small epochs are read by two workers."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    signs = TensorDataset(torch.randn(96, 3, 32, 32), torch.randint(0, 8, (96,)))
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 8),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    loader = DataLoader(signs, 32, num_workers=2, persistent_workers=mended)
    while True:
        for images, kinds in loader:  # cause
            loss = nn.functional.cross_entropy(model(images), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
