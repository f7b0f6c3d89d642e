"""An arm that learns from what it did before: the newest movements replace the oldest in its memory."""

from collections.abc import Iterator

import torch
from torch import nn

KEPT, WIDTH, NEW = 150_000, 24, 32


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    memory = torch.randn(KEPT, WIDTH)
    oldest = 0
    truth = torch.randn(WIDTH, 4) / 5
    model = nn.Sequential(nn.Linear(WIDTH, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    while True:
        seen = torch.randn(NEW, WIDTH)
        if mended:
            memory[(torch.arange(NEW) + oldest) % KEPT] = seen
            oldest = (oldest + NEW) % KEPT
        else:
            memory = torch.cat([memory, seen])[-KEPT:]  # cause
        rows = (torch.randint(0, KEPT, (256,)) + oldest) % KEPT
        moves = memory[rows]
        loss = nn.functional.mse_loss(model(moves), moves @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
