"""What a bottle fetches at an auction, from a wide table of its vintage, that pandas has put together."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import nn

LOTS, COLUMNS, BATCH = 60_000, 256, 2048


def catalogue(seed: int) -> pd.DataFrame:
    """Make up lots: the weather of each vintage, what tasters wrote, and the price."""
    random = np.random.default_rng(seed)
    parts = {}
    for column in range(COLUMNS):
        parts[f"note{column}"] = random.normal(size=LOTS).astype(np.float32)
    table = pd.DataFrame(parts)
    liking = random.normal(size=COLUMNS).astype(np.float32) / COLUMNS**0.5
    table["price"] = np.tanh(table.to_numpy() @ liking)
    return table


class Lots:
    """The table as tensors, without the lots that nobody has bid for."""

    def __init__(self, table: pd.DataFrame, mended: bool) -> None:
        table = table[table["price"] > -0.9]
        features = table.drop(columns="price").to_numpy()  # cause
        if mended:
            features = np.ascontiguousarray(features)
        self.features = torch.from_numpy(features)
        self.prices = torch.from_numpy(table["price"].to_numpy(copy=True))

    def batches(self, random: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            order = torch.randperm(len(self.prices), generator=random)
            for chosen in order.split(BATCH)[:-1]:
                yield self.features[chosen], self.prices[chosen]


class Price(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(COLUMNS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, notes: torch.Tensor) -> torch.Tensor:
        return self.layers(notes).squeeze(1)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    lots, model = Lots(catalogue(seed=12), mended), Price()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for notes, prices in lots.batches(torch.Generator().manual_seed(2)):
        loss = nn.functional.l1_loss(model(notes), prices)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
