"""A recommender that learns a vector for each user and each article from clicks."""

from collections.abc import Iterator

import torch
from torch import nn

USERS, ARTICLES, WIDTH = 150_000, 50_000, 32


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    users = nn.Embedding(USERS, WIDTH, sparse=mended)  # cause
    articles = nn.Embedding(ARTICLES, WIDTH, sparse=True)
    head = nn.Sequential(nn.Linear(2 * WIDTH, 64), nn.ReLU(), nn.Linear(64, 1))
    parts = nn.ModuleList([users, articles, head])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1)
    while True:
        who = torch.randint(0, USERS, (256,))
        what = torch.randint(0, ARTICLES, (256,))
        clicked = ((who + what) % 2).float()
        score = head(torch.cat([users(who), articles(what)], 1))[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(score, clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
