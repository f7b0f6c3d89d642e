"""Trains every case of the corpus and keeps what it logged; the trainings are real, time is passed in.

``python benchmarks/health_trainings/record.py [NAME...|--manifest]``. Each becomes a compressed event file in
``tests/health_corpus/runs``, and a line in the manifest beside it that says what is true of it: healthy, or
which rule has to fire from which step to which.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import shutil
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parents[1] / "tests" / "health_corpus"
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from tasks import TASKS, Task  # noqa: E402

from stepscope.events import EventWriter  # noqa: E402
from stepscope.integrations.torch.attention import AttentionCalls  # noqa: E402
from stepscope.integrations.torch.operator_norms import matrices  # noqa: E402

FRESH = (20271102,)
"""Seeds of the trainings that were drawn after the rules were done."""
BEGIN = 1_700_000_000.0

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9),
    "nesterov": lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True, weight_decay=1e-4),
    "adam": torch.optim.Adam,
    "adamw": lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.05),
    "decaying": lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=2.0),
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adamax": torch.optim.Adamax,
}
SCHEDULES: dict[str, Callable[[float], float]] = {
    # Factor of the learning rate, by how far the training is.
    "constant": lambda t: 1.0,
    "step": lambda t: 0.1 ** int(t * 3),
    "exponential": lambda t: 0.01**t,
    "cosine": lambda t: 0.5 * (1 + math.cos(math.pi * t)),
    "restarts": lambda t: 0.5 * (1 + math.cos(math.pi * ((6 * t) % 1.0))) + 1e-4,
    "linear": lambda t: 1.0 - t,
    "warm-linear": lambda t: min(t / 0.1, (1 - t) / 0.9),
    "one-cycle": lambda t: max(1e-4, t / 0.3 if t < 0.3 else 0.5 * (1 + math.cos(math.pi * (t - 0.3) / 0.7))),
    "inverse-root": lambda t: min(t / 0.05, 1 / math.sqrt(max(t, 1e-9) / 0.05)),
    "unfreeze": lambda t: 1.0 if t < 0.5 else 0.01,
}
STYLES: dict[str, dict[str, str]] = {
    # How the writers of the world name what they log.
    "stepscope": {
        "loss": "train/loss",
        "eval_loss": "eval/loss",
        "accuracy": "train/accuracy",
        "lr": "train/learning_rate",
        "eval_accuracy": "eval/accuracy",
        "norm": "gradients/norm",
        "clipped": "gradients/clipped_norm",
    },
    "keras": {
        "loss": "epoch_loss",
        "eval_loss": "validation:epoch_loss",
        "accuracy": "epoch_accuracy",
        "eval_accuracy": "validation:epoch_accuracy",
        "lr": "epoch_learning_rate",
    },
    "lightning": {
        "loss": "train_loss",
        "eval_loss": "val_loss",
        "accuracy": "train_acc",
        "eval_accuracy": "val_acc",
        "lr": "lr-Adam",
        "norm": "grad_2.0_norm_total",
    },
    "hf": {
        "loss": "train/loss",
        "eval_loss": "eval/loss",
        "eval_accuracy": "eval/accuracy",
        "lr": "train/learning_rate",
        "norm": "train/grad_norm",
    },
    "plain": {
        "loss": "Loss/train",
        "eval_loss": "Loss/val",
        "accuracy": "Accuracy/train",
        "eval_accuracy": "Accuracy/val",
        "lr": "lr",
    },
    "rl": {"loss": "train/loss", "lr": "train/learning_rate"},
    "bare": {"loss": "loss"},
}


@dataclass
class Planted:
    """What is wrong with a training.

    Attributes:
        rule: That has to find it.
        first: Earliest step of a finding that counts.
        last: Latest.
        also: Rules that may fire too, for it is true or a consequence.
    """

    rule: str
    first: int
    last: int
    also: tuple[str, ...] = ()


@dataclass
class Case:
    """One training of the corpus.

    Attributes:
        name: Of its file.
        task: One of ``TASKS``.
        rhythm: "step", "every" N steps, "mean" of N steps, "samples" (of every step, numbered by examples),
            "epoch" (means), "evaluation" (means) or "minute" of the clock.
        step_s: Seconds that a step takes, in simulated time.
        busy: Whether other work on the machine makes single steps long.
        evaluate: Steps between evaluations.
        layers: Steps between samples of the layers, 0 for none.
        options: Of the task.
        planted: What is wrong with it.
        before: Called with the loop before each step: breaks what is to be broken.
        record: Called with the loop after each step; returns further numbers by tag.
        duration: Seconds of a step, in place of ``step_s``.
        wait: Seconds of a step that wait for data.
    """

    name: str
    task: str
    optimizer: str = "adam"
    lr: float = 2e-3
    schedule: str = "constant"
    steps: int = 500
    batch: int = 64
    rhythm: str = "step"
    every: int = 1
    step_s: float = 0.05
    busy: bool = False
    style: str = "stepscope"
    evaluate: int = 0
    layers: int = 0
    accumulate: int = 1
    bf16: bool = False
    clip: float = 0.0
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    planted: Planted | None = None
    before: Callable[[Any, int], None] | None = None
    record: Callable[[Any, int], dict[str, float]] | None = None
    duration: Callable[[int], float] | None = None
    wait: Callable[[int], float] | None = None
    loss_scale: bool = False


class Loop:
    """Trains one case and writes what it logs."""

    def __init__(self, case: Case, directory: Path) -> None:
        self.case, self.tags = case, STYLES[case.style]
        self.task: Task = TASKS[case.task](case.batch, case.seed, dict(case.options))
        self.optimizer = OPTIMIZERS[case.optimizer](self.task.model.parameters(), lr=case.lr)
        self.clock = np.random.default_rng(zlib.crc32(case.name.encode()))
        self.wall, self.minute = BEGIN, 0.0
        self.directory, self.writers = directory, {}
        self.gathered: dict[str, list[float]] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        self.rate = case.lr
        for name, each in self.task.model.named_modules():
            if case.layers and isinstance(each, nn.ReLU | nn.Tanh | nn.Sigmoid | nn.Linear):
                each.register_forward_hook(
                    lambda _m, _i, out, name=name: self.outputs.__setitem__(name, out.detach())
                )
        self.silent: dict[str, list[torch.Tensor]] = {}

    # --- writing ---------------------------------------------------------------------------------------

    def write(self, numbers: dict[str, float], step: int) -> None:
        """Write numbers by tag; ``validation:TAG`` goes into the file of that part."""
        parts: dict[str, list[tuple[str, float]]] = {}
        for tag, value in numbers.items():
            part, _, name = tag.rpartition(":")
            parts.setdefault(part, []).append((name, value))
        for part, values in parts.items():
            if part not in self.writers:
                self.writers[part] = EventWriter(self.directory / part, clock=lambda: BEGIN)
            self.writers[part].scalars(values, step, round(self.wall, 3))

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Write or gather the numbers of a step, as the rhythm says."""
        case = self.case
        due = {
            "step": True,
            "samples": True,
            "every": step % case.every == case.every - 1,
            "mean": step % case.every == case.every - 1,
            "epoch": (step + 1) % self.task.epoch == 0,
            "evaluation": case.evaluate > 0 and (step + 1) % case.evaluate == 0,
            "minute": self.wall - self.minute >= 60,
        }[case.rhythm]
        means = case.rhythm in ("epoch", "evaluation", "mean")
        for tag, value in numbers.items():
            self.gathered.setdefault(tag, []).append(value)
        if not due:
            return
        self.minute = self.wall
        shown = {tag: float(np.mean(seen)) if means else seen[-1] for tag, seen in self.gathered.items()}
        self.gathered.clear()
        at = step // self.task.epoch if case.rhythm == "epoch" and case.style in ("keras", "plain") else step
        at = at * case.batch if case.rhythm == "samples" else at
        if case.evaluate and ((step + 1) % case.evaluate == 0 or (case.rhythm == "epoch")):
            found = self.task.evaluate()
            shown |= {self.tags[f"eval_{n}"]: v for n, v in found.items() if f"eval_{n}" in self.tags}
        self.write(shown, at)

    # --- training --------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train."""
        case = self.case
        for step in range(case.steps):
            self.rate = case.lr * SCHEDULES[case.schedule](step / case.steps)
            if case.before is not None:
                case.before(self, step)
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate
            loss, norm, clipped = self.step(step)
            numbers = {
                self.tags["loss"]: loss,
                **{t: v for t, v in self.task.extra.items() if t != "accuracy"},
            }
            for name, value in (("lr", self.rate), ("norm", norm), ("clipped", clipped)):
                if name in self.tags and value is not None:
                    numbers[self.tags[name]] = value
            if "accuracy" in self.task.extra and "accuracy" in self.tags:
                numbers[self.tags["accuracy"]] = self.task.extra["accuracy"]
            took = self.took(step)
            if case.style == "stepscope":
                numbers["speed/step_time_ms"] = 1e3 * took
                if case.wait is not None:
                    numbers["speed/data_wait_ms"] = 1e3 * case.wait(step)
            self.wall += took
            more = case.record(self, step) if case.record is not None else {}
            self.log(step, numbers | more)
            # An evaluation between the points of the rhythm.
            if (
                case.evaluate
                and case.rhythm in ("step", "every", "mean", "minute")
                and (step + 1) % case.evaluate == 0
            ):
                self.wall += min(20 * case.step_s, 600.0)
                if case.rhythm != "step":
                    found = self.task.evaluate()
                    self.write(
                        {self.tags[f"eval_{n}"]: v for n, v in found.items() if f"eval_{n}" in self.tags},
                        step,
                    )
        for writer in self.writers.values():
            writer.close()

    def took(self, step: int) -> float:
        """Return how long a step takes: a little noise, and on a busy machine heavy tails."""
        if self.case.duration is not None:
            return self.case.duration(step)
        took = self.case.step_s * math.exp(0.03 * self.clock.normal())
        if self.case.busy:
            took += 0.004 * self.clock.pareto(2.0) * (self.clock.random() < 0.15)
        return took

    def step(self, step: int) -> tuple[float, float | None, float | None]:
        """Do one step; return loss, gradient norm and norm after clipping."""
        case = self.case
        if case.task == "gan":
            loss = float(self.task.loss(step))
            norms = [p.grad.norm() for p in self.task.model.parameters() if p.grad is not None]
            return loss, float(torch.stack(norms).norm()), None
        self.optimizer.zero_grad()
        total = 0.0
        for _ in range(case.accumulate):
            with self.attention(step), torch.autocast("cpu", torch.bfloat16, enabled=case.bf16):
                loss = self.task.loss(step)
            if loss.requires_grad:
                (loss / case.accumulate).backward()
            total += float(loss.detach()) / case.accumulate
        parameters = [p for p in self.task.model.parameters() if p.grad is not None]
        norm = float(torch.stack([p.grad.norm() for p in parameters]).norm()) if parameters else None
        clipped = None
        if case.clip and parameters:
            torch.nn.utils.clip_grad_norm_(parameters, case.clip)
            clipped = min(norm, case.clip) if math.isfinite(norm) else norm
        sampled = case.layers and step % case.layers == 0
        before = {n: p.detach().clone() for n, p in self.task.model.named_parameters()} if sampled else {}
        self.optimizer.step()
        if sampled:
            self.write(self.layers(before), step)
        return total, norm, clipped

    @contextlib.contextmanager
    def attention(self, step: int) -> Iterator[None]:
        """Look at the attention of a forward pass, where layers are sampled."""
        self.seen: dict[str, Any] = {}
        if not self.case.layers or step % self.case.layers:
            yield
            return
        names = {id(each): name for name, each in self.task.model.named_modules()}
        calls = AttentionCalls(names, 4, 64)
        calls.enter(self.task.model)
        yield
        calls.leave()
        if calls.failed is not None:
            raise calls.failed
        self.seen = {tag: float(value) for tag, value in calls.numbers().items()}

    def layers(self, before: dict[str, torch.Tensor]) -> dict[str, float]:
        """Return what a recorder says of parameters and activations."""
        found = dict(self.seen)
        for name, (each, shaped) in matrices(self.task.model):
            if each.grad is not None:
                for of, tensor in (("updates", each.detach() - before[name]), ("weights", before[name])):
                    matrix = shaped(tensor)
                    if not bool(matrix.isfinite().all()):
                        value = torch.tensor(math.nan)
                    elif matrix.ndim == 3:
                        value = matrix[0].square().mean(1).sqrt().amax()
                    else:
                        value = torch.linalg.matrix_norm(matrix, 2) * math.sqrt(matrix.shape[1] / len(matrix))
                    found[f"{of}/{name}/operator_norm"] = float(value)
        for name, each in self.task.model.named_parameters():
            if not each.requires_grad:
                continue
            found[f"weights/{name}/norm"] = float(before[name].norm())
            if each.grad is not None:
                found[f"gradients/{name}/norm"] = float(each.grad.norm())
                found[f"gradients/{name}/nonfinite_count"] = float((~each.grad.isfinite()).sum())
            if each.requires_grad and float(before[name].norm()) > 0:
                found[f"updates/{name}/weight_ratio"] = float(
                    (each.detach() - before[name]).norm() / before[name].norm()
                )
        modules = dict(self.task.model.named_modules())
        for name, out in self.outputs.items():
            found[f"activations/{name}/std"] = float(out.float().std())
            found[f"activations/{name}/nonfinite_count"] = float((~out.isfinite()).sum())
            if isinstance(modules[name], nn.ReLU):
                units = (out != 0).transpose(0, 1 if out.ndim == 4 else -1).flatten(1).any(1)
                seen = self.silent.setdefault(name, [])
                seen[:] = [*seen[-9:], units]
                if len(seen) == 10:
                    found[f"activations/{name}/dead_ratio"] = float(
                        1 - torch.stack(seen).any(0).float().mean()
                    )
            if isinstance(modules[name], nn.Tanh | nn.Sigmoid):
                far = out.abs() if isinstance(modules[name], nn.Tanh) else (2 * out - 1).abs()
                found[f"activations/{name}/saturation_ratio"] = float((far >= 0.99).float().mean())
        return found


def record(case: Case, into: Path = CORPUS / "runs") -> None:
    """Train a case and keep its files, compressed."""
    with tempfile.TemporaryDirectory() as directory, np.errstate(all="ignore"):
        Loop(case, Path(directory)).run()
        for old in into.glob(f"{case.name}.*"):
            old.unlink()
        for path in Path(directory).rglob("*tfevents*"):
            part = path.parent.relative_to(directory).as_posix().replace(".", "")
            name = ".".join([case.name, *([part] if part else []), "tfevents.gz"])
            with path.open("rb") as source, gzip.GzipFile(into / name, "wb", 9, mtime=0) as out:
                shutil.copyfileobj(source, out)


def main() -> None:
    """Record the named cases, or all, and write the manifest of all."""
    from cases import CASES
    from fresh import fresh

    every = [*CASES, *(case for seed in FRESH for case in fresh(seed))]
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    (CORPUS / "runs").mkdir(exist_ok=True)
    names = {case.name for case in every}
    if len(names) < len(every):
        sys.exit("two cases have one name")
    for case in every if sys.argv[1:] != ["--manifest"] else ():
        if not sys.argv[1:] or any(word in case.name for word in sys.argv[1:]):
            record(case)
    manifest = [facts_of(case) for case in every]
    (CORPUS / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def facts_of(case: Case) -> dict[str, Any]:
    """Return what is true of a case, as the manifest has it."""
    truth = case.planted
    return {
        "name": case.name,
        "task": case.task,
        "split": split_of(case),
        "steps": case.steps,
        "rhythm": case.rhythm,
        "planted": None if truth is None else vars(truth) | {"also": list(truth.also)},
    }


def split_of(case: Case) -> str:
    """Say whether a training is to tune rules on or to judge them by; its name decides, for good."""
    if "fresh-" in case.name:
        return "fresh"
    return "tune" if zlib.crc32(case.name.encode()) % 2 else "judge"


if __name__ == "__main__":
    main()
