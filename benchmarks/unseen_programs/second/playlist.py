"""Next tracks for playlists, with the share of hits among the best ten of all tracks."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

TRACKS, WIDTH, BEST = 12_000, 48, 10


class NextTrack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tracks = nn.Embedding(TRACKS, WIDTH)
        self.mix = nn.Sequential(nn.Linear(WIDTH, 128), nn.GELU(), nn.Linear(128, WIDTH))

    def forward(self, history: torch.Tensor) -> torch.Tensor:
        taste = self.tracks(history).mean(1)
        return self.mix(taste) @ self.tracks.weight.T


class HitRate:
    def __init__(self, mended: bool):
        self.mended = mended
        self.hits = self.seen = 0

    @torch.no_grad()
    def update(self, scores: torch.Tensor, played: torch.Tensor) -> None:
        if self.mended:
            best = scores.topk(BEST, dim=1).indices
        else:
            best = scores.argsort(dim=1, descending=True)[:, :BEST]  # cause
        self.hits += int((best == played[:, None]).any(1).sum())
        self.seen += len(played)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(5)
    model = NextTrack()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    hit_rate = HitRate(mended)
    while True:
        history = torch.randint(0, TRACKS, (48, 20))
        played = history[:, -1]
        scores = model(history)
        loss = functional.cross_entropy(scores, played)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hit_rate.update(scores, played)
        yield loss.item()
