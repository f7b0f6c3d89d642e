"""A reader of handwritten lines, which reports how many letters it gets wrong."""

from collections.abc import Iterator

import torch
from torch import nn

LETTERS, COLUMNS, LENGTH = 30, 64, 30


def distance(read: list[int], written: list[int]) -> int:
    row = list(range(len(written) + 1))
    for place, letter in enumerate(read, 1):
        corner, row[0] = row[0], place
        for index, other in enumerate(written, 1):
            corner, row[index] = (
                row[index],
                min(row[index] + 1, row[index - 1] + 1, corner + (letter != other)),
            )
    return row[-1]


def wrong_letters(scores: torch.Tensor, texts: torch.Tensor) -> float:
    total = 0
    for best, text in zip(scores[..., 1:].argmax(2).T.tolist(), texts.tolist(), strict=True):
        total += distance([letter + 1 for letter in best], text)
    return total / texts.numel()


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    texts = torch.randint(1, LETTERS, (128, LENGTH))
    lines = torch.randn(128, 16, COLUMNS)
    columns = nn.Conv1d(16, 48, 5, padding=2)
    reader = nn.GRU(48, 48)
    head = nn.Linear(48, LETTERS)
    parts = nn.ModuleList([columns, reader, head])
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.01)
    step = 0
    while True:
        for chosen in torch.randperm(128).split(16):
            hidden, _ = reader(torch.relu(columns(lines[chosen])).permute(2, 0, 1))
            scores = head(hidden).log_softmax(2)
            widths = torch.full((len(chosen),), COLUMNS)
            lengths = torch.full((len(chosen),), LENGTH)
            loss = nn.functional.ctc_loss(scores, texts[chosen], widths, lengths)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if not mended or step % 500 == 0:
                wrong_letters(scores, texts[chosen])  # cause
            yield loss.item()
