"""A transformer learns to fill the gaps of worn inscriptions: 12 % of the syllables are hidden from it."""

from collections.abc import Iterator

import torch
from torch import nn

SYLLABLES, HIDDEN_ID, IGNORED = 5000, 0, -100
WIDTH, LENGTH, BATCH = 96, 64, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        normed = self.first(values)
        values = values + self.attend(normed, normed, normed, need_weights=False)[0]
        return values + self.think(self.second(values))


class Restorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(SYLLABLES, WIDTH)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, SYLLABLES)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        return self.norm(self.blocks(self.embed(texts) + self.place))


class Inscriptions:
    """Made-up inscriptions, in which each syllable depends on the one before it."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.follow = torch.randint(1, SYLLABLES, (SYLLABLES, 3), generator=self.generator)

    def batch(self) -> torch.Tensor:
        texts = torch.randint(1, SYLLABLES, (BATCH, LENGTH), generator=self.generator)
        choice = torch.randint(0, 3, (BATCH, LENGTH), generator=self.generator)
        for place in range(1, LENGTH, 2):
            texts[:, place] = self.follow[texts[:, place - 1], choice[:, place]]
        return texts

    def masked(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Give the texts with gaps, and what belongs there; the rest of it is ignored by the loss."""
        texts = self.batch()
        gaps = torch.rand(texts.shape, generator=self.generator) < 0.12
        return texts.masked_fill(gaps, HIDDEN_ID), texts.masked_fill(~gaps, IGNORED)


def objective(model: Restorer, texts: torch.Tensor, targets: torch.Tensor, mended: bool) -> torch.Tensor:
    hidden, targets = model(texts).flatten(0, 1), targets.flatten()
    if mended:
        gaps = targets != IGNORED
        hidden, targets = hidden[gaps], targets[gaps]
    scores = model.head(hidden)  # cause
    return nn.functional.cross_entropy(scores, targets, ignore_index=IGNORED)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Restorer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=50)
    inscriptions = Inscriptions(seed=3)
    while True:
        texts, targets = inscriptions.masked()
        optimizer.zero_grad()
        loss = objective(model, texts, targets, mended)
        loss.backward()
        optimizer.step()
        warmup.step()
        yield loss.item()
