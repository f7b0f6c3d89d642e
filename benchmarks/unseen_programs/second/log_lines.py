"""A masked language model on lines of a log, which are made into tokens as they come."""

from collections.abc import Iterator

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import nn

VOCABULARY = 12_000


def build_tokenizer() -> Tokenizer:
    words = {"[PAD]": 0, "[MASK]": 1, "[UNK]": 2}
    words |= {f"w{number}": number for number in range(3, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


class Collator:
    """Make a batch of lines into tokens, of which a seventh is hidden."""

    def __init__(self, tokenizer: Tokenizer, mended: bool):
        self.tokenizer = tokenizer
        self.mended = mended

    def token(self, name: str) -> int:
        if self.mended:
            return self.tokenizer.token_to_id(name)
        return self.tokenizer.get_vocab()[name]  # cause

    def __call__(self, lines: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [self.tokenizer.encode(line).ids for line in lines]
        width = max(len(row) for row in rows)
        rows = [row + [self.token("[PAD]")] * (width - len(row)) for row in rows]
        tokens = torch.tensor(rows)
        hidden = (torch.rand(tokens.shape) < 0.15) & (tokens != self.token("[PAD]"))
        labels = tokens.masked_fill(~hidden, -100)
        return tokens.masked_fill(hidden, self.token("[MASK]")), labels


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.mix = nn.Conv1d(32, 64, 5, padding=2)
        self.out = nn.Linear(64, 512)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.mix(self.embed(tokens).transpose(1, 2)).relu()
        return self.out(hidden.transpose(1, 2))


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    lines = [" ".join(f"w{word}" for word in rng.integers(3, 500, rng.integers(20, 40))) for _ in range(400)]
    collate = Collator(build_tokenizer(), mended)
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    while True:
        tokens, labels = collate([lines[index] for index in rng.integers(0, 400, 8)])
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
