"""Where a flock of cranes rests next: attention over the fixes of its transmitters."""

from collections.abc import Iterator

import torch
from torch import nn

FIXES, READINGS, WIDTH, HEADS, PLACES, BATCH = 320, 6, 64, 8, 10, 2


class Block(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.mended = mended
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, route: torch.Tensor) -> torch.Tensor:
        seen = self.before(route)
        if self.mended:
            change, _ = self.attention(seen, seen, seen, need_weights=False)
        else:
            change, _ = self.attention(seen, seen, seen)  # cause
        route = route + change
        return route + self.feed(self.after(route))


class Flights(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.enter = nn.Linear(READINGS, WIDTH)
        self.moments = nn.Parameter(0.02 * torch.randn(FIXES, WIDTH))
        self.blocks = nn.Sequential(Block(mended), Block(mended))
        self.leave = nn.Linear(WIDTH, PLACES)

    def forward(self, fixes: torch.Tensor) -> torch.Tensor:
        return self.leave(self.blocks(self.enter(fixes) + self.moments).mean(1))


def flights(random: torch.Generator) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Make up routes that drift toward one of the places."""
    toward = torch.randn(PLACES, READINGS, generator=random)
    while True:
        place = torch.randint(PLACES, (BATCH,), generator=random)
        steps = torch.randn(BATCH, FIXES, READINGS, generator=random) + 0.2 * toward[place][:, None]
        yield steps.cumsum(1) / FIXES**0.5, place


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Flights(mended)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for fixes, place in flights(torch.Generator().manual_seed(1)):
        loss = nn.functional.cross_entropy(model(fixes), place)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
