"""Cost of ``stepscope run`` to the training's thread: its processor time per step, beside the same loop bare.

``python benchmarks/run_cost.py [--pairs 10] [--trainers lightning transformers]``. One model trains in blocks
of steps, in turns with all that the command puts into a program and with PyTorch as it is, so that both see
the same machine, the same memory and the same libraries; likewise whole trainings by the trainer of a
framework. Also what a program that trains nothing pays, and a run's start and end.
"""

from __future__ import annotations

import argparse
import builtins
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from typing import Any

SIZES = {"a step of 5 ms and more": (1024, 256, 10, 3), "a step as short as PyTorch's": (8, 32, 60, 20)}
"""By name: width of the model, rows of a batch, steps of a block, and how many blocks stand for a pair."""
WARM = 3
"""Blocks before the first pair."""


class Installed:
    """What the command puts into a program; can be taken out and put in again.

    Args:
        torch: The package, as it is without us.
    """

    def __init__(self, torch: Any) -> None:
        from stepscope.launch import pytorch

        optimizer = sys.modules["torch.optim.optimizer"]
        self._hooks = [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
        self._ours: list[dict[Any, Any]] = []
        owners = [builtins, logging.Logger, torch.autograd, torch.nn.Module, torch.amp.GradScaler]
        owners.append(torch.utils.data.dataloader._BaseDataLoaderIter)
        before = [(owner, dict(vars(owner))) for owner in owners]
        pytorch.install(torch)
        self._changed = [
            (owner, name, old[name], new)
            for owner, old in before
            for name, new in list(vars(owner).items())
            if name in old and old[name] is not new
        ]

    def watch(self, training: Training) -> None:
        """Also take out the hooks of a training's own objects."""
        optimizer = training.optimizer
        self._hooks += [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
        for module in training.model.modules():
            self._hooks += [module._forward_pre_hooks, module._forward_hooks]

    def put(self, *, there: bool) -> None:
        """Put it in or take it out."""
        if there == (not self._ours):
            return
        for owner, name, old, new in self._changed:
            setattr(owner, name, new if there else old)
        if there:
            for hooks, ours in zip(self._hooks, self._ours, strict=True):
                hooks.update(ours)
            self._ours = []
        else:
            self._ours = [dict(hooks) for hooks in self._hooks]
            for hooks in self._hooks:
                hooks.clear()


class Training:
    """A loop in the style of a tutorial.

    Args:
        torch: The package.
        width: Of the model.
        rows: Of a batch.
        steps: Of a block.
    """

    def __init__(self, torch: Any, width: int, rows: int, steps: int) -> None:
        nn = torch.nn
        self.model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-3)
        data = torch.utils.data.TensorDataset(torch.randn(rows * steps, width))
        self.loader, self.steps = torch.utils.data.DataLoader(data, rows), steps

    def block(self) -> tuple[float, list[float]]:
        """Train; return seconds of processor time per step, and the seconds of every step but the first."""
        model, optimizer = self.model, self.optimizer
        times = []
        begun = time.thread_time()
        for (x,) in self.loader:
            times.append(time.perf_counter())
            loss = model(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        ended = time.thread_time()
        return (ended - begun) / self.steps, [after - before for before, after in pairwise(times)]


def per_step(torch: Any, installed: Installed, size: tuple[int, ...], pairs: int) -> dict[str, Any]:
    """Return medians over pairs of blocks, of which every second begins with the bare one.

    On a machine with other work a block also pays for caches that others have emptied. Among the fastest
    tenth of single steps few were interrupted; those on which gradients are measured are not among them.
    """
    training = Training(torch, *size[:3])
    found = []
    single: dict[bool, list[float]] = {False: [], True: []}
    installed.put(there=True)
    for _ in range(WARM):
        training.block()  # fills caches, and the model is watched from its first steps on
    installed.watch(training)
    for pair in range(pairs * size[3]):
        times = {}
        for with_us in (False, True) if pair % 2 else (True, False):
            installed.put(there=with_us)
            times[with_us], each_step = training.block()
            single[with_us] += each_step
        found.append((times[False], times[True] - times[False]))
    usual, more = (statistics.median(each) for each in zip(*found, strict=True))
    quarters = statistics.quantiles([each[1] for each in found], n=4)
    fast = {with_us: 1e6 * statistics.quantiles(steps, n=10)[0] for with_us, steps in single.items()}
    return {
        "bare_us": 1e6 * usual,
        "more_us": 1e6 * more,
        "more_us_quarters": [round(1e6 * quarters[0], 1), round(1e6 * quarters[2], 1)],
        "ratio": more / usual,
        "fast_bare_us": fast[False],
        "fast_more_us": fast[True] - fast[False],
    }


class Marked:
    """A model that notes the processor time of its thread whenever it is called, and the module that has it.

    Args:
        torch: The package.
    """

    def __init__(self, torch: Any) -> None:
        nn = torch.nn
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
        self.data = [{"x": torch.randn(WIDTH)} for _ in range(64)] * (TRAINER_STEPS * ROWS // 64)
        self.times: list[float] = []

    def loss(self, x: Any) -> Any:
        """Return the loss of a batch."""
        self.times.append(time.thread_time())
        return self.body(x).pow(2).mean()

    def steps(self) -> list[float]:
        """Return the seconds of processor time from one call to the next, of those after the first."""
        return [after - before for before, after in pairwise(self.times)][FIRST_STEPS:]


WIDTH, ROWS, TRAINER_STEPS, FIRST_STEPS = 768, 256, 60, 15
"""Of a trainer's model, its batches and its steps; and how many of these warm up and are not counted."""


def lightning(torch: Any) -> list[float]:
    """Train by Lightning; return seconds of processor time of each step."""
    from lightning import LightningModule, Trainer

    marked = Marked(torch)

    class Net(LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = marked.body

        def training_step(self, batch: Any, number: int) -> Any:
            loss = marked.loss(batch["x"])
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-3)

    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = Trainer(max_steps=TRAINER_STEPS, logger=False, accelerator="cpu", **quiet)
    trainer.fit(Net(), torch.utils.data.DataLoader(marked.data, ROWS))
    return marked.steps()


def transformers(torch: Any) -> list[float]:
    """Train by the Trainer of Transformers; return seconds of processor time of each step."""
    from transformers import Trainer, TrainingArguments

    marked = Marked(torch)

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = marked.body

        def forward(self, x: Any) -> Any:
            return {"loss": marked.loss(x)}

    with tempfile.TemporaryDirectory() as folder:
        options = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no"}
        settings = TrainingArguments(
            folder,
            max_steps=TRAINER_STEPS,
            per_device_train_batch_size=ROWS,
            logging_steps=10,
            remove_unused_columns=False,
            **options,
        )
        Trainer(Net(), settings, train_dataset=marked.data).train()
    return marked.steps()


def trainer_cost(torch: Any, name: str, installed: Installed, pairs: int) -> dict[str, Any]:
    """Return the cost under a framework's trainer, which gets our callbacks in every second training."""
    from importlib import import_module

    from stepscope import launch

    train = {"lightning": lightning, "transformers": transformers}[name]
    module = import_module(
        {"lightning": "lightning.pytorch.trainer.trainer"}.get(name, "transformers.trainer")
    )
    method = {"lightning": "fit", "transformers": "train"}[name]
    bare = getattr(module.Trainer, method)
    import_module(f"{launch.__name__}.{name}").install(module)
    ours = getattr(module.Trainer, method)
    differences, usual = [], []
    single: dict[bool, list[float]] = {False: [], True: []}
    for pair in range(-1, pairs):
        times = {}
        for with_us in (False, True) if pair % 2 else (True, False):
            installed.put(there=with_us)
            setattr(module.Trainer, method, ours if with_us else bare)
            steps = train(torch)
            times[with_us] = statistics.median(steps)
            single[with_us] += steps if pair >= 0 else []
        if pair >= 0:
            usual.append(times[False])
            differences.append(times[True] - times[False])
    quarters = statistics.quantiles(differences, n=4)
    more, base = statistics.median(differences), statistics.median(usual)
    fast = {with_us: statistics.quantiles(steps, n=10)[0] for with_us, steps in single.items()}
    return {
        "bare_us": round(1e6 * base, 1),
        "more_us": round(1e6 * more, 1),
        "more_us_quarters": [round(1e6 * quarters[0], 1), round(1e6 * quarters[2], 1)],
        "ratio": round(more / base, 4),
        "fast_more_us": round(1e6 * (fast[True] - fast[False]), 1),
        "fast_ratio": round(fast[True] / fast[False] - 1, 4),
    }


def start(*, with_us: bool, folder: str) -> float:
    """Return seconds of processor time of a program that trains nothing."""
    environ = {**os.environ}
    if with_us:
        from stepscope.cli.run import PATH

        environ |= {"PYTHONPATH": str(PATH), "STEPSCOPE_RUN_SESSION": folder, "STEPSCOPE_RUN_DIR": folder}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], env=environ, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print medians over the pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument(
        "--trainers", nargs="*", choices=("lightning", "transformers"), default=[], help="also measure these"
    )
    parser.add_argument("--only-trainers", action="store_true", help="leave out loops of the user's own")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        starts = [
            start(with_us=True, folder=folder) - start(with_us=False, folder=folder)
            for _ in range(arguments.pairs)
        ]
        print("a start without training", json.dumps({"more_ms": 1e3 * statistics.median(starts)}))
        os.environ |= {"STEPSCOPE_RUN_SESSION": folder, "STEPSCOPE_RUN_DIR": f"{folder}/run"}
        import torch

        torch.set_num_threads(1)
        installed = Installed(torch)
        from stepscope.launch.process import process

        begun, wall = time.thread_time(), time.perf_counter()
        run = process.run()
        begun, wall = time.thread_time() - begun, time.perf_counter() - wall
        for name, size in () if arguments.only_trainers else SIZES.items():
            found = per_step(torch, installed, size, arguments.pairs)
            print(name, json.dumps(found), flush=True)
        for name in arguments.trainers:
            found = trainer_cost(torch, name, installed, arguments.pairs)
            print(f"a step by {name}", json.dumps(found), flush=True)
        assert run is not None
        end, end_wall = time.thread_time(), time.perf_counter()
        run.close()
        end, end_wall = time.thread_time() - end, time.perf_counter() - end_wall
        both = {"cpu_ms": 1e3 * (begun + end), "wall_ms": 1e3 * (wall + end_wall)}
        print("start and end of the run", json.dumps(both))


if __name__ == "__main__":
    main()
