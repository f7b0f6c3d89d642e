"""A diffusion model of galaxy shapes whose samples come from averaged weights."""

import copy
from collections.abc import Iterator

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, hidden):
        return hidden + self.down(torch.nn.functional.silu(self.up(self.norm(hidden))))


class Denoiser(nn.Module):
    def __init__(self, width: int = 48, depth: int = 8):
        super().__init__()
        self.enter = nn.Linear(13, width)
        self.blocks = nn.Sequential(*(Residual(width) for _ in range(depth)))
        self.leave = nn.Linear(width, 12)

    def forward(self, shapes, times):
        return self.leave(self.blocks(self.enter(torch.cat([shapes, times], dim=1))))


class Average:
    """An exponential moving average of the weights of a model."""

    def __init__(self, model: nn.Module, decay: float, mended: bool):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.mended = mended

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        old, new = self.model.state_dict(), model.state_dict()
        for name in new:
            if not self.mended:
                old, new = self.model.state_dict(), model.state_dict()  # cause
            old[name].copy_(self.decay * old[name] + (1 - self.decay) * new[name])


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(11)
    model = Denoiser()
    average = Average(model, 0.999, mended)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    while True:
        shapes, noise = torch.randn(64, 12).tanh(), torch.randn(64, 12)
        times = torch.rand(64, 1)
        mixed = (1 - times) * shapes + times * noise
        loss = nn.functional.mse_loss(model(mixed, times), noise - shapes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        yield loss.item()
