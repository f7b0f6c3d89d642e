"""A run that resumes: the second attempt goes on where the checkpoint is, and nothing of the first is lost.

``python examples/resume.py [RUN_DIRECTORY]``. The first attempt gets to step 150, its last checkpoint is at
step 100: on the page the steps from 100 to 150 of the first attempt stay to be seen, drawn faintly.
"""

from __future__ import annotations

import math
import sys

import stepscope as ss

CHECKPOINT = 100


def train(directory: str, *, first: int, last: int) -> None:
    with ss.Run(directory, start_step=first, total_steps=200) as run:
        for step in run.steps(range(first, last)):
            run.scalar("train/loss", math.exp(-step / 80) + 0.02 * math.sin(step))


def main(directory: str = "runs/resumed") -> None:
    train(directory, first=0, last=150)
    train(directory, first=CHECKPOINT, last=200)


if __name__ == "__main__":
    main(*sys.argv[1:])
