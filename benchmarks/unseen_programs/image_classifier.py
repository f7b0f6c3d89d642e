"""A small convolutional network on photographs from a folder."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


def read(path: Path) -> torch.Tensor:
    image = Image.open(path).convert("RGB").resize((48, 48), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


class Photographs(Dataset):
    def __init__(self, folder: Path, mended: bool):
        self.paths = sorted(folder.glob("*.png"))
        self.images = [read(path) for path in self.paths] if mended else []

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.images[index] if self.images else read(self.paths[index])  # cause
        return image, index % 10


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(128):
            pixels = random.integers(0, 255, (20, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).resize((144, 144), Image.Resampling.BICUBIC).save(
                folder / f"{number:04}.png"
            )
        loader = DataLoader(Photographs(folder, mended), batch_size=16, shuffle=True)
        model = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(512, 10),
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        while True:
            for images, labels in loader:
                loss = nn.functional.cross_entropy(model(images.float() / 255), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                yield loss.item()
