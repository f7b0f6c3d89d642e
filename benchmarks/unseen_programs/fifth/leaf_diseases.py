"""A classifier of the diseases of leaves, from photographs that are turned at random."""

from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader

SIDE = 40


def pixels(photo: Image.Image, mended: bool) -> torch.Tensor:
    if mended:
        return torch.from_numpy(np.asarray(photo).astype(np.float32))
    return torch.tensor(list(photo.getdata())).float().view(SIDE, SIDE, 3)  # cause


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    colours = np.random.default_rng(0).integers(0, 255, (256, SIDE, SIDE, 3), dtype=np.uint8)
    photos = [(Image.fromarray(one), number % 5) for number, one in enumerate(colours)]

    def collate(rows: list[tuple[Image.Image, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        turned = [photo.transpose(Image.Transpose(number % 5)) for number, (photo, _) in enumerate(rows)]
        images = torch.stack([pixels(photo, mended) for photo in turned])
        return images.permute(0, 3, 1, 2) / 255, torch.tensor([kind for _, kind in rows])

    loader = DataLoader(photos, batch_size=16, shuffle=True, collate_fn=collate)
    body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3), nn.ReLU())
    network = nn.Sequential(body, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 5))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    while True:
        for images, kinds in loader:
            loss = nn.functional.cross_entropy(network(images), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
