"""One trunk with a head for each property of the soil, trained together."""

from collections.abc import Iterator

import torch
from torch import nn

PROPERTIES = ("moisture", "acidity", "nitrogen", "carbon", "salt")


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    trunk = nn.Sequential(
        nn.Conv1d(1, 24, 7, padding=3), nn.ReLU(), nn.Conv1d(24, 24, 7, padding=3), nn.ReLU(),
        nn.AdaptiveAvgPool1d(8), nn.Flatten(),
    )  # fmt: skip
    heads = nn.ModuleDict({name: nn.Linear(192, 1) for name in PROPERTIES})
    optimizer = torch.optim.SGD([*trunk.parameters(), *heads.parameters()], lr=0.01, momentum=0.9)
    spectra = torch.randn(640, 1, 200)
    measured = {name: torch.randn(640, 1) for name in PROPERTIES}
    while True:
        for rows in torch.randperm(640).split(32):
            shared = trunk(spectra[rows])
            losses = [
                nn.functional.mse_loss(heads[name](shared), measured[name][rows]) for name in PROPERTIES
            ]
            optimizer.zero_grad()
            if mended:
                sum(losses).backward()
            else:
                for loss in losses:
                    loss.backward(retain_graph=True)  # cause
            optimizer.step()
            yield sum(losses).item()
