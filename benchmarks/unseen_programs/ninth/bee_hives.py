"""An autoencoder of the hum of bee hives, which keeps its history in a file."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn


class History:
    """All that was logged, in a file that other programs read."""

    def __init__(self, path: Path, every: int) -> None:
        self.path, self.every = path, every
        self.rows: list[dict] = []

    def add(self, **values: object) -> None:
        self.rows.append(values)
        if len(self.rows) % self.every == 0:
            with self.path.open("w") as file:
                json.dump(self.rows, file, indent=2)  # cause


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    code = nn.Sequential(nn.Linear(256, 96), nn.GELU(), nn.Linear(96, 12))
    decode = nn.Sequential(nn.Linear(12, 96), nn.GELU(), nn.Linear(96, 256))
    optimizer = torch.optim.RMSprop([*code.parameters(), *decode.parameters()], lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder, "history.json"), every=1000 if mended else 1)
        step = 0
        while True:
            hums = torch.randn(128, 256).cumsum(1) / 16
            loss = (decode(code(hums)) - hums).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            value = loss.item()
            history.add(step=step, loss=value, lr=1e-3, bands=hums.mean(0).round(decimals=3).tolist())
            step += 1
            yield value
