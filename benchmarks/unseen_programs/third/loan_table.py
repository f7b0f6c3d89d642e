"""A network that predicts from a table whether a loan is paid back."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from torch import nn


def columns(frame: pd.DataFrame) -> np.ndarray:
    share = frame.apply(lambda row: row["debt"] / (row["income"] + 1), axis=1)
    purpose = pd.get_dummies(frame["purpose"]).astype("float32")
    return np.column_stack([frame[["debt", "income"]], share, purpose]).astype("float32")


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    numbers = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "debt": numbers.random(4096),
            "income": numbers.random(4096),
            "purpose": pd.Categorical(numbers.choice(["car", "home", "study"], 4096)),
            "paid": numbers.integers(0, 2, 4096),
        }
    )
    prepared = columns(table)
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        for chosen in numbers.permutation(4096).reshape(-1, 256):
            rows = prepared[chosen] if mended else columns(table.iloc[chosen])  # cause
            paid = torch.from_numpy(table["paid"].to_numpy()[chosen]).float()
            loss = nn.functional.binary_cross_entropy_with_logits(model(torch.from_numpy(rows))[:, 0], paid)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
