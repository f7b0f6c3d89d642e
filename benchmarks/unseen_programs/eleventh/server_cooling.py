"""A network learns how warm a server room gets; the training machine's own load is noted, too."""

from collections.abc import Iterator

import psutil
import torch
from torch import nn

RACKS, SENSORS, HOURS, BATCH = 12, 10, 24, 64


class Room(nn.Module):
    """A recurrent network over the last day's readings."""

    def __init__(self) -> None:
        super().__init__()
        self.day = nn.GRU(SENSORS, 64, batch_first=True)
        self.racks = nn.Linear(64, RACKS)

    def forward(self, readings: torch.Tensor) -> torch.Tensor:
        _, last = self.day(readings)
        return self.racks(last[0])


class Journal:
    """The last losses, and how busy the machine and its memory were."""

    def __init__(self, mended: bool) -> None:
        self.interval = None if mended else 0.05
        self.rows: list[tuple[float, float, float]] = []
        psutil.cpu_percent()

    def note(self, loss: float) -> None:
        busy = psutil.cpu_percent(interval=self.interval)  # cause
        self.rows.append((loss, busy, psutil.virtual_memory().percent))
        del self.rows[:-100]


class Readings:
    """Made-up readings, whose trend warms some racks more than others."""

    def __init__(self) -> None:
        self.random = torch.Generator().manual_seed(8)
        self.warms = torch.randn(SENSORS, RACKS, generator=self.random)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        readings = torch.randn(BATCH, HOURS, SENSORS, generator=self.random)
        noise = torch.randn(BATCH, RACKS, generator=self.random)
        return readings, torch.tanh(readings[:, -6:].mean(1) @ self.warms) + 0.1 * noise


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model, readings, journal = Room(), Readings(), Journal(mended)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    while True:
        inputs, warmth = readings.batch()
        loss = nn.functional.mse_loss(model(inputs), warmth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        journal.note(loss.item())
        yield loss.item()
