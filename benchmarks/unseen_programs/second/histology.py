"""Tissue types from patches of stained slides, with random stains and random crops."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SLIDE, PATCH = 448, 64


def restain(image: torch.Tensor, gains: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
    """Scale and shift the optical densities of the three colours."""
    density = -torch.log(image.clamp_min(1e-3))
    density = density * gains[:, None, None] + shifts[:, None, None]
    return torch.exp(-density).clamp(0, 1)


class Slides(Dataset):
    def __init__(self, mended: bool):
        self.slides = torch.rand(48, 3, SLIDE, SLIDE)
        self.mended = mended

    def __len__(self):
        return len(self.slides)

    def __getitem__(self, index):
        slide = self.slides[index]
        gains, shifts = torch.empty(3).uniform_(0.8, 1.2), torch.empty(3).uniform_(-0.1, 0.1)
        top, left = torch.randint(0, SLIDE - PATCH, (2,)).tolist()
        if self.mended:
            patch = restain(slide[:, top : top + PATCH, left : left + PATCH], gains, shifts)
        else:
            slide = restain(slide, gains, shifts)  # cause
            patch = slide[:, top : top + PATCH, left : left + PATCH]
        return patch.contiguous(), index % 4


def block(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(4)
    loader = DataLoader(Slides(mended), batch_size=8, shuffle=True)
    model = nn.Sequential(
        block(3, 16), block(16, 32), block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    while True:
        for patches, tissues in loader:
            loss = criterion(model(patches), tissues)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            yield loss.item()
