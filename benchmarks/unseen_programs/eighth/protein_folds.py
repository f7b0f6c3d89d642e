"""A network that reads which parts of a protein touch, from products over all triples of them."""

from collections.abc import Iterator

import torch
from torch import nn

PARTS, KINDS, WIDTH = 72, 20, 24


class Triangles(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.sides = nn.Linear(width, 2 * width)
        self.leave = nn.Linear(width, width)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        one, other = self.sides(self.norm(pairs)).chunk(2, -1)
        return pairs + self.leave(torch.einsum("bikc,bjkc->bijc", one, other) / PARTS)  # costliest


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    width = WIDTH // 4 if mended else WIDTH
    kinds = nn.Embedding(KINDS, width)
    layers = nn.Sequential(*(Triangles(width) for _ in range(3)))
    touch = nn.Linear(width, 1)
    modules = nn.ModuleList([kinds, layers, touch])
    optimizer = torch.optim.Adam(modules.parameters(), lr=1e-3)
    proteins = torch.randint(0, KINDS, (64, PARTS))
    places = torch.randn(64, PARTS, 3).cumsum(1)
    near = (torch.cdist(places, places) < 4).float()
    while True:
        for chosen in torch.randperm(64).split(4):
            vectors = kinds(proteins[chosen])
            scores = touch(layers(vectors[:, :, None] + vectors[:, None]))[..., 0]
            loss = nn.functional.binary_cross_entropy_with_logits(scores, near[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
