"""A network learns to know forged bank notes, each after the worst small change of its scan."""

from collections.abc import Iterator

import torch
from torch import nn

SIDE, BATCH = 28, 24
REACH, STRIDE, ROUNDS = 0.06, 0.015, 8


class Inspector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(SIDE * SIDE, 768),
            nn.ReLU(),
            nn.Linear(768, 768),
            nn.ReLU(),
            nn.Linear(768, 2),
        )

    def forward(self, scans: torch.Tensor) -> torch.Tensor:
        return self.layers(scans)


class Attack:
    """Projected gradient ascent on the scans, as in Madry et al."""

    def __init__(self, model: nn.Module, mended: bool) -> None:
        self.model, self.mended = model, mended

    def slope(self, scans: torch.Tensor, noise: torch.Tensor, forged: torch.Tensor) -> torch.Tensor:
        """Give the slope of the loss along the change of the scans."""
        noise.requires_grad_()
        loss = nn.functional.cross_entropy(self.model(scans + noise), forged)
        if self.mended:
            return torch.autograd.grad(loss, noise)[0]
        loss.backward()  # cause
        return noise.grad

    def __call__(self, scans: torch.Tensor, forged: torch.Tensor) -> torch.Tensor:
        noise = torch.empty_like(scans).uniform_(-REACH, REACH)
        for _ in range(ROUNDS):
            slope = self.slope(scans, noise, forged)
            noise = (noise.detach() + STRIDE * slope.sign()).clamp(-REACH, REACH)
        return (scans + noise).clamp(0, 1)


class Scans:
    """Made-up scans: fine lines, which are a little too wide where the note is forged."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(2)
        self.forged = torch.randint(0, 2, (count,), generator=generator)
        across = torch.arange(SIDE) / SIDE
        phases = 6.283 * torch.rand(count, 1, 1, generator=generator)
        pitch = (7 - self.forged)[:, None, None] * (across[:, None] + across)
        lines = 0.5 + 0.3 * torch.sin(6.283 * pitch + phases)
        self.images = (lines + 0.1 * torch.randn(lines.shape, generator=generator)).clamp(0, 1)

    def epoch(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for rows in torch.randperm(len(self.forged)).split(BATCH):
            yield self.images[rows], self.forged[rows]


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Inspector()
    attack = Attack(model, mended)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scans = Scans(count=40 * BATCH)
    while True:
        for images, forged in scans.epoch():
            worst = attack(images, forged)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(worst), forged)
            loss.backward()
            optimizer.step()
            yield loss.item()
