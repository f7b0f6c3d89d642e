"""An image classifier that waits for its data, and the same with the fix.

``python examples/input_bound.py [RUN_DIRECTORY] [--steps N]`` decodes every picture each time it is wanted;
``python examples/input_bound.py runs/input-fixed --fixed`` decodes each once. Then ``stepscope serve runs``.

The page then shows the finding "Waiting for data" on the first run, with the share of its time that it
waits, and not on the second.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits
from torch import Tensor, nn

import stepscope as ss
from stepscope.integrations.torch import watch


def files() -> tuple[list[bytes], Tensor]:
    """Return the digits as large encoded pictures, as a data set on a disk has them, and their labels."""
    digits = load_digits()
    encoded = []
    for image in digits.images[:512]:
        buffer = io.BytesIO()
        Image.fromarray((image * 15).astype(np.uint8)).resize((256, 256)).save(buffer, "PNG")
        encoded.append(buffer.getvalue())
    return encoded, torch.from_numpy(digits.target[:512])


def decode(picture: bytes) -> Tensor:
    """Return one picture, [1, 16, 16], 0 to 1."""
    small = Image.open(io.BytesIO(picture)).resize((16, 16))
    return torch.from_numpy(np.asarray(small, np.float32) / 255)[None]


def batches(
    pictures: list[bytes], labels: Tensor, size: int, steps: int, *, fixed: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield images and labels; ``fixed`` decodes every picture once, before the first step."""
    decoded = torch.stack([decode(picture) for picture in pictures]) if fixed else None
    for _ in range(steps):
        chosen = torch.randint(len(pictures), (size,))
        images = torch.stack([decode(pictures[at]) for at in chosen]) if decoded is None else decoded[chosen]
        yield images, labels[chosen]


def main(directory: str, steps: int, *, fixed: bool) -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    hooks = [ss.StepCounterHook(every_n_steps=20), ss.HealthHook(), ss.ProfilerHook(save_steps=100)]
    with ss.Run(directory, config={"fixed": fixed}, hooks=hooks, total_steps=steps) as run:
        watch(model, optimizer, run)
        data = batches(*files(), 32, steps, fixed=fixed)
        for images, labels in run.steps(data):
            scores = model(images.to(device))
            loss = nn.functional.cross_entropy(scores, labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.count(examples=len(labels))
            run.scalar("train/loss", loss)
            run.scalar("train/accuracy", (scores.argmax(1) == labels.to(device)).float().mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default="runs/input-bound")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--fixed", action="store_true")
    main(**vars(parser.parse_args()))
