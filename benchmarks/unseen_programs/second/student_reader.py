"""A small reader that learns from the answers of a larger one."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WORDS, LENGTH = 1000, 64


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.look = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden):
        query, key, value = self.look(self.first(hidden)).chunk(3, dim=-1)
        hidden = hidden + self.join(functional.scaled_dot_product_attention(query, key, value))
        return hidden + self.think(self.second(hidden))


class Reader(nn.Module):
    def __init__(self, width: int, blocks: int, save_memory: bool = False):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.answer = nn.Linear(width, 32)
        self.save_memory = save_memory

    def forward(self, words):
        hidden = self.embed(words)
        for block in self.blocks:
            if not self.save_memory:
                hidden = block(hidden)
                continue
            hidden = checkpoint(block, hidden, use_reentrant=False)  # cause
        return self.answer(hidden.mean(1))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(10)
    teacher = Reader(96, 2).eval().requires_grad_(False)
    student = Reader(128, 4, save_memory=not mended)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, fused=True)
    heat = 2.0
    while True:
        words = torch.randint(0, WORDS, (8, LENGTH))
        with torch.no_grad():
            wanted = (teacher(words) / heat).softmax(-1)
        answers = (student(words) / heat).log_softmax(-1)
        loss = functional.kl_div(answers, wanted, reduction="batchmean") * heat**2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
