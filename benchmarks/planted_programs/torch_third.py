"""Trainings in PyTorch, a third set judged at first sight, written as trainers and frameworks write them.

Called as ``python torch_third.py NAME DIRECTORY``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler

import stepscope as ss

STEPS, ROWS, WIDTH = 14, 128, 288
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
        self.x, self.y = torch.randn(STEPS * ROWS, WIDTH), torch.randint(0, 10, (STEPS * ROWS,))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> Batch:
        return self.x[at], self.y[at]


class Trainer:
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


class Tokens(Trainer):
    """Text, tokenised as it is asked for."""

    words = re.compile(r"\w+|[^\w\s]")

    def batches(self) -> Iterator[Batch]:
        line = "the quick brown fox, it jumps over 12 lazy dogs; and so on. " * 12
        known: dict[str, int] = {}
        for _ in range(STEPS):
            rows = []
            for _ in range(ROWS):
                row = [known.setdefault(w, len(known)) for w in self.words.findall(line)]  # PLANTED Tokens
                rows.append(row)
            x = torch.tensor(rows)[:, :100].float().mean(1, keepdim=True).expand(-1, WIDTH)
            yield x, torch.zeros(ROWS, dtype=torch.long)


class Weighted(Sampler[int]):
    """Draws rows by weight, one by one."""

    def __iter__(self) -> Iterator[int]:
        weights = [1.0 + n % 7 for n in range(STEPS * ROWS)]
        for _ in range(STEPS * ROWS):
            yield random.choices(range(len(weights)), weights)[0]  # PLANTED Sampled

    def __len__(self) -> int:
        return STEPS * ROWS


class Sampled(Trainer):
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


class Compressed(Trainer):
    """A data set that unpacks."""

    def batches(self) -> DataLoader:
        return DataLoader(Inflated(), batch_size=ROWS)


def pad(rows: list[list[float]]) -> list[list[float]]:
    longest = max(len(row) for row in rows)
    return [row + [0.0] * (longest - len(row)) for row in rows]


def together(rows: list[Batch]) -> Batch:
    lists = [[float(v) for v in x.tolist() * 3] for x, _ in rows]  # PLANTED Padded
    return torch.tensor(pad(lists))[:, :WIDTH], torch.stack([y for _, y in rows])


class Padded(Trainer):
    """A collate function in Python."""

    def batches(self) -> DataLoader:
        return DataLoader(Examples(), batch_size=ROWS, collate_fn=together)


class Streamed(IterableDataset):
    """Rows as JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        row = json.dumps({"x": [round(0.1 * n, 3) for n in range(WIDTH)], "y": 1})
        path.write_text(f"{row}\n" * (STEPS * ROWS))

    def __iter__(self) -> Iterator[Batch]:
        with self.path.open() as lines:
            for line in lines:
                row = json.loads(line)  # PLANTED JsonLines
                yield torch.tensor(row["x"]), torch.tensor(row["y"])


class JsonLines(Trainer):
    """A stream of text in the trainer's process."""

    def batches(self) -> DataLoader:
        return DataLoader(Streamed(self.directory / "rows.jsonl"), batch_size=ROWS)


class Ahead(Trainer):
    """A batch that another thread prepares, too slowly."""

    def make(self, n: int) -> Batch:
        rows = [sorted(random.random() for _ in range(WIDTH)) for _ in range(3 * ROWS)]
        return torch.tensor(rows[:ROWS]), torch.zeros(ROWS, dtype=torch.long)

    def batches(self) -> Iterator[Batch]:
        with ThreadPoolExecutor(1) as pool:
            for n in range(STEPS):
                yield pool.submit(self.make, n).result()  # PLANTED Ahead


# --- between the batch and the model -------------------------------------------------------------------


class Cutout(Trainer):
    """An augmentation, row by row, in numpy."""

    def prepare(self, batch: Batch) -> Batch:
        x, y = batch
        array = x.numpy().copy()
        for row in array:
            row[:] = np.convolve(row, np.hanning(61), "same")[np.argsort(row)]  # PLANTED Cutout
        return torch.from_numpy(array), y


class Labels(Trainer):
    """Labels that are made of text in the loop."""

    def prepare(self, batch: Batch) -> Batch:
        x, y = batch
        names = [f"class-{int(each)}/sample-{n}" for n, each in enumerate(y.tolist() * 60)]
        found = [int(re.sub(r"class-(\d+)/.*", r"\1", name)) for name in names]  # PLANTED Labels
        return x, torch.tensor(found[:ROWS])


# --- the model and the update ------------------------------------------------------------------------


class Pairwise(Trainer):
    """A contrastive loss, pair by pair."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        code, total = self.model(x), torch.zeros(())
        for a in range(ROWS - 1):
            for b in (a + 1, (a + 7) % ROWS):
                total = total + (code[a] - code[b]).square().sum().sqrt()  # PLANTED Pairwise
        return total / ROWS


class Heads(Trainer):
    """One small layer after the other, for each feature."""

    def __init__(self, directory: str, hook: ss.ProfilerHook) -> None:
        super().__init__(directory, hook)
        self.model.small = nn.ModuleList(nn.Linear(1, 4) for _ in range(WIDTH))

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = [
            torch.tanh(layer(x[:, n : n + 1])) for n, layer in enumerate(self.model.small)
        ]  # PLANTED Heads
        return super().loss(x, y) + torch.cat(parts, 1).mean()


class Growing(Trainer):
    """A compiled model that sees another length each time."""

    def fit(self) -> None:
        compiled = torch.compile(self.model, dynamic=False, backend="aot_eager")
        torch._dynamo.config.recompile_limit = 100
        with ss.Run(self.directory, hooks=[self.hook]) as run:
            for n in run.steps(range(STEPS)):
                x = torch.randn(ROWS - 3 * n, WIDTH)
                out = compiled(x)  # PLANTED Growing
                self.update(out.square().mean())


class Averaged(Trainer):
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


class OwnOptimizer(Trainer):
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


class Metered(Trainer):
    """Accuracy by ``item``."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        Meter().update(torch.zeros(ROWS, 10), batch[1])


class Verbose(Trainer):
    """Weights in the log, of every step."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        log = logging.getLogger("train")
        for name, value in self.model.named_parameters():
            log.warning("%s %s", name, value.detach().flatten()[:5000].tolist())  # PLANTED Verbose


class Best(Trainer):
    """A checkpoint each time, compressed to a file and moved."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        part = self.directory / "best.part"
        torch.save(
            {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, part
        )  # PLANTED Best
        shutil.move(part, self.directory / "best.pt")


class Scored(Trainer):
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


class Reported(Trainer):
    """Waits for an answer of somebody else, as a coroutine."""

    async def report(self) -> None:
        await asyncio.sleep(0.06)

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        asyncio.run(self.report())  # PLANTED Reported


class Counted(Trainer):
    """Statistics of the gradients in Python."""

    def after(self, loss: torch.Tensor, batch: Batch) -> None:
        values = self.model.head.weight.detach().flatten().tolist() * 12
        mean = sum(values) / len(values)
        sum((value - mean) ** 2 for value in values)  # PLANTED Counted


class Copied(Trainer):
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


class LightningLoader(Trainer):
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


class FaceCollator(Trainer):
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


class HealthyTrainer(Trainer):
    """As it is."""


class HealthyPenalty(Trainer):
    """A gradient penalty: backward through backward."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        plain = super().loss(x, y)
        (slope,) = torch.autograd.grad(plain, x, create_graph=True)
        return plain + slope.square().sum()


class HealthyDenoising(Trainer):
    """A diffusion loss: noise is drawn and added."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        when, noise = torch.rand(len(x), 1), torch.randn_like(x)
        return (self.model((1 - when) * x + when * noise) - noise[:, :10]).square().mean()


class HealthyExperts(Trainer):
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


class HealthySecondOrder(Trainer):
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


class HealthyPooled(Trainer):
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.basicConfig(filename=Path(sys.argv[2], "train.log"))
    globals()[sys.argv[1]](
        sys.argv[2],
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    ).fit()
