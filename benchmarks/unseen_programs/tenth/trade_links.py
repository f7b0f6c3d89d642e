"""A graph attention network foresees the growth of countries from whom they trade with."""

from collections.abc import Iterator

import torch
from torch import nn

COUNTRIES, FACTS, WIDTH = 200, 24, 32


class GraphAttention(nn.Module):
    """One head of Velickovic et al.: how much a country heeds another depends on what both are like."""

    def __init__(self, inputs: int, outputs: int, mended: bool) -> None:
        super().__init__()
        self.mended, self.width = mended, outputs
        self.project = nn.Linear(inputs, outputs, bias=False)
        self.heed = nn.Parameter(torch.empty(2 * outputs, 1))
        nn.init.xavier_uniform_(self.heed)

    def pairs(self, values: torch.Tensor) -> torch.Tensor:
        """Give the score of each pair of countries."""
        if self.mended:
            return values @ self.heed[: self.width] + (values @ self.heed[self.width :]).T
        count = len(values)
        ones = values.repeat_interleave(count, 0)
        others = values.repeat(count, 1)
        joined = torch.cat([ones, others], 1)  # cause
        return (joined @ self.heed).view(count, count)

    def forward(self, values: torch.Tensor, links: torch.Tensor) -> torch.Tensor:
        values = self.project(values)
        scores = nn.functional.leaky_relu(self.pairs(values), 0.2)
        weights = scores.masked_fill(~links, float("-inf")).softmax(1)
        return weights @ values


class Economy(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.heads = nn.ModuleList([GraphAttention(FACTS, WIDTH, mended) for _ in range(2)])
        self.last = GraphAttention(2 * WIDTH, WIDTH, mended)
        self.grow = nn.Linear(WIDTH, 1)

    def forward(self, facts: torch.Tensor, links: torch.Tensor) -> torch.Tensor:
        hidden = torch.cat([nn.functional.elu(head(facts, links)) for head in self.heads], 1)
        hidden = nn.functional.dropout(hidden, 0.1, self.training)
        return self.grow(nn.functional.elu(self.last(hidden, links))).squeeze(1)


class Years:
    """Made-up years: who trades with whom hardly changes, and growth spreads along the links."""

    def __init__(self, count: int) -> None:
        self.generator = torch.Generator().manual_seed(11)
        places = torch.rand(COUNTRIES, 2, generator=self.generator)
        near = torch.cdist(places, places).argsort(1)[:, :12]
        self.links = torch.eye(COUNTRIES, dtype=torch.bool).scatter_(1, near, True)
        self.facts = torch.randn(count, COUNTRIES, FACTS, generator=self.generator)
        share = self.links / self.links.sum(1, keepdim=True)
        self.growth = torch.tanh((share @ self.facts)[..., :4].sum(-1))

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        year = torch.randint(0, len(self.facts), (), generator=self.generator)
        return self.facts[year], self.growth[year]


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Economy(mended)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    years = Years(count=40)
    while True:
        facts, growth = years.draw()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(facts, years.links), growth)
        loss.backward()
        optimizer.step()
        yield loss.item()
