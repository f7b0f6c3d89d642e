"""The training that the demo shows, the same in every framework."""

from __future__ import annotations

import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from stepscope.demo import digits
from stepscope.errors import UsageError
from stepscope.record import Run

FRAMEWORKS = ("torch", "jax", "numpy")
"""In order of preference."""
BATCH_SIZE = 64
WARMUP_STEPS = 60


class Trainer(Protocol):
    """A model with its optimizer. Losses and the like stay what the framework returns: logging copes."""

    name: str
    parameters: int

    def step(self, images: Any, labels: Any, learning_rate: float) -> tuple[Any, Any, Any]:
        """Train on one batch; return mean loss in nats, accuracy and the gradient's norm."""

    def evaluate(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return mean loss in nats and accuracy."""


def choose(wanted: str) -> str:
    """Return the framework to train with.

    Raises:
        UsageError: The wanted one is not installed.
    """
    if wanted == "auto":
        return next(name for name in FRAMEWORKS if find_spec(name))
    if not find_spec(wanted):
        raise UsageError(
            f"{wanted} is not installed",
            hint=f"pip install {wanted}, or leave --framework out to take what is there",
        )
    return wanted


def make_trainer(framework: str, seed: int = 0) -> Trainer:
    """Return a fresh model."""
    trainer: Trainer = import_module(f"stepscope.demo.{framework}_model").Classifier(seed)
    return trainer


def train(directory: Path, framework: str, *, learning_rate: float, epochs: int) -> float:
    """Train one model and record it in a directory of its own.

    Args:
        directory: The run's directory.
        framework: One of FRAMEWORKS.
        learning_rate: Its peak, after a linear warm-up; it falls to 0 along a cosine.
        epochs: Passes over the training data.

    Returns:
        Accuracy on the images held out, 0 to 1.
    """
    (images, labels), held_out = digits.split()
    trainer = make_trainer(framework)
    total = epochs * len(digits.Loader(images, labels, BATCH_SIZE, 0))
    config = {
        "learning_rate": learning_rate,
        "batch_size": BATCH_SIZE,
        "epochs": epochs,
        "model": trainer.name,
        "parameters": trainer.parameters,
        "optimizer": "adam",
        "framework": framework,
    }
    with Run(directory, config=config, tags=["demo"], total_steps=total) as run:
        accuracy: Any = 0.0
        for epoch in range(epochs):
            for batch in run.steps(digits.Loader(images, labels, BATCH_SIZE, epoch)):
                rate = learning_rate * schedule(run.current_step or 0, total)
                loss, correct, norm = trainer.step(*batch, rate)
                run.scalar("train/loss", loss)
                run.scalar("train/accuracy", correct)
                run.scalar("train/gradient_norm", norm)
                run.scalar("train/learning_rate", rate)
            loss, accuracy = trainer.evaluate(*held_out)
            run.scalars({"eval/loss": loss, "eval/accuracy": accuracy})
    return float(accuracy)


def schedule(step: int, total: int) -> float:
    """Share of the peak learning rate: up along a line, down along a cosine."""
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP_STEPS) / max(1, total - WARMUP_STEPS)))
