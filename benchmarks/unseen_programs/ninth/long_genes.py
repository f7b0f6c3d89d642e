"""Attention without softmax over long strings of bases, to find where genes begin."""

from collections.abc import Iterator

import torch
from torch import nn

LENGTH, WIDTH, HEADS = 768, 64, 4


class Attention(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.mended = mended
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, bases: torch.Tensor) -> torch.Tensor:
        parts = self.project(bases).view(len(bases), LENGTH, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        query, key = nn.functional.elu(query) + 1, nn.functional.elu(key) + 1
        key = key.transpose(2, 3)
        mixed = query @ (key @ value) if self.mended else (query @ key) @ value  # cause
        return self.out(mixed.transpose(1, 2).reshape(len(bases), LENGTH, WIDTH) / LENGTH)


class Block(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.attend, self.norm = Attention(mended), nn.LayerNorm(WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, bases: torch.Tensor) -> torch.Tensor:
        bases = bases + self.attend(self.norm(bases))
        return bases + self.think(bases)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    embed, blocks = nn.Embedding(4, WIDTH), nn.Sequential(Block(mended), Block(mended))
    head = nn.Linear(WIDTH, 2)
    parameters = [value for part in (embed, blocks, head) for value in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4)
    while True:
        strings = torch.randint(0, 4, (2, LENGTH))
        begins = (strings == 0) & (strings.roll(-1, 1) == 3)
        scores = head(blocks(embed(strings)))
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), begins.long().flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
