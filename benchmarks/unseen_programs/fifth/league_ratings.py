"""Ratings of the teams of a league, learnt from the results of their games."""

from collections.abc import Iterator

import torch

TEAMS = 60


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    home, away = torch.randint(0, TEAMS, (2, 4096))
    strengths = torch.randn(TEAMS)
    won = (torch.rand(4096) < torch.sigmoid(strengths[home] - strengths[away])).float()
    table = torch.zeros(TEAMS, requires_grad=True)
    ratings = {team: torch.zeros((), requires_grad=True) for team in range(TEAMS)}
    optimizer = torch.optim.SGD([table] if mended else [*ratings.values()], lr=0.5)
    while True:
        for games in torch.randperm(4096).split(64):
            if mended:
                ahead = table[home[games]] - table[away[games]]
            else:
                pairs = zip(home[games].tolist(), away[games].tolist(), strict=True)
                ahead = torch.stack([ratings[host] - ratings[guest] for host, guest in pairs])  # cause
            loss = torch.nn.functional.binary_cross_entropy_with_logits(ahead, won[games])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
