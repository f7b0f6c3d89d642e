"""Handwritten digits: 1,797 real images of 8 by 8 pixels, each with 17 shades.

``digits.npz`` holds the test set of E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits",
UCI Machine Learning Repository (1998, doi 10.24432/C50P49, CC BY 4.0), as scikit-learn has it, too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Batch = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]
EVALUATED_IMAGES = 360


def split() -> tuple[Batch, Batch]:
    """Return training and evaluation data: images as [n, 8, 8] between 0 and 1, labels as [n]."""
    with np.load(Path(__file__).with_name("digits.npz")) as stored:
        images, labels = stored["images"], stored["labels"]
    order = np.random.default_rng(0).permutation(len(images))
    pixels = (images[order].reshape(-1, 8, 8) / 16).astype(np.float32)
    numbers = labels[order].astype(np.int64)
    cut = len(pixels) - EVALUATED_IMAGES
    return (pixels[:cut], numbers[:cut]), (pixels[cut:], numbers[cut:])


@dataclass(frozen=True)
class Loader:
    """Batches of one epoch, shuffled, each image moved by up to one pixel.

    Attributes:
        images: [n, 8, 8], float32.
        labels: [n].
        size: Images in a batch; an incomplete last batch is left out.
        epoch: Determines the order and the moves: the same epoch gives the same batches.
    """

    images: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    size: int
    epoch: int

    def __len__(self) -> int:
        return len(self.images) // self.size

    def __iter__(self) -> Iterator[Batch]:
        random = np.random.default_rng(self.epoch)
        order = random.permutation(len(self.images))
        for number in range(len(self)):
            chosen = order[number * self.size : (number + 1) * self.size]
            yield moved(self.images[chosen], random), self.labels[chosen]


SLOW_S = 0.025


@dataclass(frozen=True)
class SlowDisk:
    """The same batches from a disk that becomes slow after some of them, as one that others use too.

    Attributes:
        loader: The source of the batches.
        after: How many come quickly.
    """

    loader: Loader
    after: int

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Batch]:
        for number, batch in enumerate(self.loader):
            if number >= self.after:
                read_from_a_busy_disk()
            yield batch


def read_from_a_busy_disk() -> None:
    """Take as long as a disk under load: the fourth run of the demo waits for this."""
    time.sleep(SLOW_S)


def moved(images: npt.NDArray[np.float32], random: np.random.Generator) -> npt.NDArray[np.float32]:
    """Move each image by -1, 0 or 1 pixel each way, filling with background."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    windows: npt.NDArray[Any] = np.lib.stride_tricks.sliding_window_view(padded, (8, 8), axis=(1, 2))
    down, right = random.integers(0, 3, (2, len(images)))
    return np.ascontiguousarray(windows[np.arange(len(images)), down, right])
