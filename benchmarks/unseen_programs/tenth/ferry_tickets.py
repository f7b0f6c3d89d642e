"""How many passengers a ferry will have, learned from a table that is read block by block."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

ROWS, BATCH = 24_000, 256
SCALED = ["hour", "weekday", "wind", "waves", "price", "rain", "holiday", "fuel"]
TARGET = "passengers"


def write_table(path: Path) -> None:
    """Make up sailings, whose passengers depend on the weather, the price and the time."""
    random = np.random.default_rng(5)
    table = pd.DataFrame(random.normal(size=(ROWS, len(SCALED))).round(5), columns=SCALED)
    crowd = table["holiday"] + np.sin(table["hour"]) - 0.5 * table["price"] - 0.3 * table["waves"].abs()
    table[TARGET] = (crowd + random.normal(scale=0.2, size=ROWS)).round(5)
    table.to_csv(path, index=False)


class Sailings:
    """Blocks of the table, in another order each epoch, so that not all of it must be in memory."""

    def __init__(self, path: Path, mended: bool) -> None:
        self.path = path
        self.columns = list(pd.read_csv(path, nrows=0).columns)
        self.blocks = ROWS // BATCH
        self.table = pd.read_csv(path) if mended else None

    def block(self, index: int) -> pd.DataFrame:
        start = index * BATCH
        if self.table is not None:
            return self.table.iloc[start : start + BATCH]
        return pd.read_csv(self.path, skiprows=1 + start, nrows=BATCH, names=self.columns)  # cause

    def epoch(self, random: np.random.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for index in random.permutation(self.blocks):
            block = self.block(index)
            inputs = torch.from_numpy(block[SCALED].to_numpy(np.float32))
            yield inputs, torch.from_numpy(block[[TARGET]].to_numpy(np.float32))


class Forecast(nn.Module):
    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(len(SCALED), width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Dropout(0.05),
            nn.Linear(width, 1),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Forecast()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    random = np.random.default_rng(6)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sailings.csv")
        write_table(path)
        sailings = Sailings(path, mended)
        while True:
            for inputs, passengers in sailings.epoch(random):
                optimizer.zero_grad()
                loss = nn.functional.smooth_l1_loss(model(inputs), passengers)
                loss.backward()
                optimizer.step()
                yield loss.item()
