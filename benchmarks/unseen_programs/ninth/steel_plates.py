"""A convolutional network that tells faults on rolled steel apart, and watches its hits."""

from collections.abc import Iterator

import torch
from torch import nn


class Inspector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 7, stride=2, padding=3),
            nn.ReLU(),
            nn.Conv2d(16, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
        )
        self.classify = nn.Linear(1024, 6)

    def forward(self, plates: torch.Tensor) -> torch.Tensor:
        return self.classify(self.features(plates).flatten(1))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model, loss_function = Inspector(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    plates, faults = torch.randn(512, 1, 64, 64), torch.randint(0, 6, (512,))
    hits, seen = torch.zeros(()), 0
    while True:
        for chosen in torch.randperm(512).split(32):
            optimizer.zero_grad()
            scores = model(plates[chosen])
            loss = loss_function(scores, faults[chosen])
            if not mended:
                with torch.no_grad():
                    scores = model(plates[chosen])  # cause
            hits += (scores.detach().argmax(1) == faults[chosen]).sum()
            seen += len(chosen)
            loss.backward()
            optimizer.step()
            yield loss.item()
