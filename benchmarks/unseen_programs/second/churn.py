"""Which customers leave: a network on a table with numbers and categories."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

NUMBERS = ["age", "months", "fee", "calls", "minutes", "tickets", "discount", "devices"]
CATEGORIES = {"plan": 6, "region": 12, "channel": 5}


def customers(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({name: rng.normal(size=rows).astype("float32") for name in NUMBERS})
    for name, count in CATEGORIES.items():
        table[name] = rng.integers(0, count, rows)
    table["left"] = (table["fee"] + table["tickets"] > 1).astype("int64")
    return table


class Table(Dataset):
    def __init__(self, table: pd.DataFrame, mended: bool):
        self.table = table
        self.mended = mended
        self.numbers = table[NUMBERS].to_numpy("float32")
        self.categories = table[list(CATEGORIES)].to_numpy("int64")
        self.left = table["left"].to_numpy("float32")

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        if self.mended:
            return self.numbers[index], self.categories[index], self.left[index]
        row = self.table.iloc[index]  # cause
        numbers = row[NUMBERS].to_numpy("float32")  # cause
        categories = row[list(CATEGORIES)].to_numpy("int64")  # cause
        return numbers, categories, np.float32(row["left"])


class ChurnModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(count, 8) for count in CATEGORIES.values())
        self.layers = nn.Sequential(
            nn.Linear(len(NUMBERS) + 8 * len(CATEGORIES), 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU()
        )
        self.out = nn.Linear(64, 1)

    def forward(self, numbers, categories):
        parts = [embed(categories[:, place]) for place, embed in enumerate(self.embeddings)]
        return self.out(self.layers(torch.cat([numbers, *parts], dim=1))).squeeze(1)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(3)
    loader = DataLoader(Table(customers(5000), mended), batch_size=64, shuffle=True, drop_last=True)
    model = ChurnModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        for numbers, categories, left in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(numbers, categories), left)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
