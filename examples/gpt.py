"""A small GPT that learns letters from Python's own help pages, with the statistics of every layer.

``python examples/gpt.py [RUN_DIRECTORY] [--steps N]``, then ``stepscope serve runs``. It prints how long
it has left.

The page then shows train/loss and eval/loss on one chart falling from about 4.7, the logarithm of the number
of letters, tokens per second, and under Health no finding.
"""

from __future__ import annotations

import argparse
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import stepscope as ss
from stepscope.integrations.torch import watch


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_attention, self.norm_dense = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, future: Tensor) -> Tensor:
        normed = self.norm_attention(x)
        x = x + self.attention(normed, normed, normed, attn_mask=future, need_weights=False)[0]
        return x + self.dense(self.norm_dense(x))


class GPT(nn.Module):
    def __init__(self, letters: int, context: int, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.letters(tokens) + self.places(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            x = block(x, future)
        return self.head(self.norm(x))


def sample(text: Tensor, batch: int, context: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets, each [batch, context], from random places of the text."""
    starts = torch.randint(len(text) - context - 1, (batch, 1))
    windows = text[starts + torch.arange(context + 1)]
    return windows[:, :-1], windows[:, 1:]


def main(directory: str, steps: int, *, batch: int = 16, context: int = 64, lr: float = 1e-3) -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    written = "\n".join(topics[name] for name in sorted(topics))
    alphabet = {letter: number for number, letter in enumerate(sorted(set(written)))}
    text = torch.tensor([alphabet[letter] for letter in written], device=device)
    train, unseen = text[: -len(text) // 10], text[-len(text) // 10 :]

    model = GPT(len(alphabet), context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=steps // 10)

    def loss_of(data: Tensor) -> Tensor:
        inputs, targets = sample(data, batch, context)
        return cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    hooks = [
        ss.StepCounterHook(every_n_steps=20),
        ss.HealthHook(),
        ss.GradientHook(every_n_steps=50),
        ss.LoggingHook(every_n_steps=100),
    ]
    config = {"lr": lr, "batch": batch, "context": context, "letters": len(alphabet)}
    with ss.Run(directory, config=config, hooks=hooks) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(steps)):
            loss = loss_of(train)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            run.scalar("train/loss", loss)
            run.count(examples=batch, tokens=batch * context)
            if step % 25 == 0 or step == steps - 1:
                with torch.no_grad():
                    run.scalar("eval/loss", loss_of(unseen))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default="runs/gpt")
    parser.add_argument("--steps", type=int, default=1000)
    main(**vars(parser.parse_args()))
