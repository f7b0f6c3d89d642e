"""A network that finds rare decays among the events of a collider."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EVENTS, BATCH = 16384, 1024


def batches(events: torch.Tensor, rare: torch.Tensor, mended: bool) -> Iterator:
    order = torch.Generator().manual_seed(1)
    if mended:
        while True:
            for start in range(0, EVENTS, BATCH):
                yield events[start : start + BATCH], rare[start : start + BATCH]
    loader = DataLoader(TensorDataset(events, rare), batch_size=BATCH, generator=order)
    while True:
        yield from loader  # cause


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    events = torch.randn(EVENTS, 28)
    rare = (events[:, :4].prod(1) > 0.2).float()
    net = nn.Sequential(nn.Linear(28, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for inputs, targets in batches(events, rare, mended):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(inputs).squeeze(1), targets)
        loss.backward()
        optimizer.step()
        yield loss.item()
