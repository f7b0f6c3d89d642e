"""A network maps roofs, roads and gardens from the air; inside, pictures are a quarter as wide."""

from collections.abc import Iterator

import torch
from torch import nn

CLASSES, WIDTH, SIDE, BATCH = 8, 64, 96, 4


def layer(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(8, outputs),
        nn.ReLU(inplace=True),
    )


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.Sequential(layer(3, 16, 2), layer(16, 32, 2), layer(32, WIDTH))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.stages(pictures)


class Decoder(nn.Module):
    """Scores of each class for each pixel of the picture."""

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.mended = mended
        self.drop = nn.Dropout2d(0.1)
        self.enlarge = nn.Upsample(scale_factor=4, mode="bilinear", align_corners=False)
        self.score = nn.Conv2d(WIDTH, CLASSES, 1)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        features = self.drop(features)
        if self.mended:
            return self.enlarge(self.score(features))
        features = self.enlarge(features)  # cause
        return self.score(features)


class Mapper(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.encode, self.decode = Encoder(), Decoder(mended)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(pictures))


class Pictures:
    """Made-up pictures: tiles of one class each, whose colours are noisy."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(4)
        tiles = torch.randint(0, CLASSES, (count, SIDE // 12, SIDE // 12), generator=generator)
        colours = torch.rand(CLASSES, 3, generator=generator)
        self.classes = tiles.repeat_interleave(12, 1).repeat_interleave(12, 2)
        clean = colours[self.classes].permute(0, 3, 1, 2)
        self.images = (clean + 0.1 * torch.randn(clean.shape, generator=generator)).contiguous()

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(0, len(self.images), (BATCH,))
        return self.images[rows], self.classes[rows]


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Mapper(mended)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    pictures = Pictures(count=64)
    while True:
        images, classes = pictures.batch()
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        yield loss.item()
