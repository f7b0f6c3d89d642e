"""Trainers in PyTorch: classes with a method for each part of a step, Lightning and transformers.

Called as ``python torch_trainers.py TRAINING PROGRAM DIRECTORY``, in an environment that
``planted.py`` makes. The table in ``programs.txt`` has all trainings and programs.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import logging
import math
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from hook import profiler_hook
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, TensorDataset

import stepscope as ss

# A trainer of a residual network; each program overrides one of its methods.

RESIDUAL_STEPS, ROWS, WIDTH = 14, 128, 288

Batch = tuple[torch.Tensor, torch.Tensor]


class Mlp(nn.Module):
    """A residual network, for batches or rows."""

    def __init__(self, depth: int = 6) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.RMSNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.SiLU(), nn.Linear(2 * WIDTH, WIDTH)
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class Examples(Dataset):
    """Rows with labels that are there; subclasses prepare them."""

    def __init__(self) -> None:
        self.x, self.y = (
            torch.randn(RESIDUAL_STEPS * ROWS, WIDTH),
            torch.randint(0, 10, (RESIDUAL_STEPS * ROWS,)),
        )

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> Batch:
        return self.x[at], self.y[at]


class ResidualTrainer:
    """A trainer as many projects have one; what is planted overrides a method."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        self.directory, self.hook = Path(directory), hook
        self.model = Mlp()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, fused=True)
        self.n = 0

    def batches(self) -> Any:
        return DataLoader(Examples(), batch_size=ROWS)

    def prepare(self, batch: Batch) -> Batch:
        return batch

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(x), y)

    def update(self, loss: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        pass

    def fit(self) -> None:
        with ss.Run(self.directory, hooks=[self.hook]) as run:
            for batch in run.steps(self.batches()):
                x, y = self.prepare(batch)
                loss = self.loss(x, y)
                self.update(loss)
                self.after(loss, (x, y))
                self.n += 1


# --- what a batch waits for ----------------------------------------------------------------------------


class Tokens(ResidualTrainer):
    """Text, tokenised as it is asked for."""

    words = re.compile(r"\w+|[^\w\s]")

    def batches(self) -> Iterator[Batch]:
        line = "the quick brown fox, it jumps over 12 lazy dogs; and so on. " * 12
        known: dict[str, int] = {}
        for _ in range(RESIDUAL_STEPS):
            rows = []
            for _ in range(ROWS):
                row = [known.setdefault(w, len(known)) for w in self.words.findall(line)]  # PLANTED Tokens
                rows.append(row)
            x = torch.tensor(rows)[:, :100].float().mean(1, keepdim=True).expand(-1, WIDTH)
            yield x, torch.zeros(ROWS, dtype=torch.long)


class Weighted(Sampler[int]):
    """Draws rows by weight, one by one."""

    def __iter__(self) -> Iterator[int]:
        weights = [1.0 + n % 7 for n in range(RESIDUAL_STEPS * ROWS)]
        for _ in range(RESIDUAL_STEPS * ROWS):
            yield random.choices(range(len(weights)), weights)[0]  # PLANTED Sampled

    def __len__(self) -> int:
        return RESIDUAL_STEPS * ROWS


class Sampled(ResidualTrainer):
    """A sampler that is slow."""

    def batches(self) -> DataLoader:
        return DataLoader(Examples(), batch_size=ROWS, sampler=Weighted())


class Inflated(Examples):
    """Rows that are kept compressed."""

    def __init__(self) -> None:
        super().__init__()
        self.packed = [zlib.compress(np.random.default_rng(n).bytes(60_000)) for n in range(8)]

    def __getitem__(self, at: int) -> Batch:
        raw = zlib.decompress(self.packed[at % 8])  # PLANTED Compressed
        return torch.from_numpy(
            np.frombuffer(raw[: 4 * WIDTH], np.uint8)[:WIDTH].astype(np.float32)
        ) / 255, self.y[at]


class Compressed(ResidualTrainer):
    """A data set that unpacks."""

    def batches(self) -> DataLoader:
        return DataLoader(Inflated(), batch_size=ROWS)


def pad(rows: list[list[float]]) -> list[list[float]]:
    longest = max(len(row) for row in rows)
    return [row + [0.0] * (longest - len(row)) for row in rows]


def together(rows: list[Batch]) -> Batch:
    lists = [[float(v) for v in x.tolist() * 3] for x, _ in rows]  # PLANTED Padded
    return torch.tensor(pad(lists))[:, :WIDTH], torch.stack([y for _, y in rows])


class Padded(ResidualTrainer):
    """A collate function in Python."""

    def batches(self) -> DataLoader:
        return DataLoader(Examples(), batch_size=ROWS, collate_fn=together)


class Streamed(IterableDataset):
    """Rows as JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        row = json.dumps({"x": [round(0.1 * n, 3) for n in range(WIDTH)], "y": 1})
        path.write_text(f"{row}\n" * (RESIDUAL_STEPS * ROWS))

    def __iter__(self) -> Iterator[Batch]:
        with self.path.open() as lines:
            for line in lines:
                row = json.loads(line)  # PLANTED JsonLines
                yield torch.tensor(row["x"]), torch.tensor(row["y"])


class JsonLines(ResidualTrainer):
    """A stream of text in the trainer's process."""

    def batches(self) -> DataLoader:
        return DataLoader(Streamed(self.directory / "rows.jsonl"), batch_size=ROWS)


class Ahead(ResidualTrainer):
    """A batch that another thread prepares, too slowly."""

    def make(self, n: int) -> Batch:
        rows = [sorted(random.random() for _ in range(WIDTH)) for _ in range(3 * ROWS)]
        return torch.tensor(rows[:ROWS]), torch.zeros(ROWS, dtype=torch.long)

    def batches(self) -> Iterator[Batch]:
        with ThreadPoolExecutor(1) as pool:
            for n in range(RESIDUAL_STEPS):
                yield pool.submit(self.make, n).result()  # PLANTED Ahead


# --- between the batch and the model -------------------------------------------------------------------


class Cutout(ResidualTrainer):
    """An augmentation, row by row, in numpy."""

    def prepare(self, batch: Batch) -> Batch:
        x, y = batch
        array = x.numpy().copy()
        for row in array:
            row[:] = np.convolve(row, np.hanning(61), "same")[np.argsort(row)]  # PLANTED Cutout
        return torch.from_numpy(array), y


class Labels(ResidualTrainer):
    """Labels that are made of text in the loop."""

    def prepare(self, batch: Batch) -> Batch:
        x, y = batch
        names = [f"class-{int(each)}/sample-{n}" for n, each in enumerate(y.tolist() * 60)]
        found = [int(re.sub(r"class-(\d+)/.*", r"\1", name)) for name in names]  # PLANTED Labels
        return x, torch.tensor(found[:ROWS])


# --- the model and the update ------------------------------------------------------------------------


class Pairwise(ResidualTrainer):
    """A contrastive loss, pair by pair."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        code, total = self.model(x), torch.zeros(())
        for a in range(ROWS - 1):
            for b in (a + 1, (a + 7) % ROWS):
                total = total + (code[a] - code[b]).square().sum().sqrt()  # PLANTED Pairwise
        return total / ROWS


class Heads(ResidualTrainer):
    """One small layer after the other, for each feature."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        super().__init__(directory, hook)
        self.model.small = nn.ModuleList(nn.Linear(1, 4) for _ in range(WIDTH))

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = [
            torch.tanh(layer(x[:, n : n + 1])) for n, layer in enumerate(self.model.small)
        ]  # PLANTED Heads
        return super().loss(x, y) + torch.cat(parts, 1).mean()


class Growing(ResidualTrainer):
    """A compiled model that sees another length each time."""

    def fit(self) -> None:
        compiled = torch.compile(self.model, dynamic=False, backend="aot_eager")
        torch._dynamo.config.recompile_limit = 100
        with ss.Run(self.directory, hooks=[self.hook]) as run:
            for n in run.steps(range(RESIDUAL_STEPS)):
                x = torch.randn(ROWS - 3 * n, WIDTH)
                out = compiled(x)  # PLANTED Growing
                self.update(out.square().mean())


class Averaged(ResidualTrainer):
    """A moving average of the weights, tensor by tensor, element-wise, several times over."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        super().__init__(directory, hook)
        self.means = {name: value.clone() for name, value in self.model.state_dict().items()}

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        for _ in range(12):
            for name, value in self.model.state_dict().items():
                self.means[name].mul_(0.999).add_(value, alpha=0.001)  # PLANTED Averaged


class Lion(torch.optim.Optimizer):
    """An optimizer of one's own, parameter by parameter."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-4})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                for part in p.view(-1).split(4096):
                    part.add_(part.mul(0.9).add(0.1).sign(), alpha=-group["lr"])  # PLANTED OwnOptimizer


class OwnOptimizer(ResidualTrainer):
    """Its update is what is slow."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        super().__init__(directory, hook)
        self.optimizer = Lion(self.model.parameters())


# --- after the update -------------------------------------------------------------------------------


class Meter:
    """Metrics, a value at a time."""

    def __init__(self) -> None:
        self.hits: list[bool] = []

    def update(self, predicted: torch.Tensor, y: torch.Tensor) -> None:
        for a, b in zip(predicted, y, strict=True):
            for _ in range(8):
                self.hits.append(a.argmax().item() == b.item())  # PLANTED Metered


class Metered(ResidualTrainer):
    """Accuracy by ``item``."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        Meter().update(torch.zeros(ROWS, 10), batch[1])


class Verbose(ResidualTrainer):
    """Weights in the log, of every step."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        log = logging.getLogger("train")
        for name, value in self.model.named_parameters():
            log.warning("%s %s", name, value.detach().flatten()[:5000].tolist())  # PLANTED Verbose


class Best(ResidualTrainer):
    """A checkpoint each time, compressed to a file and moved."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        part = self.directory / "best.part"
        torch.save(
            {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, part
        )  # PLANTED Best
        shutil.move(part, self.directory / "best.pt")


class Scored(ResidualTrainer):
    """Judges the model after every step."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        super().__init__(directory, hook)
        self.held = [(torch.randn(ROWS, WIDTH), torch.zeros(ROWS, dtype=torch.long)) for _ in range(4)]

    @torch.inference_mode()
    def score(self) -> float:
        self.model.eval()
        right = [(self.model(x).argmax(1) == y).float().mean() for x, y in self.held]  # PLANTED Scored
        self.model.train()
        return float(torch.stack(right).mean())

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        self.score()


class Reported(ResidualTrainer):
    """Waits for an answer of somebody else, as a coroutine."""

    async def report(self) -> None:
        await asyncio.sleep(0.06)

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        asyncio.run(self.report())  # PLANTED Reported


class Counted(ResidualTrainer):
    """Statistics of the gradients in Python."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        values = self.model.head.weight.detach().flatten().tolist() * 12
        mean = sum(values) / len(values)
        sum((value - mean) ** 2 for value in values)  # PLANTED Counted


class Copied(ResidualTrainer):
    """Copies a folder of files beside, each time."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        source = self.directory / "source"
        if not source.exists():
            source.mkdir()
            for n in range(300):
                (source / f"{n}.txt").write_text("x" * 2000)
        with tempfile.TemporaryDirectory(dir=self.directory) as folder:
            shutil.copytree(source, f"{folder}/copy")  # PLANTED Copied


# --- frameworks ------------------------------------------------------------------------------------


class SlowRows(Examples):
    """Rows whose features are made one by one."""

    def __getitem__(self, at: int) -> Batch:
        x = torch.tensor([float((n * at) % 11) for n in range(4 * WIDTH)])  # PLANTED LightningLoader
        return x[:WIDTH], self.y[at]


class LightningLoader(ResidualTrainer):
    """A slow data set under Lightning's trainer."""

    data: type[Examples] = SlowRows
    extra: tuple[Any, ...] = ()

    def fit(self) -> None:
        import lightning.pytorch as pl

        from stepscope.integrations.lightning import StepscopeCallback

        class Module(pl.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.net = Mlp()

            def training_step(self, batch: Batch, _: int) -> torch.Tensor:
                return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return torch.optim.AdamW(self.parameters(), 1e-4, fused=True)

        os.environ["LOCAL_RANK"] = "0"
        callback = StepscopeCallback(self.directory, hooks=[self.hook])
        trainer = pl.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
            default_root_dir=self.directory,
            enable_progress_bar=False, enable_model_summary=False, callbacks=[callback, *self.callbacks()],
        )  # fmt: skip
        trainer.fit(Module(), DataLoader(self.data(), batch_size=ROWS))

    def callbacks(self) -> list[Any]:
        return []


class LightningCallback(LightningLoader):
    """A callback of Lightning that saves at every batch."""

    data = Examples

    def callbacks(self) -> list[Any]:
        import lightning.pytorch as pl

        class Saving(pl.Callback):
            def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
                trainer.save_checkpoint(
                    Path(trainer.default_root_dir, "each.ckpt")
                )  # PLANTED LightningCallback

        return [Saving()]


class HealthyLightning(LightningLoader):
    """Nothing planted."""

    data = Examples


class Face(nn.Module):
    """A model as the Trainer of transformers calls one."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Mlp()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": nn.functional.cross_entropy(self.net(x), labels)}


class Rows(Dataset):
    """Examples as dictionaries."""

    def __init__(self) -> None:
        self.rows = Examples()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        x, y = self.rows[at]
        return {"x": x, "labels": y}


def gathered(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    table = [[float(v) for v in row["x"].tolist()] for row in rows for _ in range(4)]  # PLANTED FaceCollator
    return {"x": torch.tensor(table)[::4], "labels": torch.stack([row["labels"] for row in rows])}


class FaceCollator(ResidualTrainer):
    """A data collator in Python, under the Trainer of transformers."""

    collate: Any = staticmethod(gathered)

    def fit(self) -> None:
        from transformers import Trainer as FaceTrainer
        from transformers import TrainingArguments

        from stepscope.integrations.transformers import StepscopeCallback

        arguments = TrainingArguments(
            str(self.directory / "out"), per_device_train_batch_size=ROWS, num_train_epochs=1,
            report_to="none",
            save_strategy="no", use_cpu=True, disable_tqdm=True, logging_steps=50, optim="adamw_torch_fused",
            remove_unused_columns=False, dataloader_pin_memory=False,
        )  # fmt: skip
        callback = StepscopeCallback(self.directory, hooks=[self.hook])
        options = {"data_collator": self.collate} if self.collate else {}
        FaceTrainer(Face(), arguments, train_dataset=Rows(), callbacks=[callback], **options).train()


class HealthyFace(FaceCollator):
    """Nothing planted."""

    collate = None


# --- nothing planted -------------------------------------------------------------------------------


class HealthyTrainer(ResidualTrainer):
    """As it is."""


class HealthyPenalty(ResidualTrainer):
    """A gradient penalty: backward through backward."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        plain = super().loss(x, y)
        (slope,) = torch.autograd.grad(plain, x, create_graph=True)
        return plain + slope.square().sum()


class HealthyDenoising(ResidualTrainer):
    """A diffusion loss: noise is drawn and added."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        when, noise = torch.rand(len(x), 1), torch.randn_like(x)
        return (self.model((1 - when) * x + when * noise) - noise[:, :10]).square().mean()


class HealthyExperts(ResidualTrainer):
    """A mixture of four experts, each of which gets its rows."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        super().__init__(directory, hook)
        self.model.experts = nn.ModuleList(Mlp(2) for _ in range(4))

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        chosen = torch.arange(len(x)) % 4
        parts = [
            nn.functional.cross_entropy(e(x[chosen == n]), y[chosen == n])
            for n, e in enumerate(self.model.experts)
        ]
        return torch.stack(parts).sum()


class HealthySecondOrder(ResidualTrainer):
    """L-BFGS, which calls a closure several times."""

    def fit(self) -> None:
        optimizer = torch.optim.LBFGS(self.model.parameters(), max_iter=4)
        with ss.Run(self.directory, hooks=[self.hook]) as run:
            for x, y in run.steps(self.batches()):

                def closure(x: torch.Tensor = x, y: torch.Tensor = y) -> torch.Tensor:
                    optimizer.zero_grad()
                    loss = self.loss(x, y)
                    loss.backward()
                    return loss

                optimizer.step(closure)


class HealthyPooled(ResidualTrainer):
    """Two threads for torch, a convolution and a logged loss."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        super().__init__(directory, hook)
        torch.set_num_threads(2)
        self.model = nn.Sequential(
            nn.Unflatten(1, (2, 12, 12)), nn.Conv2d(2, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.Flatten(),
            nn.LazyLinear(10),
        )  # fmt: skip
        self.model(torch.randn(2, WIDTH))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01, momentum=0.9, foreach=True)

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        loss.item()


# A trainer of a convolutional network, and other projects' own.

PICTURES_STEPS = 12


def convolutions(wide: int = 24) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, wide, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(wide, wide, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(16 * wide, 10),
    )  # fmt: skip


def pictures(rows: int = 48) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(rows, 1, 32, 32), torch.randint(10, (rows,))) for _ in range(PICTURES_STEPS)]


class PicturesTrainer:
    """A loop as many projects have it: a class with a method for a step and one that is called after it."""

    def __init__(self, net: nn.Module | None = None) -> None:
        self.net = net or convolutions()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), 1e-3, fused=True)

    def prepared(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the network is given."""
        return x, y

    def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
        """Nothing."""

    def train(
        self, out: Path, hook: ss.ProfilerHook, data: Iterable[tuple[torch.Tensor, torch.Tensor]]
    ) -> None:
        """Train for as many steps as there are batches."""
        with ss.Run(out, hooks=[hook]) as run:
            for x, y in run.steps(data):
                x, y = self.prepared(x, y)
                logits = self.net(x)
                loss = F.cross_entropy(logits, y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.after(x, y, logits, loss)


# --- causes ---------------------------------------------------------------------------------------------


class Waves(Dataset):
    """Sounds that are filtered as they are asked for."""

    def __len__(self) -> int:
        return PICTURES_STEPS * 48

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        wave = np.random.default_rng(at).normal(size=16_384)
        bands = np.abs(np.fft.rfft(wave * np.hanning(len(wave))))[:1024]  # PLANTED waves
        return torch.tensor(bands.reshape(1, 32, 32), dtype=torch.float32), at % 10


def waves(out: Path, hook: ss.ProfilerHook) -> None:
    PicturesTrainer().train(out, hook, DataLoader(Waves(), 48))


class Remote(Dataset):
    """Rows that lie on a slow disk."""

    def __len__(self) -> int:
        return PICTURES_STEPS * 48

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)  # PLANTED remote
        return torch.ones(1, 32, 32), at % 10


def remote(out: Path, hook: ss.ProfilerHook) -> None:
    PicturesTrainer().train(out, hook, DataLoader(Remote(), 48))


WORDS = re.compile(r"[A-Za-z]+|\d+|[^\w\s]")

LETTER = (
    "On the 3rd of May, 1897, the count wrote a letter: he would come, at last, with 50 boxes of earth. " * 4
)


def collated(rows: list[tuple[str, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.zeros(len(rows), 1, 32, 32)
    for n, (text, _) in enumerate(rows):
        for word in WORDS.findall(text.lower()):
            place = int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16)  # PLANTED letters
            found[n, 0, place % 32, place % 31] += 1
    return found, torch.tensor([kind for _, kind in rows])


def letters(out: Path, hook: ss.ProfilerHook) -> None:
    data = [(LETTER[n % 9 :], n % 10) for n in range(PICTURES_STEPS * 48)]
    PicturesTrainer().train(out, hook, DataLoader(data, 48, collate_fn=collated))  # type: ignore[arg-type]


def warped(out: Path, hook: ss.ProfilerHook) -> None:
    """Pictures are turned one by one before the forward pass."""

    class Warping(PicturesTrainer):
        def prepared(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            turned = np.empty(x.shape, np.float32)
            rows, columns = np.mgrid[:32, :32] - 15.5
            for n, picture in enumerate(x.numpy()):
                angle = np.random.uniform(-0.5, 0.5)
                a = np.clip(np.round(rows * math.cos(angle) - columns * math.sin(angle) + 15.5), 0, 31)
                b = np.clip(np.round(rows * math.sin(angle) + columns * math.cos(angle) + 15.5), 0, 31)
                blurred = sum(np.roll(picture[0], (i, j), (0, 1)) for i in range(-2, 3) for j in range(-2, 3))
                turned[n, 0] = blurred[a.astype(int), b.astype(int)]  # PLANTED warped
            return torch.from_numpy(turned), y

    Warping().train(out, hook, pictures(64))


def hard_examples(out: Path, hook: ss.ProfilerHook) -> None:
    """Each example's loss is read by itself."""

    class Mining(PicturesTrainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            losses = F.cross_entropy(logits, y, reduction="none")
            self.hard = [n for n in range(len(y)) if losses[n].item() > 2.4]  # PLANTED hard_examples

    small = nn.Sequential(nn.Flatten(), nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))
    Mining(small).train(out, hook, pictures(1024))


class Cell(nn.Module):
    """A gated cell of one's own, unrolled in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.new = nn.Linear(96, 128), nn.Linear(96, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs after the last part."""
        state = torch.zeros(len(x), 64)
        for part in x.flatten(1).view(len(x), 32, 32).unbind(1):
            keep, reset = self.gates(torch.cat([part, state], 1)).sigmoid().chunk(2, 1)
            state = keep * state + (1 - keep) * torch.tanh(
                self.new(torch.cat([part, reset * state], 1))
            )  # PLANTED cells
        return self.head(state)


def cells(out: Path, hook: ss.ProfilerHook) -> None:
    PicturesTrainer(Cell()).train(out, hook, pictures(16))


def last_batches(out: Path, hook: ss.ProfilerHook) -> None:
    """A compiled network, and batches none of which is as large as another."""

    class Compiled(PicturesTrainer):
        def __init__(self) -> None:
            super().__init__(nn.Sequential(nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10)))
            self.quick = torch.compile(self.net, dynamic=False)

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.quick(x).sum().backward()  # PLANTED last_batches

    rows = [(torch.randn(32 + n, 1, 32, 32), torch.randint(10, (32 + n,))) for n in range(8)]
    Compiled().train(out, hook, rows)


def one_by_one(out: Path, hook: ss.ProfilerHook) -> None:
    """Momentum by hand for many small tensors."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 48), *[nn.Linear(48, 48) for _ in range(120)])
    velocity = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(pictures(24)):
            loss = F.cross_entropy(net(x), y)
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for name, p in net.named_parameters():
                    velocity[name] = 0.9 * velocity[name] + p.grad + 1e-4 * p
                    p -= 0.01 * velocity[name]  # PLANTED one_by_one


def adam_foreach_off(out: Path, hook: ss.ProfilerHook) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(1024, 64), *[nn.Linear(64, 64) for _ in range(140)])
    optimizer = torch.optim.Adam(net.parameters(), foreach=False)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(pictures(24)):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()  # PLANTED adam_foreach_off


def verbose_log(out: Path, hook: ss.ProfilerHook) -> None:
    """A debug line with all logits, to a file."""
    log = logging.getLogger("planted")
    log.setLevel(logging.DEBUG)
    log.addHandler(logging.FileHandler(out.parent / f"{out.name}.log"))
    log.propagate = False

    class Telling(PicturesTrainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            for n, (row, kind) in enumerate(zip(logits.tolist(), y.tolist(), strict=True)):
                log.debug(
                    "example %d of kind %d: %s", n, kind, [f"{value:.4f}" for value in row]
                )  # PLANTED verbose_log

    Telling().train(out, hook, pictures(512)[:10])


def backup(out: Path, hook: ss.ProfilerHook) -> None:
    """Network and optimizer are written after every step."""

    class Saving(PicturesTrainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state, out / "last.pt")  # PLANTED backup

    wide = nn.Sequential(nn.Flatten(), nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 10))
    Saving(wide).train(out, hook, pictures(32))


def early_stopping(out: Path, hook: ss.ProfilerHook) -> None:
    """The held-out loss is asked after every step."""
    held_out = pictures(96)[:5]

    class Stopping(PicturesTrainer):
        @torch.inference_mode()
        def judged(self) -> float:
            return sum(F.cross_entropy(self.net(x), y).item() for x, y in held_out)  # PLANTED early_stopping

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.net.eval()
            self.best = min(getattr(self, "best", math.inf), self.judged())
            self.net.train()

    Stopping().train(out, hook, pictures())


def versioned(out: Path, hook: ss.ProfilerHook) -> None:
    """A program is asked something in every step."""

    class Asking(PicturesTrainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            subprocess.run(["sleep", "0.06"], check=True)  # PLANTED versioned

    Asking().train(out, hook, pictures())


def coordinated(out: Path, hook: ss.ProfilerHook) -> None:
    """A service says over the network that it has taken the step."""
    here, there = socket.socketpair()

    def serve() -> None:
        while there.recv(1) == b"?":
            time.sleep(0.05)
            there.send(b"!")

    threading.Thread(target=serve, daemon=True).start()

    class Coordinated(PicturesTrainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            here.send(b"?")
            here.recv(1)  # PLANTED coordinated

    Coordinated().train(out, hook, pictures())
    here.send(b".")


def searched(out: Path, hook: ss.ProfilerHook) -> None:
    """The best path through the outputs is searched for in Python."""

    class Searching(PicturesTrainer):
        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            beams = [((), 0.0)]
            for row in logits.tolist():
                longer = [((*path, n), cost - value) for path, cost in beams for n, value in enumerate(row)]
                beams = sorted(longer, key=lambda one: one[1])[:24]  # PLANTED searched

    Searching().train(out, hook, pictures(128))


def moving_average(out: Path, hook: ss.ProfilerHook) -> None:
    """The whole network is copied in every step to keep the last five."""

    class Keeping(PicturesTrainer):
        kept: tuple[nn.Module, ...] = ()

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.kept = (*self.kept[-4:], copy.deepcopy(self.net))  # PLANTED moving_average

    deep = nn.Sequential(nn.Flatten(), nn.Linear(1024, 48), *[nn.Linear(48, 48) for _ in range(200)])
    Keeping(deep).train(out, hook, pictures(64))


def after_steps(out: Path, hook: ss.ProfilerHook) -> None:
    """Between two steps a table of everything so far is sorted."""
    trainer, table = PicturesTrainer(), []
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in pictures():
            with run.step():
                logits = trainer.net(x)
                loss = F.cross_entropy(logits, y)
                trainer.optimizer.zero_grad()
                loss.backward()
                trainer.optimizer.step()
            for row in x.flatten(1).tolist():
                ordered = sorted(round(value, 2) for value in row)  # PLANTED after_steps
                table.append(ordered)


# --- nothing planted ------------------------------------------------------------------------------------


def healthy_trainer(out: Path, hook: ss.ProfilerHook) -> None:
    PicturesTrainer().train(out, hook, pictures())


def healthy_two_readers(out: Path, hook: ss.ProfilerHook) -> None:
    data = TensorDataset(
        torch.randn(PICTURES_STEPS * 64, 1, 32, 32), torch.randint(10, (PICTURES_STEPS * 64,))
    )
    PicturesTrainer(convolutions(48)).train(out, hook, DataLoader(data, 64, num_workers=2))


def healthy_vision(out: Path, hook: ss.ProfilerHook) -> None:
    """A transformer on patches."""

    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cut = nn.Conv2d(1, 96, 4, 4)
            layer = nn.TransformerEncoderLayer(96, 4, 192, batch_first=True, norm_first=True)
            self.inner = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
            self.head = nn.Linear(96, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(self.cut(x).flatten(2).transpose(1, 2)).mean(1))

    PicturesTrainer(Patches()).train(out, hook, pictures(32))


def healthy_averaged(out: Path, hook: ss.ProfilerHook) -> None:
    """An exponential mean of the weights, as the library makes it."""

    class Averaging(PicturesTrainer):
        def __init__(self) -> None:
            super().__init__()
            self.mean = torch.optim.swa_utils.AveragedModel(
                self.net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
            )

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.mean.update_parameters(self.net)

    Averaging().train(out, hook, pictures())


def healthy_clipped(out: Path, hook: ss.ProfilerHook) -> None:
    """Autocast, clipping, a schedule, and a loss that is recorded."""
    trainer = PicturesTrainer(convolutions(32))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(trainer.optimizer, PICTURES_STEPS)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(pictures()):
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(trainer.net(x), y)
            trainer.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trainer.net.parameters(), 1.0)
            trainer.optimizer.step()
            schedule.step()
            run.scalar("train/loss", loss)


def healthy_autoencoder(out: Path, hook: ss.ProfilerHook) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, _ in run.steps(pictures(64)):
            loss = F.mse_loss(net(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def healthy_accuracy(out: Path, hook: ss.ProfilerHook) -> None:
    """Accuracy and loss are read once a step."""

    class Counting(PicturesTrainer):
        seen: tuple[float, ...] = ()

        def after(self, x: torch.Tensor, y: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
            self.seen = (*self.seen, (logits.argmax(1) == y).float().mean().item(), loss.item())

    Counting().train(out, hook, pictures())


def healthy_words(out: Path, hook: ss.ProfilerHook) -> None:
    """A language model of an embedding, an LSTM, and an output for each word."""
    table, inner, head = nn.Embedding(2000, 96), nn.LSTM(96, 160, batch_first=True), nn.Linear(160, 2000)
    parameters = [*table.parameters(), *inner.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(PICTURES_STEPS)):
            words = torch.randint(2000, (16, 33))
            logits = head(inner(table(words[:, :-1]))[0])
            loss = F.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def script(name: str, directory: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    globals()[name](Path(directory), profiler_hook())


def trainer(name: str, directory: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.basicConfig(filename=Path(directory, "train.log"))
    globals()[name](directory, profiler_hook()).fit()


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], sys.argv[3])
