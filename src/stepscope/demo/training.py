"""The training that the demo shows, the same in every framework."""

from __future__ import annotations

import math
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from stepscope.capture import ProfilerHook
from stepscope.demo import digits
from stepscope.errors import UsageError
from stepscope.record import Run
from stepscope.record.hooks import Hook
from stepscope.record.hooks.health import HealthHook
from stepscope.record.hooks.progress import StepCounterHook
from stepscope.record.hooks.system import SystemHook
from stepscope.record.statistics import GradientHook

FRAMEWORKS = ("torch", "jax", "numpy")
"""In order of preference."""
BATCH_SIZE = 64
WARMUP_STEPS = 60
HISTOGRAM_STEPS = 10
SHOWN_IMAGES = 12


class Trainer(Protocol):
    """A model with its optimizer. Losses stay as the framework returns them: logging accepts that."""

    name: str
    parameters: int

    def step(self, images: Any, labels: Any, learning_rate: float) -> tuple[Any, Any, Any]:
        """Train on one batch; return mean loss in nats, accuracy and the gradient's norm.

        The norm is None if the run records it, and the learning rate, by itself.
        """

    def evaluate(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return mean loss in nats and accuracy."""

    def chances(self, images: Any) -> tuple[Any, Any]:
        """Return the probability of each number, [n, 10], and the last hidden layer, [n, units]."""

    def tensors(self) -> dict[str, Any]:
        """Return its weights by name, unless the run records them by itself."""

    def watch(self, run: Run) -> None:
        """Have the run watch the model, if the framework has something to watch it with."""

    def record_graph(self, run: Run, images: Any) -> None:
        """Record the model's graph and the costs of its operations, if known."""


def choose(wanted: str) -> str:
    """Return the framework to train with.

    Raises:
        UsageError: The requested one is not installed.
    """
    if wanted == "auto":
        return next(name for name in FRAMEWORKS if find_spec(name))
    if not find_spec(wanted):
        raise UsageError(
            f"{wanted} is not installed",
            hint=f"pip install {wanted}, or leave --framework out to take what is there",
        )
    return wanted


def make_trainer(framework: str) -> Trainer:
    """Return a fresh model."""
    trainer: Trainer = import_module(f"stepscope.demo.{framework}_model").Classifier(0)
    return trainer


def train(
    directory: Path, framework: str, *, learning_rate: float, epochs: int, slow_from: int | None = None
) -> float:
    """Train one model and record it in a directory of its own.

    Args:
        directory: The run's directory.
        framework: One of FRAMEWORKS.
        learning_rate: Its peak, after a linear warm-up; it falls to 0 along a cosine.
        epochs: Passes over the training data.
        slow_from: First step whose data comes from a slow disk; None: never.

    Returns:
        Accuracy on the held-out images, 0 to 1.
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
    taking_part = hooks(framework, slow=slow_from is not None)
    with Run(directory, config=config, tags=["demo"], total_steps=total, hooks=taking_part) as run:
        trainer.record_graph(run, images[:BATCH_SIZE])
        trainer.watch(run)
        accuracy: Any = 0.0
        for epoch in range(epochs):
            loader = digits.Loader(images, labels, BATCH_SIZE, epoch)
            left = total if slow_from is None else max(0, slow_from - epoch * len(loader))
            for batch in run.steps(digits.SlowDisk(loader, left)):
                rate = learning_rate * schedule(run.current_step or 0, total)
                loss, correct, norm = trainer.step(*batch, rate)
                run.scalar("train/loss", loss)
                run.scalar("train/accuracy", correct)
                if norm is not None:
                    run.scalars({"train/gradient_norm": norm, "train/learning_rate": rate})
                run.count(examples=BATCH_SIZE)
                if (run.current_step or 0) % HISTOGRAM_STEPS == 0:
                    for name, tensor in trainer.tensors().items():
                        run.histogram(f"weights/{name}", tensor)
            loss, accuracy = trainer.evaluate(*held_out)
            run.scalars({"eval/loss": loss, "eval/accuracy": accuracy})
            show_guesses(run, trainer, held_out, last=epoch == epochs - 1)
    return float(accuracy)


def steps_per_epoch() -> int:
    """Return the number of batches in one pass over the training data."""
    (images, labels), _ = digits.split()
    return len(digits.Loader(images, labels, BATCH_SIZE, 0))


def hooks(framework: str, *, slow: bool = False) -> list[Hook]:
    """Return the hooks of the demo: speed, system, health, and profiles if there is a profiler.

    Of the run that becomes slow, steps are captured when that is noticed, with their lines of Python.
    """
    profiled = framework != "numpy"
    health = HealthHook(capture=slow and profiled)
    chosen: list[Hook] = [StepCounterHook(every_n_steps=20), SystemHook(every_secs=1), health]
    if profiled:
        chosen.append(ProfilerHook(save_steps=400, max_profiles=2, with_stack=slow))
    if framework == "torch":
        chosen.append(GradientHook(every_n_steps=10, histograms_every=20))
    return chosen


def show_guesses(run: Run, trainer: Trainer, held_out: digits.Batch, *, last: bool) -> None:
    """Record its confidence in each digit, and at the end the images' places in its last hidden layer."""
    images, labels = held_out
    chances, hidden = (np.asarray(array, np.float32) for array in trainer.chances(images))
    for number in range(10):
        run.pr_curve(f"eval/digit {number}", labels == number, np.clip(chances[:, number], 0, 1))
    guesses = chances.argmax(1)
    show_mistakes(run, guesses, held_out)
    if last:
        facts = [[str(is_), str(guess)] for is_, guess in zip(labels, guesses, strict=True)]
        run.embedding(
            "eval/hidden", hidden, labels=facts, columns=["is", "taken for"], images=images[..., None]
        )


def show_mistakes(run: Run, guesses: Any, held_out: digits.Batch) -> None:
    """Record the first images that it mistakes for another digit."""
    images, labels = held_out
    wrong = np.flatnonzero(guesses != labels)[:SHOWN_IMAGES]
    if len(wrong):
        large = np.kron(images[wrong], np.ones((1, 8, 8), np.float32))
        run.images("eval/mistakes", large[..., None], max_images=SHOWN_IMAGES)
        rows = [[int(labels[at]), int(guesses[at])] for at in wrong]
        run.table("eval/mistaken", rows, columns=["is", "taken for"])


def schedule(step: int, total: int) -> float:
    """Return the share of the peak learning rate: up along a line, down along a cosine."""
    if step < WARMUP_STEPS:
        return (step + 1) / WARMUP_STEPS
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP_STEPS) / max(1, total - WARMUP_STEPS)))
