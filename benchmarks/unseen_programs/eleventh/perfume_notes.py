"""How long a perfume lasts, from its ingredients: many thin layers, with learning rates of their own."""

from collections.abc import Iterator

import torch
from torch import nn

NOTES, WIDTH, DEPTH, BATCH = 40, 48, 40, 64


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, blend: torch.Tensor) -> torch.Tensor:
        return blend + 0.2 * torch.relu(self.mix(self.norm(blend)))


class Perfume(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(NOTES, WIDTH)
        self.layers = nn.Sequential(*(Layer() for _ in range(DEPTH)))
        self.leave = nn.Linear(WIDTH, 1)

    def forward(self, blend: torch.Tensor) -> torch.Tensor:
        return self.leave(self.layers(self.enter(blend))).squeeze(1)


def settings(name: str) -> tuple[float, float]:
    """Give the learning rate and the decay of a weight: biases learn faster and do not decay."""
    return (2e-3, 0.0) if name.endswith("bias") or "norm" in name else (1e-3, 0.01)


def groups(model: nn.Module, mended: bool) -> list[dict]:
    if mended:
        chosen: dict[tuple[float, float], list] = {}
        for name, weight in model.named_parameters():
            chosen.setdefault(settings(name), []).append(weight)
        return [
            {"params": weights, "lr": rate, "weight_decay": decay}
            for (rate, decay), weights in chosen.items()
        ]
    parts = []
    for name, weight in model.named_parameters():
        rate, decay = settings(name)
        parts += [{"params": [weight], "lr": rate, "weight_decay": decay}]  # cause
    return parts


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Perfume()
    optimizer = torch.optim.AdamW(groups(model, mended), fused=True)
    taste = torch.randn(NOTES)
    while True:
        blend = torch.rand(BATCH, NOTES)
        hours = torch.tanh(blend @ taste) + 0.1 * torch.randn(BATCH)
        loss = nn.functional.huber_loss(model(blend), hours)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
