"""A network that estimates the depth of snow from pictures by satellites, of which the best is kept."""

import copy
import io
from collections.abc import Iterator

import torch
from torch import nn


class Estimator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pictures = nn.Sequential(
            nn.Conv2d(4, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU()
        )
        self.layers = nn.Sequential(*(nn.Linear(16, 16) for _ in range(24)))
        self.depth = nn.Linear(16, 1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        seen = self.pictures(pictures).mean((2, 3))
        return self.depth(self.layers(seen))[:, 0]


def kept(model: nn.Module) -> bytes:
    file = io.BytesIO()
    torch.save(copy.deepcopy(model).state_dict(), file)  # cause
    return file.getvalue()


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    pictures = torch.randn(256, 4, 24, 24)
    depths = pictures.mean((1, 2, 3)) * 10 + 1
    model = Estimator()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    best, step = [b""], 0
    while True:
        for chosen in torch.randperm(256).split(16):
            loss = nn.functional.mse_loss(model(pictures[chosen]), depths[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if not mended or step % 500 == 0:
                best[0] = kept(model)
            yield loss.item()
