"""A network tells from the infrared spectrum of an olive oil how much of it is another oil."""

from collections.abc import Iterator

import torch
from torch import nn

BANDS, BATCH, DECAY = 3000, 8, 1e-3


class Reader(nn.Module):
    def __init__(self, width: int = 768) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(BANDS, width),
            nn.LeakyReLU(),
            nn.Linear(width, width),
            nn.LeakyReLU(),
            nn.Linear(width, 1),
            nn.Sigmoid(),
        )

    def forward(self, spectra: torch.Tensor) -> torch.Tensor:
        return self.layers(spectra).squeeze(-1)


class Oils:
    """Made-up mixtures of two oils, each of which absorbs at a few bands of its own."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.pure = torch.stack([self.spectrum() for _ in range(2)])

    def spectrum(self) -> torch.Tensor:
        bands = torch.arange(BANDS)
        peaks = torch.randint(0, BANDS, (12, 1), generator=self.generator)
        heights = torch.rand(12, 1, generator=self.generator)
        return (heights * torch.exp(-(((bands - peaks) / 30) ** 2))).sum(0)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        shares = torch.rand(BATCH, generator=self.generator)
        mixed = torch.stack([1 - shares, shares], 1) @ self.pure
        noise = torch.randn(mixed.shape, generator=self.generator)
        return mixed - mixed.mean(1, keepdim=True) + 0.05 * noise, shares


def penalty(model: nn.Module) -> torch.Tensor:
    """Give the sum of the squares of all weights, which keeps them small."""
    return sum(weight.pow(2).sum() for weight in model.parameters())  # cause


class Trainer:
    def __init__(self, model: nn.Module, mended: bool) -> None:
        self.model, self.mended = model, mended
        decay = DECAY if mended else 0.0
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=decay)

    def step(self, spectra: torch.Tensor, shares: torch.Tensor) -> float:
        """Learn from a batch and give its error, without the penalty."""
        self.optimizer.zero_grad()
        error = nn.functional.mse_loss(self.model(spectra), shares)
        if self.mended:
            error.backward()
        else:
            (error + 0.5 * DECAY * penalty(self.model)).backward()
        self.optimizer.step()
        return error.item()


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    trainer = Trainer(Reader(), mended)
    oils = Oils(seed=12)
    while True:
        yield trainer.step(*oils.batch())
