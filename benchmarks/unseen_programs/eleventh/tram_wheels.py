"""When must a tram's wheels be turned? A tram's record has many named readings; all records are in memory."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

AXLES, KINDS, TRAMS, BATCH = 6, 8, 4096, 16
NAMES = [f"axle{axle}_{kind}" for axle in range(AXLES) for kind in range(KINDS)]


class Trams(Dataset):
    """Made-up readings by name, and how much is left of the wheels."""

    def __init__(self) -> None:
        random = torch.Generator().manual_seed(4)
        table = torch.randn(TRAMS, len(NAMES), generator=random)
        left = torch.tanh(table @ torch.randn(len(NAMES), generator=random) / 5)
        self.records = [dict(zip(NAMES, row, strict=True)) for row in table.tolist()]
        self.left = left.tolist()

    def __len__(self) -> int:
        return TRAMS

    def __getitem__(self, index: int) -> dict:
        return {**self.records[index], "left": self.left[index]}


class Order(Sampler):
    """Batches of trams in an order that depends on nothing but the seed, epoch after epoch."""

    def __iter__(self) -> Iterator[list[int]]:
        random = torch.Generator().manual_seed(9)
        while True:
            yield from torch.randperm(TRAMS, generator=random).view(-1, BATCH).tolist()


class Wear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(len(NAMES), 192), nn.SiLU(), nn.Linear(192, 192), nn.SiLU(), nn.Linear(192, 1)
        )

    def forward(self, readings: torch.Tensor) -> torch.Tensor:
        return self.layers(readings).squeeze(1)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    trams, model = Trams(), Wear()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    workers = 0 if mended else 2
    loader = DataLoader(trams, batch_sampler=Order(), num_workers=workers)  # cause
    for batch in loader:
        readings = torch.stack([batch[name] for name in NAMES], 1).float()
        loss = nn.functional.mse_loss(model(readings), batch["left"].float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
