"""A small transformer encoder that sorts short messages by topic."""

from collections.abc import Iterator

import torch
from torch import nn

MAX_LENGTH = 192


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2000, 64, padding_idx=0)
        self.places = nn.Embedding(MAX_LENGTH, 64)
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        blank = tokens == 0
        states = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        states = self.encoder(states, src_key_padding_mask=blank)
        weights = (~blank).float().unsqueeze(-1)
        return self.head((states * weights).sum(1) / weights.sum(1))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    messages = [torch.randint(1, 2000, (int(size),)) for size in torch.randint(5, 40, (256,))]
    topics = torch.randint(0, 5, (256,))
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def collate(rows: list[torch.Tensor]) -> torch.Tensor:
        width = max(len(row) for row in rows) if mended else MAX_LENGTH  # cause
        batch = torch.zeros(len(rows), width, dtype=torch.long)
        for place, row in enumerate(rows):
            batch[place, : len(row)] = row
        return batch

    while True:
        for chosen in torch.randperm(256).split(8):
            tokens = collate([messages[index] for index in chosen])
            loss = nn.functional.cross_entropy(model(tokens), topics[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
