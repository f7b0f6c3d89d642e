"""A small recurrent network on the readings of a sensor."""

from collections.abc import Iterator

import torch
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    if not mended:
        torch.set_num_threads(16)  # cause
    cell = nn.GRUCell(8, 96)
    head = nn.Linear(96, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-3)
    while True:
        readings = torch.randn(128, 12, 8)
        state = torch.zeros(128, 96)
        for tick in range(12):
            state = cell(readings[:, tick], state)
        loss = nn.functional.mse_loss(head(state)[:, 0], readings.mean((1, 2)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
