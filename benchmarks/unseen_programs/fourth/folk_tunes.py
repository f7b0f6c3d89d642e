"""A transformer that continues folk tunes note by note."""

from collections.abc import Iterator

import torch
from torch import nn

NOTES, LENGTH, WIDTH = 64, 96, 64


def later_notes(length: int) -> torch.Tensor:
    mask = torch.zeros(length, length, dtype=torch.bool)
    for row in range(length):
        for column in range(row + 1, length):
            mask[row, column] = True
    return mask


class Composer(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.notes = nn.Embedding(NOTES, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, NOTES)
        self.mask = later_notes(LENGTH) if mended else None

    def forward(self, tune: torch.Tensor) -> torch.Tensor:
        hidden = self.notes(tune) + self.places(torch.arange(tune.shape[1]))
        mask = later_notes(tune.shape[1]) if self.mask is None else self.mask  # cause
        return self.head(self.layers(hidden, mask=mask))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    tunes = torch.randint(0, NOTES, (128, LENGTH + 1))
    model = Composer(mended)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    while True:
        for chosen in torch.randperm(128).split(4):
            scores = model(tunes[chosen, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), tunes[chosen, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
