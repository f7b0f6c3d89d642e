"""Speech recognition with CTC, which prints how many letters of the batch were right."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

ALPHABET = "-abcdefghijklmnopqrstuvwxyz '"
BLANK, FRAMES, MELS = 0, 160, 40


class Recognizer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(MELS, 40, 5, padding=2)
        self.middle = nn.Conv1d(40, 40, 5, padding=2)
        self.letters = nn.Linear(40, len(ALPHABET))

    def forward(self, mels: torch.Tensor) -> torch.Tensor:
        hidden = functional.relu(self.middle(functional.relu(self.front(mels))))
        return self.letters(hidden.transpose(1, 2)).log_softmax(-1)


def transcribe(path: torch.Tensor, mended: bool) -> str:
    """Merge repeated letters and drop blanks."""
    text, previous = "", BLANK
    symbols = path.tolist() if mended else path
    for symbol in symbols:
        if symbol != previous and symbol != BLANK:  # cause
            text += ALPHABET[symbol]
        previous = symbol
    return text


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(1)
    model = Recognizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    batch, spoken = 16, 20
    while True:
        mels = torch.randn(batch, MELS, FRAMES)
        targets = torch.randint(1, len(ALPHABET), (batch, spoken))
        log_probs = model(mels)
        loss = functional.ctc_loss(
            log_probs.transpose(0, 1),
            targets,
            torch.full((batch,), FRAMES),
            torch.full((batch,), spoken),
            blank=BLANK,
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        right = 0
        for path, target in zip(log_probs.argmax(-1), targets, strict=True):
            heard = transcribe(path, mended)
            wanted = "".join(ALPHABET[letter] for letter in target.tolist())
            right += sum(a == b for a, b in zip(heard, wanted, strict=False))
        yield loss.item() + 0.0 * right
