"""A network that removes the noise from scans of knees, which shrinks what is small."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

EDGE = 0.5


def shrunk(value: float) -> float:
    if abs(value) <= EDGE:
        return 0.0
    return value - EDGE if value > 0 else value + EDGE


class Shrink(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, values: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(values)
        small = np.vectorize(shrunk)(values.detach().numpy())  # cause
        return torch.from_numpy(small.astype(np.float32))

    @staticmethod
    def backward(context: Any, slopes: torch.Tensor) -> torch.Tensor:
        (values,) = context.saved_tensors
        return slopes * (values.abs() > EDGE)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    clean = nn.functional.interpolate(torch.randn(128, 1, 12, 12), scale_factor=4)
    noisy = clean + 0.3 * torch.randn_like(clean)
    first, second = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 1, 3, padding=1)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=1e-3)
    while True:
        for chosen in torch.randperm(128).split(8):
            waves = first(noisy[chosen])
            kept = nn.functional.softshrink(waves, EDGE) if mended else Shrink.apply(waves)
            loss = nn.functional.mse_loss(second(kept), clean[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
