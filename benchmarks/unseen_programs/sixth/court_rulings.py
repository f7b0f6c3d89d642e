"""A classifier of court rulings by the words in them."""

import re
from collections.abc import Iterator

import torch
from torch import nn

WORDS, KINDS, LENGTH = 400, 5, 60


def numbers(ruling: str) -> list[int]:
    found = re.findall(r"[a-z]+(\d+)", ruling.lower())
    return [int(one) for one in found if int(one) < WORDS][:LENGTH]


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    drawn = torch.randint(0, WORDS, (512, LENGTH))
    kinds = drawn.sum(1) % KINDS
    rulings = [" ".join(f"Word{number}, §{number % 9}" for number in row) for row in drawn.tolist()]
    ready = torch.tensor([numbers(ruling) for ruling in rulings])
    words, head = (
        nn.EmbeddingBag(WORDS, 64),
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, KINDS)),
    )
    parts = nn.ModuleList([words, head])
    optimizer = torch.optim.Adam(parts.parameters(), lr=1e-3)
    while True:
        for chosen in torch.randperm(512).split(64):
            rows = ready[chosen].tolist() if mended else [numbers(rulings[one]) for one in chosen]  # cause
            batch = torch.tensor(rows)
            loss = nn.functional.cross_entropy(head(words(batch)), kinds[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
