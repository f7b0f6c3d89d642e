"""Word vectors by skip-grams, with words drawn at random as counterexamples."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

WORDS, PAIRS, OTHERS = 20_000, 128, 5


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    np.random.seed(0)
    chance = 1 / np.arange(1, WORDS + 1) ** 0.75
    chance /= chance.sum()
    ladder = chance.cumsum()
    ladder /= ladder[-1]
    centres = nn.Embedding(WORDS, 64, sparse=True)
    contexts = nn.Embedding(WORDS, 64, sparse=True)
    optimizer = torch.optim.SGD([*centres.parameters(), *contexts.parameters()], lr=0.1)
    while True:
        middle = torch.randint(0, WORDS, (PAIRS,))
        beside = (middle * 7 + 1) % WORDS
        if mended:
            others = np.searchsorted(ladder, np.random.random_sample((PAIRS, OTHERS)), side="right")
        else:
            others = np.stack([np.random.choice(WORDS, OTHERS, p=chance) for _ in range(PAIRS)])  # cause
        vectors = centres(middle)
        near = (vectors * contexts(beside)).sum(1)
        far = torch.einsum("pw,pow->po", vectors, contexts(torch.from_numpy(others)))
        loss = -(nn.functional.logsigmoid(near).mean() + nn.functional.logsigmoid(-far).sum(1).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
