"""Training loops in PyTorch, most of them over layers of one width.

Called as ``python torch_loops.py TRAINING PROGRAM DIRECTORY``, in an environment that
``planted.py`` makes. The table in ``programs.txt`` has all trainings and programs.
"""

from __future__ import annotations

import collections
import gc
import gzip
import http.server
import io
import json
import logging
import os
import pickle
import queue
import re
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from hook import profiler_hook
from PIL import Image
from torch import nn
from torch.utils.checkpoint import checkpoint_sequential
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import stepscope as ss

# Batches of random rows, steps that are all alike.

BATCH, PLAIN_WIDTH = 64, 512


class PlainReady(Dataset):
    """Samples that are there."""

    def __init__(self, count: int) -> None:
        self.data = torch.randn(count, PLAIN_WIDTH)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, at: int) -> torch.Tensor:
        return self.data[at]


class SlowFiles(PlainReady):
    """Samples that take their time to come."""

    def __getitem__(self, at: int) -> torch.Tensor:
        time.sleep(0.0008)  # PLANTED slow_loader
        return self.data[at]


def plain_network(depth: int = 6, width: int = PLAIN_WIDTH) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def plain_batches(count: int) -> Iterator[torch.Tensor]:
    data = [torch.randn(BATCH * 4, PLAIN_WIDTH) for _ in range(4)]
    for n in range(count):
        yield data[n % 4]


def plain_train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    out = model(x)
    loss = (out**2).mean()
    loss.backward()
    optimizer.step()
    return out.detach()


def augment(x: torch.Tensor) -> torch.Tensor:
    rows = x.tolist()
    return torch.tensor([[value * 0.5 + 0.1 for value in row] for row in rows])  # PLANTED slow_transform


def accuracy(out: torch.Tensor) -> float:
    right = 0.0
    for row in range(len(out)):
        for column in range(8):
            right += out[row, column].item() > 0  # PLANTED item_in_loop
    return right


def many_small(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(4)
    for n in range(1500):
        total = total + x[0, :4] * n  # PLANTED small_kernels
    return total


class Writer:
    """Logs far too much."""

    def __init__(self) -> None:
        self.file = io.StringIO()

    def log_everything(self, model: torch.nn.Module) -> None:
        """Log all weights."""
        for name, value in model.named_parameters():
            self.file.write(name + str(value.detach().flatten()[:6000].tolist()))  # PLANTED logging


def save_checkpoint(model: torch.nn.Module, directory: str) -> None:
    torch.save(model.state_dict(), f"{directory}/weights.pt")  # PLANTED checkpoint


def simple(
    step: Callable[[int, torch.Tensor, torch.nn.Module, torch.optim.Optimizer], None], **of: int
) -> Callable:
    """Return a program whose steps are all like this one."""

    def program(directory: str, hook: ss.ProfilerHook) -> None:
        model = plain_network(**of)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        with ss.Run(directory, hooks=[hook]) as run:
            for n, x in enumerate(run.steps(plain_batches(14))):
                step(n, x, model, optimizer)

    return program


def slow_loader(directory: str, hook: ss.ProfilerHook) -> None:
    model = plain_network()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(DataLoader(SlowFiles(BATCH * 14), batch_size=BATCH)):
            plain_train(model, optimizer, x)


def unfused_optimizer(directory: str, hook: ss.ProfilerHook) -> None:
    model = plain_network(depth=60, width=32)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(plain_batches(14)):
            optimizer.zero_grad(set_to_none=False)
            (model(x[:, :32]) ** 2).mean().backward()
            optimizer.step()  # PLANTED unfused_optimizer


def recompilation(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.automatic_dynamic_shapes = False
    model = plain_network(depth=2)
    compiled = torch.compile(model, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(plain_batches(8))):
            optimizer.zero_grad()
            (compiled(x[: 100 + n]) ** 2).mean().backward()  # PLANTED recompilation
            optimizer.step()


def with_transform(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    plain_train(model, optimizer, augment(x))


def with_items(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    accuracy(plain_train(model, optimizer, x))


def with_small(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    many_small(x)
    plain_train(model, optimizer, x)


WRITER = Writer()


def with_logging(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    plain_train(model, optimizer, x)
    WRITER.log_everything(model)


def with_checkpoint(
    n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    plain_train(model, optimizer, x)
    save_checkpoint(model, sys.argv[3])


def plain(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    plain_train(model, optimizer, x)


def healthy_loader(directory: str, hook: ss.ProfilerHook) -> None:
    model = plain_network(depth=16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(
            DataLoader(PlainReady(128 * 14), batch_size=128, num_workers=1, prefetch_factor=4)
        ):
            plain_train(model, optimizer, x)


def healthy_convolution(directory: str, hook: ss.ProfilerHook) -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.Flatten(1),
        torch.nn.Linear(32 * 28 * 28, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01, fused=True)
    data = torch.randn(64, 3, 32, 32)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            plain_train(model, optimizer, data)


def healthy_inference(directory: str, hook: ss.ProfilerHook) -> None:
    model = plain_network(depth=12, width=1024)
    data = torch.randn(256, 1024)
    with ss.Run(directory, hooks=[hook]) as run, torch.no_grad():
        for _ in run.steps(range(14)):
            model(data)


def healthy_scalars(
    n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    loss = plain_train(model, optimizer, x)
    loss.mean().item()


def one_of_two(rank: int, directory: str, late: float) -> None:
    """Train in one of two processes that average their gradients; the second one may come late."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "WORLD_SIZE": "2"}
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{directory}/store", 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = plain_network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=True)
    with ss.Run(directory, hooks=[hook(ranks="all")]) as run:
        for x in run.steps(plain_batches(14)):
            optimizer.zero_grad()
            for _ in range(4 if rank == 1 and late else 1):
                (model(x) ** 2).mean().backward()
            for parameter in model.parameters():
                torch.distributed.all_reduce(parameter.grad)
            optimizer.step()
    torch.distributed.destroy_process_group()


def two_ranks(late: float) -> Callable[[str, ss.ProfilerHook], None]:
    def program(directory: str, _: ss.ProfilerHook) -> None:
        torch.multiprocessing.spawn(one_of_two, (directory, late), nprocs=2)

    return program


def hook(**options: object) -> ss.ProfilerHook:
    return profiler_hook(record_shapes=True, **options)


def rated(
    again: Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor], *, noise: float = 0.0
) -> Callable:
    """Return a program that rates what its model says of each batch; how is given what was said before."""

    def program(directory: str, hook: ss.ProfilerHook) -> None:
        model = nn.Sequential(nn.Dropout(noise), *plain_network()) if noise else plain_network()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        with ss.Run(directory, hooks=[hook]) as run:
            for x in run.steps(plain_batches(14)):
                optimizer.zero_grad()
                out = model(x)
                rate = again(model, x, out)
                (out**2).mean().backward()
                optimizer.step()
                run.scalar("train/rate", rate)

    return program


def rate_anew(model: nn.Module, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return (model(x) > 0).float().mean()  # PLANTED model_twice


def rate_twice(model: nn.Module, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Compare two draws of dropout, as some trainings do on purpose."""
    return (model(x) - out).abs().mean()


def rate_output(model: nn.Module, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return (out.detach() > 0).float().mean()


def from_numpy(kind: type[np.floating]) -> Callable:
    """Return a program whose model has the type of its data, which NumPy made."""

    def program(directory: str, hook: ss.ProfilerHook) -> None:
        rows = torch.from_numpy(np.random.default_rng(0).normal(size=(BATCH * 8, PLAIN_WIDTH)).astype(kind))
        model = plain_network().to(rows.dtype)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        with ss.Run(directory, hooks=[hook]) as run:
            for _ in run.steps(range(14)):
                plain_train(model, optimizer, rows)

    return program


def counted(rows: dict[str, int]) -> None:
    rows["odd"] = sum(number % 2 for number in range(100_000))  # PLANTED counted_beside


def sorted_arrays(rows: dict[str, int]) -> None:
    """NumPy lets others run Python meanwhile."""
    rows["middle"] = int(np.sort(np.random.default_rng(0).random(300_000))[150_000])


def looked_at(rows: dict[str, int]) -> None:
    rows["odd"] = sum(number % 2 for number in range(1_000))
    time.sleep(0.1)


def beside(work: Callable[[dict[str, int]], None]) -> Callable[[str, ss.ProfilerHook], None]:
    """Train while a thread does something again and again."""

    def run(directory: str, hook: ss.ProfilerHook) -> None:
        ended, rows = threading.Event(), dict[str, int]()

        def again() -> None:
            while not ended.is_set():
                work(rows)

        threading.Thread(target=again, daemon=True).start()
        time.sleep(0.1)
        simple(plain, depth=8)(directory, hook)
        ended.set()

    return run


PROGRAMS: dict[str, Callable[[str, ss.ProfilerHook], None]] = {
    "slow_loader": slow_loader, "slow_transform": simple(with_transform), "item_in_loop": simple(with_items),
    "small_kernels": simple(with_small, depth=1), "recompilation": recompilation,
    "unfused_optimizer": unfused_optimizer, "logging": simple(with_logging),
    "checkpoint": simple(with_checkpoint),
    "healthy_plain": simple(plain), "healthy_deep": simple(plain, depth=16), "healthy_loader": healthy_loader,
    "healthy_convolution": healthy_convolution, "healthy_inference": healthy_inference,
    "model_twice": rated(rate_anew), "model_in_float64": from_numpy(np.float64),
    "healthy_rated": rated(rate_output), "healthy_noise": rated(rate_twice, noise=0.1),
    "healthy_float32": from_numpy(np.float32),
    "counted_beside": beside(counted), "healthy_arrays_beside": beside(sorted_arrays),
    "healthy_looks_beside": beside(looked_at),
    "healthy_scalars": simple(healthy_scalars), "slow_rank": two_ranks(1.0), "healthy_ranks": two_ranks(0.0),
}  # fmt: skip


# A network of GELUs, and what is done after each of its steps.

GELU_WIDTH = 512


class Texts(Dataset):
    """Rows of numbers, slow ones where that is planted."""

    def __init__(self, count: int, seconds: float = 0.0) -> None:
        self.rows = torch.randn(count, GELU_WIDTH)
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> torch.Tensor:
        if self.seconds:
            end = time.perf_counter() + self.seconds
            while time.perf_counter() < end:  # PLANTED worker_dataset
                pass
        return self.rows[at]


def padded(rows: list[torch.Tensor]) -> torch.Tensor:
    lists = [[float(value) for value in row] for row in rows]  # PLANTED slow_collate
    return torch.tensor(lists)


def gelu_mlp() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    layers: list[torch.nn.Module] = []
    for _ in range(6):
        layers += [torch.nn.Linear(GELU_WIDTH, GELU_WIDTH), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers)
    return model, torch.optim.AdamW(model.parameters(), fused=True)


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def loop(directory: str, hook: ss.ProfilerHook, data: object, after: Callable | None = None) -> None:
    model, optimizer = gelu_mlp()
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(data):
            learn(model, optimizer, x)
            if after is not None:
                after(model, x)


def ready() -> list[torch.Tensor]:
    return [torch.randn(256, GELU_WIDTH) for _ in range(14)]


def slow_collate(directory: str, hook: ss.ProfilerHook) -> None:
    loop(directory, hook, DataLoader(Texts(14 * 256), batch_size=256, collate_fn=padded))


def worker_dataset(directory: str, hook: ss.ProfilerHook) -> None:
    loop(directory, hook, DataLoader(Texts(14 * 64, 0.002), batch_size=64, num_workers=1))


def clip_item(directory: str, hook: ss.ProfilerHook) -> None:
    def clip(model: torch.nn.Module, x: torch.Tensor) -> None:
        total = 0.0
        for parameter in model.parameters():
            for row in parameter.grad.reshape(-1)[:500]:
                total += row.item() ** 2  # PLANTED clip_item

    loop(directory, hook, ready(), clip)


def numpy_augment(directory: str, hook: ss.ProfilerHook) -> None:
    model, optimizer = gelu_mlp()
    rng = np.random.default_rng(0)

    def jitter(x: torch.Tensor) -> torch.Tensor:
        noise = rng.normal(size=(len(x), GELU_WIDTH * 8))  # PLANTED numpy_augment
        return x + torch.from_numpy(noise[:, :GELU_WIDTH].astype(np.float32))

    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(ready()):
            learn(model, optimizer, jitter(x))


def save_inline(directory: str, hook: ss.ProfilerHook) -> None:
    def keep(model: torch.nn.Module, x: torch.Tensor) -> None:
        torch.save(
            {"model": model.state_dict(), "extra": torch.zeros(4_000_000)}, f"{directory}/last.pt"
        )  # PLANTED save_inline

    loop(directory, hook, ready(), keep)


def validate_each(directory: str, hook: ss.ProfilerHook) -> None:
    held_out = torch.randn(2048, GELU_WIDTH)

    def validate(model: torch.nn.Module, x: torch.Tensor) -> None:
        with torch.no_grad():
            model(held_out).mean()  # PLANTED validate_each

    loop(directory, hook, ready(), validate)


def sleeping(directory: str, hook: ss.ProfilerHook) -> None:
    def throttle(model: torch.nn.Module, x: torch.Tensor) -> None:
        time.sleep(0.02)  # PLANTED sleeping

    loop(directory, hook, ready(), throttle)


def json_log(directory: str, hook: ss.ProfilerHook) -> None:
    def record(model: torch.nn.Module, x: torch.Tensor) -> None:
        state = {name: value.flatten()[:4000].tolist() for name, value in model.state_dict().items()}
        Path(directory, "state.json").write_text(json.dumps(state))  # PLANTED json_log

    loop(directory, hook, ready(), record)


def worker_start(directory: str, hook: ss.ProfilerHook) -> None:
    model, optimizer = gelu_mlp()
    data = Texts(2 * 64)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in range(14):
            loader = DataLoader(data, batch_size=128, num_workers=1)
            with run.step():
                for x in loader:  # PLANTED worker_start
                    learn(model, optimizer, x)


def python_scalar(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.automatic_dynamic_shapes = False
    model, _ = gelu_mlp()

    @torch.compile(backend="aot_eager", dynamic=False)
    def scaled(x: torch.Tensor, repeat: int) -> torch.Tensor:
        return model(x).repeat(repeat, 1).mean()

    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(ready()[:8])):
            scaled(x, n + 2).backward()  # PLANTED python_scalar


def callbacks(directory: str, hook: ss.ProfilerHook) -> None:
    model, optimizer = gelu_mlp()
    seen: list[float] = []
    with ss.Run(directory, hooks=[hook]) as run:
        for x in ready():
            with run.step():
                learn(model, optimizer, x)
            seen.extend(sorted(x.flatten().tolist())[:10])  # PLANTED callbacks


def healthy_steps(directory: str, hook: ss.ProfilerHook) -> None:
    model, optimizer = gelu_mlp()
    with ss.Run(directory, hooks=[hook]) as run:
        for x in ready():
            with run.step():
                run.scalar("loss", learn(model, optimizer, x).item())


def healthy_rnn(directory: str, hook: ss.ProfilerHook) -> None:
    model = torch.nn.GRU(256, 256, num_layers=2, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=True)
    data = torch.randn(32, 48, 256)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            optimizer.zero_grad()
            model(data)[0].square().mean().backward()
            optimizer.step()


def healthy_transformer(directory: str, hook: ss.ProfilerHook) -> None:
    layer = torch.nn.TransformerEncoderLayer(256, 4, 512, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    data = torch.randn(8, 64, 256)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            learn(model, optimizer, data)


# Tables, words, sounds and recurrences.

WORDS_STEPS, WORDS_ROWS, WORDS_WIDTH = 14, 128, 384

log = logging.getLogger("training")


class Table(Dataset):
    """Rows of text, turned into numbers one by one."""

    def __init__(self) -> None:
        row = ",".join(f"{n * 0.37:.6f}" for n in range(WORDS_WIDTH))
        self.rows = [row] * (WORDS_STEPS * WORDS_ROWS)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> torch.Tensor:
        return torch.tensor([float(cell) for cell in self.rows[at].split(",")])  # PLANTED csv_rows


class Sentences(Dataset):
    """Sentences that are cut into words."""

    def __init__(self) -> None:
        self.text = "the quick brown fox jumps over the lazy dog, again and again; " * 60

    def __len__(self) -> int:
        return WORDS_STEPS * WORDS_ROWS

    def __getitem__(self, at: int) -> torch.Tensor:
        words = [hash(word) % 1000 for word in re.findall(r"\w+", self.text)]  # PLANTED worker_words
        return torch.tensor(words[:WORDS_WIDTH], dtype=torch.float32)


class Packed(IterableDataset):
    """Batches that lie compressed."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.packed = gzip.compress(
            rng.integers(0, 9, (WORDS_ROWS, WORDS_WIDTH * 24)).astype(np.float32).tobytes(), 1
        )

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(WORDS_STEPS):
            raw = gzip.decompress(self.packed)  # PLANTED iterable_gzip
            yield torch.from_numpy(
                np.frombuffer(raw, np.float32).reshape(WORDS_ROWS, -1)[:, :WORDS_WIDTH].copy()
            )


class WordsReady(Dataset):
    """Rows that are there already."""

    def __init__(self) -> None:
        self.rows = torch.randn(WORDS_STEPS * WORDS_ROWS, WORDS_WIDTH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> torch.Tensor:
        return self.rows[at]


class Cell(nn.Module):
    """A recurrence that is written out step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last state."""
        state = torch.zeros(4, 32)
        for n in range(300):
            state = torch.tanh(state * self.gate + x[:4, n : n + 1])  # PLANTED python_recurrence
        return state


def words_network(depth: int = 6) -> nn.Sequential:
    return nn.Sequential(
        *[layer for _ in range(depth) for layer in (nn.Linear(WORDS_WIDTH, WORDS_WIDTH), nn.SiLU())]
    )


def fused(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), 1e-4, fused=True)


def words_batches() -> list[torch.Tensor]:
    return [torch.randn(WORDS_ROWS, WORDS_WIDTH) for _ in range(WORDS_STEPS)]


def words_train(
    directory: str, hook: ss.ProfilerHook, data: object, extra: Callable[[nn.Module, torch.Tensor], object]
) -> None:
    model = words_network()
    optimizer = fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(data):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            extra(model, x)


def nothing(model: nn.Module, x: torch.Tensor) -> None:
    pass


def csv_rows(directory: str, hook: ss.ProfilerHook) -> None:
    words_train(directory, hook, DataLoader(Table(), batch_size=WORDS_ROWS), nothing)


def worker_words(directory: str, hook: ss.ProfilerHook) -> None:
    words_train(directory, hook, DataLoader(Sentences(), batch_size=WORDS_ROWS, num_workers=1), nothing)


def iterable_gzip(directory: str, hook: ss.ProfilerHook) -> None:
    words_train(directory, hook, DataLoader(Packed(), batch_size=None), nothing)


def mixed(x: torch.Tensor) -> torch.Tensor:
    spectrum = np.abs(np.fft.fft2(np.repeat(x.numpy(), 4, axis=0)))[:WORDS_ROWS]  # PLANTED spectrum
    return torch.from_numpy(spectrum.astype(np.float32))


def spectrum(directory: str, hook: ss.ProfilerHook) -> None:
    model = words_network()
    optimizer = fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(words_batches()):
            optimizer.zero_grad()
            model(mixed(x)).pow(2).mean().backward()
            optimizer.step()


def confusion(directory: str, hook: ss.ProfilerHook) -> None:
    counts = np.zeros((10, 10))

    def count(model: nn.Module, x: torch.Tensor) -> None:
        guess, truth = x[:, :10].argmax(1), x[:, 10:20].argmax(1)
        for _ in range(6):
            for n in range(len(x)):
                counts[guess[n].item(), truth[n].item()] += 1  # PLANTED confusion

    words_train(directory, hook, words_batches(), count)


def python_recurrence(directory: str, hook: ss.ProfilerHook) -> None:
    model = Cell()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(words_batches()):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()


def sequence_lengths(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.automatic_dynamic_shapes = False
    torch._dynamo.config.recompile_limit = 64
    model = torch.compile(words_network(2), backend="aot_eager", dynamic=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for n in run.steps(range(10)):
            model(torch.randn(WORDS_ROWS + n, WORDS_WIDTH)).sum().backward()  # PLANTED sequence_lengths


def hand_sgd(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(*[nn.Linear(24, 24) for _ in range(120)])
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(WORDS_STEPS)):
            model(torch.randn(8, 24)).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad.clamp(-1, 1)  # PLANTED hand_sgd
                    parameter.grad = None


def adam_loop(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.ModuleList([nn.Linear(48, 48) for _ in range(200)])
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(WORDS_STEPS)):
            optimizer.zero_grad()
            torch.stack([layer.weight.sum() for layer in model]).sum().backward()
            optimizer.step()  # PLANTED adam_loop


def logged_weights(directory: str, hook: ss.ProfilerHook) -> None:
    log.addHandler(logging.StreamHandler(io.StringIO()))
    log.setLevel(logging.INFO)

    def tell(model: nn.Module, x: torch.Tensor) -> None:
        log.info(
            "weights %s", [p.flatten()[:4000].tolist() for p in model.parameters()]
        )  # PLANTED logged_weights

    words_train(directory, hook, words_batches(), tell)


def pickled(directory: str, hook: ss.ProfilerHook) -> None:
    def save_checkpoint(model: nn.Module, x: torch.Tensor) -> None:
        state = {name: value.numpy() for name, value in model.state_dict().items()}
        for n in range(6):
            with Path(directory, f"state-{n}.pkl").open("wb") as file:
                pickle.dump(state, file)  # PLANTED pickled

    words_train(directory, hook, words_batches(), save_checkpoint)


def held_out(directory: str, hook: ss.ProfilerHook) -> None:
    data = [torch.randn(WORDS_ROWS * 4, WORDS_WIDTH) for _ in range(3)]

    def evaluate(model: nn.Module, x: torch.Tensor) -> float:
        with torch.inference_mode():
            return sum(model(each).mean().item() for each in data)  # PLANTED held_out

    words_train(directory, hook, words_batches(), evaluate)


def shell(directory: str, hook: ss.ProfilerHook) -> None:
    def measure(model: nn.Module, x: torch.Tensor) -> None:
        subprocess.run(["sleep", "0.05"], check=True)  # PLANTED shell

    words_train(directory, hook, words_batches(), measure)


def collected(directory: str, hook: ss.ProfilerHook) -> None:
    kept = [[n, {n: [n]}] for n in range(200_000)]
    model = words_network()
    optimizer = fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in words_batches():
            with run.step():
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            gc.collect()  # PLANTED collected
    assert kept


def healthy_workers(directory: str, hook: ss.ProfilerHook) -> None:
    words_train(directory, hook, DataLoader(WordsReady(), batch_size=WORDS_ROWS, num_workers=1), nothing)


def healthy_images(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(nn.Conv2d(3, 24, 3, 2), nn.ReLU(), nn.Conv2d(24, 48, 3, 2), nn.ReLU(),
                          nn.Flatten(), nn.LazyLinear(10))  # fmt: skip
    images = torch.randn(32, 3, 64, 64)
    model(images)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(WORDS_STEPS)):
            optimizer.zero_grad()
            loss = model(images).logsumexp(1).mean()
            loss.backward()
            optimizer.step()
            run.scalar("loss", loss.item())


def healthy_pair(directory: str, hook: ss.ProfilerHook) -> None:
    maker, critic = words_network(3), words_network(3)
    one, two = fused(maker), fused(critic)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(words_batches()):
            two.zero_grad()
            (critic(maker(x).detach()).mean() - critic(x).mean()).backward()
            two.step()
            one.zero_grad()
            (-critic(maker(x)).mean()).backward()
            one.step()


def healthy_accumulation(directory: str, hook: ss.ProfilerHook) -> None:
    model = words_network()
    optimizer = fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(words_batches()):
            optimizer.zero_grad()
            for part in x.repeat(4, 1).chunk(2):
                (model(part).pow(2).mean() / 2).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def healthy_compiled(directory: str, hook: ss.ProfilerHook) -> None:
    model = words_network()
    compiled, optimizer = torch.compile(model, backend="aot_eager"), fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps([each.repeat(4, 1) for each in words_batches()]):
            optimizer.zero_grad()
            compiled(x).pow(2).mean().backward()
            optimizer.step()


def healthy_attention(directory: str, hook: ss.ProfilerHook) -> None:
    attention, norm = nn.MultiheadAttention(256, 4, batch_first=True), nn.LayerNorm(256)
    optimizer = torch.optim.AdamW([*attention.parameters(), *norm.parameters()], fused=True)
    x = torch.randn(16, 128, 256)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(WORDS_STEPS)):
            optimizer.zero_grad()
            norm(x + attention(x, x, x, need_weights=False)[0]).pow(2).mean().backward()
            optimizer.step()


# Data that lie in files, databases and queues.

STORED_STEPS, STORED_ROWS, STORED_WIDTH = 14, 96, 320


class FilesOnDisk(Dataset):
    """One small file a row."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory, "rows")
        self.directory.mkdir()
        for n in range(STORED_ROWS):
            np.save(self.directory / f"{n}.npy", np.ones((8, STORED_WIDTH), np.float32))

    def __len__(self) -> int:
        return STORED_STEPS * STORED_ROWS

    def __getitem__(self, at: int) -> torch.Tensor:
        return torch.from_numpy(
            np.load(self.directory / f"{at % STORED_ROWS}.npy").mean(0)
        )  # PLANTED files_on_disk


class Rows(Dataset):
    """Rows of a database."""

    def __init__(self, directory: str) -> None:
        self.base = sqlite3.connect(f"{directory}/rows.db")
        self.base.execute("create table rows (id integer, value blob)")
        raw = np.ones(STORED_WIDTH, np.float32).tobytes()
        self.base.executemany("insert into rows values (?, ?)", [(n, raw) for n in range(3000)])

    def __len__(self) -> int:
        return STORED_STEPS * STORED_ROWS

    def __getitem__(self, at: int) -> torch.Tensor:
        asked = "select value from rows where id = ?"
        (raw,) = self.base.execute(asked, (at % 3000,)).fetchone()  # PLANTED database
        return torch.frombuffer(bytearray(raw), dtype=torch.float32)


class Nested(Dataset):
    """Rows that come as many Python objects, slow to hand from a worker to the trainer."""

    def __len__(self) -> int:
        return STORED_STEPS

    def __getitem__(self, at: int) -> dict[str, Any]:
        tokens = {str(n): [n, [n + 1]] for n in range(120_000)}  # PLANTED nested_worker
        return {"x": torch.ones(STORED_ROWS, STORED_WIDTH), "tokens": tokens}


class StoredReady(Dataset):
    """Rows that are there."""

    def __init__(self) -> None:
        self.rows = torch.randn(STORED_STEPS * STORED_ROWS, STORED_WIDTH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> torch.Tensor:
        return self.rows[at]


def tower(depth: int = 6) -> nn.Sequential:
    blocks = [
        nn.Sequential(nn.Linear(STORED_WIDTH, STORED_WIDTH), nn.LayerNorm(STORED_WIDTH), nn.GELU())
        for _ in range(depth)
    ]
    return nn.Sequential(*blocks)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-4, fused=True)


def some(count: int = STORED_STEPS) -> list[torch.Tensor]:
    return [torch.randn(STORED_ROWS, STORED_WIDTH) for _ in range(count)]


def once(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    return loss


def stored_fit(
    directory: str,
    hook: ss.ProfilerHook,
    data: Any,
    after: Callable[[nn.Module, torch.Tensor], object] | None = None,
) -> None:
    model = tower()
    optimizer = adam(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(data):
            once(model, optimizer, x)
            if after is not None:
                after(model, x)


def files_on_disk(directory: str, hook: ss.ProfilerHook) -> None:
    stored_fit(directory, hook, DataLoader(FilesOnDisk(directory), batch_size=STORED_ROWS))


def database(directory: str, hook: ss.ProfilerHook) -> None:
    stored_fit(directory, hook, DataLoader(Rows(directory), batch_size=STORED_ROWS))


def first_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return rows[0]


def nested_worker(directory: str, hook: ss.ProfilerHook) -> None:
    model = tower()
    optimizer = adam(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for batch in run.steps(DataLoader(Nested(), 1, num_workers=1, collate_fn=first_of)):
            once(model, optimizer, batch["x"])


def queued(directory: str, hook: ss.ProfilerHook) -> None:
    ready: queue.Queue[torch.Tensor | None] = queue.Queue(2)

    def produce() -> None:
        for x in some():
            time.sleep(0.06)
            ready.put(x)
        ready.put(None)

    def batches() -> Iterator[torch.Tensor]:
        while (x := ready.get()) is not None:  # PLANTED queued
            yield x

    threading.Thread(target=produce, daemon=True).start()
    stored_fit(directory, hook, batches())


def merged(text: str) -> list[str]:
    pieces = list(text)
    for _ in range(12):
        pairs = Counter(pairwise(pieces))
        best = max(pairs, key=lambda pair: pairs[pair])
        joined: list[str] = []
        at = 0
        while at < len(pieces):  # PLANTED byte_pairs
            if at + 1 < len(pieces) and (pieces[at], pieces[at + 1]) == best:
                joined.append(pieces[at] + pieces[at + 1])
                at += 2
            else:
                joined.append(pieces[at])
                at += 1
        pieces = joined
    return pieces


def byte_pairs(directory: str, hook: ss.ProfilerHook) -> None:
    model = tower()
    optimizer = adam(model)
    text = "what is loaded is not what is learned and what is learned is not what is loaded " * 80
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            x[:, 0] = len(merged(text))
            once(model, optimizer, x)


def pictures(directory: str, hook: ss.ProfilerHook) -> None:
    model = tower()
    optimizer = adam(model)
    picture = Image.fromarray(np.ones((480, 480, 3), np.uint8))

    def turned() -> torch.Tensor:
        rows = [
            np.asarray(picture.rotate(n).resize((32, 10))).mean(2).reshape(-1) for n in range(24)
        ]  # PLANTED pictures
        return torch.from_numpy(np.stack(rows * 4).astype(np.float32))

    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STORED_STEPS)):
            once(model, optimizer, turned())


def gradient_norms(directory: str, hook: ss.ProfilerHook) -> None:
    def norms(model: nn.Module, x: torch.Tensor) -> None:
        for _ in range(30):
            sum(float(each.grad[0].norm()) for each in model.parameters())  # PLANTED gradient_norms

    stored_fit(directory, hook, some(), norms)


def finite_check(directory: str, hook: ss.ProfilerHook) -> None:
    def check(model: nn.Module, x: torch.Tensor) -> None:
        for row in x.repeat(8, 1):
            if not torch.isfinite(row).all():  # PLANTED finite_check
                raise ValueError("not finite")

    stored_fit(directory, hook, some(), check)


def row_by_row(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = adam(model)
    data = torch.randn(300, 16)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STORED_STEPS)):
            optimizer.zero_grad()
            total = torch.zeros(())
            for row in data:
                total = total + model(row).square().sum()  # PLANTED row_by_row
            total.backward()
            optimizer.step()


def changing_type(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.recompile_limit = 64
    weight = torch.randn(STORED_WIDTH, STORED_WIDTH, requires_grad=True)

    @torch.compile(backend="aot_eager")
    def scaled(x: torch.Tensor, options: dict[str, int]) -> torch.Tensor:
        for _ in options:
            x = torch.tanh(x @ weight)
        return x.sum()

    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(some(10))):
            scaled(x, {str(k): k for k in range(n + 2)}).backward()  # PLANTED changing_type


def rmsprop_loop(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(*[nn.Linear(40, 40) for _ in range(160)])
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-4, momentum=0.9, centered=True, foreach=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STORED_STEPS)):
            optimizer.zero_grad()
            model(torch.randn(4, 40)).sum().backward()
            optimizer.step()  # PLANTED rmsprop_loop


def histograms(directory: str, hook: ss.ProfilerHook) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(f"{directory}/tensorboard")

    def write(model: nn.Module, x: torch.Tensor) -> None:
        for name, value in model.named_parameters():
            writer.add_histogram(name, value, 0)  # PLANTED histograms

    stored_fit(directory, hook, some(), write)


def plotted(directory: str, hook: ss.ProfilerHook) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    def draw(model: nn.Module, x: torch.Tensor) -> None:
        figure, axes = pyplot.subplots()
        axes.imshow(x.numpy())
        figure.savefig(f"{directory}/inputs.png")  # PLANTED plotted
        pyplot.close(figure)

    stored_fit(directory, hook, some(), draw)


def snapshot(directory: str, hook: ss.ProfilerHook) -> None:
    def write_weights(model: nn.Module, x: torch.Tensor) -> None:
        arrays = {name: value.detach().numpy() for name, value in model.named_parameters()}
        np.savez_compressed(f"{directory}/weights.npz", **arrays)  # PLANTED snapshot

    stored_fit(directory, hook, some(), write_weights)


def accuracy_each(directory: str, hook: ss.ProfilerHook) -> None:
    held = DataLoader(StoredReady(), batch_size=STORED_ROWS * 4)

    def check_accuracy(model: nn.Module, x: torch.Tensor) -> None:
        model.eval()
        with torch.no_grad():
            for rows in held:
                (model(rows).argmax(1) == 0).float().mean()  # PLANTED accuracy_each
        model.train()

    stored_fit(directory, hook, some(), check_accuracy)


class Slow(http.server.BaseHTTPRequestHandler):
    """A service that takes its time."""

    def do_POST(self) -> None:
        """Answer late."""
        time.sleep(0.05)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def pushed(directory: str, hook: ss.ProfilerHook) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def push(model: nn.Module, x: torch.Tensor) -> None:
        urllib.request.urlopen(
            f"http://127.0.0.1:{server.server_port}/", data=b"loss"
        ).close()  # PLANTED pushed

    stored_fit(directory, hook, some(), push)
    server.shutdown()


def locked(directory: str, hook: ss.ProfilerHook) -> None:
    lock, done = threading.Lock(), threading.Event()

    def hold() -> None:
        while not done.is_set():
            with lock:
                time.sleep(0.05)
            time.sleep(0.001)

    def wait(model: nn.Module, x: torch.Tensor) -> None:
        with lock:  # PLANTED locked
            pass

    threading.Thread(target=hold, daemon=True).start()
    stored_fit(directory, hook, some(), wait)
    done.set()


def collected_inside(directory: str, hook: ss.ProfilerHook) -> None:
    kept = [[n, [n]] for n in range(300_000)]

    def collect(model: nn.Module, x: torch.Tensor) -> None:
        gc.collect()  # PLANTED collected_inside

    stored_fit(directory, hook, some(), collect)
    assert kept


def score_python(directory: str, hook: ss.ProfilerHook) -> None:
    def score(model: nn.Module, x: torch.Tensor) -> float:
        right = 0
        for row in x.tolist():
            for a, b in zip(row, reversed(row), strict=True):
                right += a > b  # PLANTED score_python
        return right / x.numel()

    stored_fit(directory, hook, [x.repeat(8, 1) for x in some()], score)


def synced_file(directory: str, hook: ss.ProfilerHook) -> None:
    def keep(model: nn.Module, x: torch.Tensor) -> None:
        with Path(directory, "journal").open("ab") as file:
            for _ in range(40):
                file.write(b"x" * 65536)
                file.flush()
                os.fsync(file.fileno())  # PLANTED synced_file

    stored_fit(directory, hook, some(), keep)


class Quantile(torch.autograd.Function):
    """An operation that is computed by numpy."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Subtract each row's median."""
        middle = np.median(np.repeat(x.detach().numpy(), 30, axis=0), axis=1)  # PLANTED numpy_function
        return x - torch.from_numpy(middle[: len(x)].astype(np.float32))[:, None]

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> torch.Tensor:
        """Hand the slope on."""
        return slope


def numpy_function(directory: str, hook: ss.ProfilerHook) -> None:
    model = tower()
    optimizer = adam(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            optimizer.zero_grad()
            Quantile.apply(model(x)).square().mean().backward()
            optimizer.step()


def layer_hooks(directory: str, hook: ss.ProfilerHook) -> None:
    model = tower()
    optimizer = adam(model)
    seen: list[float] = []

    def watch(module: nn.Module, args: Any, out: torch.Tensor) -> None:
        seen.extend([row.abs().max().item() for row in out])  # PLANTED layer_hooks

    for layer in model:
        layer.register_forward_hook(watch)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            once(model, optimizer, x)


def healthy_queue(directory: str, hook: ss.ProfilerHook) -> None:
    ready: queue.Queue[torch.Tensor | None] = queue.Queue(4)

    def produce() -> None:
        for x in some():
            ready.put(x)
        ready.put(None)

    threading.Thread(target=produce, daemon=True).start()
    stored_fit(directory, hook, iter(ready.get, None))


def healthy_autocast(directory: str, hook: ss.ProfilerHook) -> None:
    model = tower()
    optimizer = adam(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(x.repeat(2, 1)).float().square().mean()
            loss.backward()
            optimizer.step()


def healthy_embedding(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(nn.EmbeddingBag(5000, STORED_WIDTH), tower(4))
    optimizer = adam(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STORED_STEPS)):
            optimizer.zero_grad()
            model(torch.randint(0, 5000, (STORED_ROWS * 2, 20))).square().mean().backward()
            optimizer.step()


def healthy_rare(directory: str, hook: ss.ProfilerHook) -> None:
    count = iter(range(1000))

    def rarely(model: nn.Module, x: torch.Tensor) -> None:
        if next(count) in (1, 13):
            torch.save(model.state_dict(), f"{directory}/model.pt")

    stored_fit(directory, hook, [x.repeat(2, 1) for x in some()], rarely)


def healthy_average(directory: str, hook: ss.ProfilerHook) -> None:
    averages: list[torch.Tensor] = []

    def average(model: nn.Module, x: torch.Tensor) -> None:
        weights = [each.detach() for each in model.parameters()]
        if averages:
            torch._foreach_lerp_(averages, weights, 0.01)
        else:
            averages.extend(each.clone() for each in weights)

    stored_fit(directory, hook, [x.repeat(3, 1) for x in some()], average)


def healthy_schedule(directory: str, hook: ss.ProfilerHook) -> None:
    model = tower()
    optimizer = adam(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            loss = once(model, optimizer, x.repeat(3, 1))
            schedule.step()
            run.scalar("loss", loss.item())
            run.scalar("rate", schedule.get_last_lr()[0])


def healthy_two_workers(directory: str, hook: ss.ProfilerHook) -> None:
    stored_fit(
        directory,
        hook,
        DataLoader(StoredReady(), batch_size=STORED_ROWS, num_workers=2, persistent_workers=True),
    )


def healthy_lstm(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.LSTM(STORED_WIDTH, STORED_WIDTH, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            optimizer.zero_grad()
            model(x.reshape(8, -1, STORED_WIDTH).repeat(4, 1, 1))[0].square().mean().backward()
            optimizer.step()


def healthy_nested(directory: str, hook: ss.ProfilerHook) -> None:
    encoder, decoder = tower(3), tower(3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            optimizer.zero_grad()
            code = torch.utils.checkpoint.checkpoint(encoder, x.repeat(2, 1), use_reentrant=False)
            (decoder(code) - 1).abs().mean().backward()
            optimizer.step()


# A classifier and what people put around it.

CLASSIFIER_STEPS = 12


def classifier_mlp(inside: int = 128, wide: int = 768, out: int = 16, deep: int = 3) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(inside, wide), nn.ReLU()]
    for _ in range(deep - 1):
        layers += [nn.Linear(wide, wide), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(wide, out))


def classifier_batches(
    rows: int = 512, inside: int = 128, kinds: int = 16
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(rows, inside), torch.randint(kinds, (rows,))) for _ in range(CLASSIFIER_STEPS)]


def classifier_fit(
    out: Path,
    hook: ss.ProfilerHook,
    data: Iterable[tuple[torch.Tensor, torch.Tensor]],
    each: Callable[[nn.Module, torch.Tensor, torch.Tensor, torch.Tensor], object] = lambda *_: None,
    net: nn.Module | None = None,
) -> None:
    """Train a classifier; ``each`` is called at the end of every step."""
    net = net or classifier_mlp()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(data):
            logits = net(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            each(net, x, logits, loss)


# --- causes ---------------------------------------------------------------------------------------------


class Shards(IterableDataset):
    """Batches in compressed archives, one a file."""

    def __init__(self, folder: Path) -> None:
        self.files = []
        folder.mkdir(parents=True, exist_ok=True)
        for n in range(CLASSIFIER_STEPS):
            self.files.append(folder / f"{n}.npz")
            np.savez_compressed(self.files[-1], x=np.random.rand(512, 1024).astype(np.float32))

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for file in self.files:
            stored = np.load(file)["x"]  # PLANTED shards
            yield torch.from_numpy(stored[:, :128]), torch.randint(16, (512,))


def shards(out: Path, hook: ss.ProfilerHook) -> None:
    classifier_fit(out, hook, DataLoader(Shards(out / "data"), batch_size=None))


def normalised(out: Path, hook: ss.ProfilerHook) -> None:
    """Every example is brought to ranks and scaled by itself, in the loop."""
    net, raw = classifier_mlp(), [np.random.rand(384, 128) for _ in range(CLASSIFIER_STEPS)]
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for rows in run.steps(raw):
            ready = []
            for row in rows:
                ranks = np.argsort(np.argsort(row))
                ready.append((ranks - np.median(ranks)) / np.ptp(ranks))  # PLANTED normalised
            x = torch.tensor(np.array(ready), dtype=torch.float32)
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def ratios(out: Path, hook: ss.ProfilerHook) -> None:
    """The ratio of gradient to weight is read of every layer of a deep network."""

    def each(net: nn.Module, *_: object) -> dict[str, float]:
        told = {}
        for name, p in net.named_parameters():
            told[name] = float(p.grad.abs().mean() / (p.abs().mean() + 1e-9))  # PLANTED ratios
        return told

    classifier_fit(out, hook, classifier_batches(64), each, classifier_mlp(wide=96, deep=220))


def forward_algorithm(out: Path, hook: ss.ProfilerHook) -> None:
    """A conditional random field: its partition function goes through time."""
    net, table = classifier_mlp(64, 256, 12, 1), nn.Parameter(torch.randn(12, 12))
    optimizer = torch.optim.Adam([*net.parameters(), table], fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, _ in run.steps(classifier_batches(16 * 160, 64)):
            scores = net(x).view(16, 160, 12)
            alpha = scores[:, 0]
            for t in range(1, 160):
                alpha = (
                    torch.logsumexp(alpha[:, :, None] + table, 1) + scores[:, t]
                )  # PLANTED forward_algorithm
            loss = torch.logsumexp(alpha, 1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def widths(out: Path, hook: ss.ProfilerHook) -> None:
    """A compiled network is given rows of another length in every step."""
    score = torch.compile(lambda x, w: torch.tanh(x @ w[: x.shape[1]]).sum(1), dynamic=False)
    weight = nn.Parameter(torch.randn(600, 256) * 0.05)
    optimizer = torch.optim.SGD([weight], 0.01)
    with ss.Run(out, hooks=[hook]) as run:
        for n in run.steps(range(8)):
            loss = score(torch.randn(256, 400 + 8 * n), weight).square().mean()  # PLANTED widths
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def lion(out: Path, hook: ss.ProfilerHook) -> None:
    """The Lion optimizer as its paper writes it, tensor by tensor."""
    net = classifier_mlp(wide=64, deep=150)
    moments = [torch.zeros_like(p) for p in net.parameters()]
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(classifier_batches(64)):
            loss = F.cross_entropy(net(x), y)
            net.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p, m in zip(net.parameters(), moments, strict=True):
                    p.mul_(1 - 1e-4).sub_(
                        m.mul(0.9).add(p.grad, alpha=0.1).sign(), alpha=1e-4
                    )  # PLANTED lion
                    m.mul_(0.99).add_(p.grad, alpha=0.01)


def journal(out: Path, hook: ss.ProfilerHook) -> None:
    """All outputs of every step are written as a line of JSON."""
    lines = (out.parent / f"{out.name}.jsonl").open("w")

    def each(_: nn.Module, x: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> None:
        json.dump({"x": x.tolist(), "y": logits.tolist(), "loss": loss.item()}, lines)  # PLANTED journal
        lines.write("\n")

    classifier_fit(out, hook, classifier_batches(), each)


def exported(out: Path, hook: ss.ProfilerHook) -> None:
    """The newest weights are put into memory and then into a file, for a process that serves them."""

    def each(net: nn.Module, *_: object) -> None:
        held = io.BytesIO()
        torch.save(net.state_dict(), held)
        (out / "newest.bin").write_bytes(held.getvalue())  # PLANTED exported

    classifier_fit(out, hook, classifier_batches(128), each, classifier_mlp(wide=1536))


def probe(out: Path, hook: ss.ProfilerHook) -> None:
    """What another set gets right is asked in every step."""
    others = classifier_batches(768)

    def each(net: nn.Module, *_: object) -> float:
        net.eval()
        right = 0
        with torch.no_grad():
            for x, y in others[:4]:
                right += int((net(x).argmax(1) == y).sum())  # PLANTED probe
        net.train()
        return right / 3072

    classifier_fit(out, hook, classifier_batches(256), each)


def answered(out: Path, hook: ss.ProfilerHook) -> None:
    """A thread beside says when the next step may begin."""
    asked: queue.Queue[int] = queue.Queue()
    given: queue.Queue[int] = queue.Queue()

    def served() -> None:
        while (n := asked.get()) >= 0:
            time.sleep(0.05)
            given.put(n)

    threading.Thread(target=served, daemon=True).start()

    def each(*_: object) -> int:
        asked.put(1)
        return given.get()  # PLANTED answered

    classifier_fit(out, hook, classifier_batches(), each)
    asked.put(-1)


def overlap_of_words(out: Path, hook: ss.ProfilerHook) -> None:
    """The outputs' n-grams are counted in Python and compared."""

    def each(_: nn.Module, x: torch.Tensor, logits: torch.Tensor, loss: torch.Tensor) -> int:
        words = [f"w{n}" for n in (x[:, :32] * 3).int().flatten().tolist()]
        seen: collections.Counter[tuple[str, ...]] = collections.Counter()
        for n in range(len(words) - 4):
            seen[tuple(words[n : n + 4])] += 1  # PLANTED overlap_of_words
        return sum(count for count in seen.values() if count > 1)

    classifier_fit(out, hook, classifier_batches(), each)


def between(out: Path, hook: ss.ProfilerHook) -> None:
    """After each step, what every example cost is sorted into a list that grows."""
    net, worst = classifier_mlp(), []
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in classifier_batches():
            with run.step():
                losses = F.cross_entropy(net(x), y, reduction="none")
                optimizer.zero_grad()
                losses.mean().backward()
                optimizer.step()
            for cost, row in zip(losses.tolist(), x.tolist(), strict=True):
                worst.append((round(cost, 3), max(row), sum(row)))  # PLANTED between
                worst.sort()


# --- nothing planted ------------------------------------------------------------------------------------


def healthy_pictures(out: Path, hook: ss.ProfilerHook) -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.BatchNorm2d(64),
        nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 16),
    )  # fmt: skip
    data = TensorDataset(
        torch.randn(CLASSIFIER_STEPS * 64, 3, 64, 64), torch.randint(16, (CLASSIFIER_STEPS * 64,))
    )
    classifier_fit(out, hook, [(x, y) for x, y in DataLoader(data, 64)], net=net)


def healthy_in_memory(out: Path, hook: ss.ProfilerHook) -> None:
    """Ready batches come through a loader."""
    classifier_fit(out, hook, DataLoader(classifier_batches(), batch_size=None))  # type: ignore[arg-type]


def healthy_worker(out: Path, hook: ss.ProfilerHook) -> None:
    data = TensorDataset(
        torch.randn(CLASSIFIER_STEPS * 256, 128), torch.randint(16, (CLASSIFIER_STEPS * 256,))
    )
    classifier_fit(
        out, hook, DataLoader(data, 256, num_workers=1, drop_last=True), net=classifier_mlp(wide=1536)
    )


def healthy_long_attention(out: Path, hook: ss.ProfilerHook) -> None:
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    net = nn.Sequential(
        nn.Unflatten(1, (32, 128)), nn.TransformerEncoder(layer, 3), nn.Flatten(), nn.Linear(4096, 16)
    )
    classifier_fit(out, hook, classifier_batches(48, 4096), net=net)


def healthy_recurrent(out: Path, hook: ss.ProfilerHook) -> None:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.head = nn.GRU(32, 192, batch_first=True), nn.Linear(192, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(x.view(len(x), 24, 32))[0][:, -1])

    classifier_fit(out, hook, classifier_batches(96, 768), net=Last())


def healthy_recomputed(out: Path, hook: ss.ProfilerHook) -> None:
    class Saving(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = classifier_mlp(deep=6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint_sequential(self.inner, 3, x, use_reentrant=False)

    classifier_fit(out, hook, classifier_batches(), net=Saving())


def healthy_half(out: Path, hook: ss.ProfilerHook) -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = classifier_mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return self.inner(x).float()

    classifier_fit(out, hook, classifier_batches(), net=Half())


def healthy_value(out: Path, hook: ss.ProfilerHook) -> None:
    """The loss of each step is read and kept."""
    kept: list[float] = []
    classifier_fit(out, hook, classifier_batches(), lambda *got: kept.append(got[3].item()))


def healthy_compiled_classifier(out: Path, hook: ss.ProfilerHook) -> None:
    net = torch.compile(classifier_mlp())
    net(torch.randn(512, 128)).sum().backward()
    classifier_fit(out, hook, classifier_batches(), net=net)


def healthy_cosine_schedule(out: Path, hook: ss.ProfilerHook) -> None:
    """Clipping, a schedule, and gradients of two halves of a batch."""
    net = classifier_mlp()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, CLASSIFIER_STEPS)
    with ss.Run(out, hooks=[hook]) as run:
        for x, y in run.steps(classifier_batches()):
            for part in range(2):
                (F.cross_entropy(net(x[part::2]), y[part::2]) / 2).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()


def healthy_pairs(out: Path, hook: ss.ProfilerHook) -> None:
    """Distances of all pairs within a batch."""
    classifier_fit(
        out, hook, [(x, y) for x, y in classifier_batches()], lambda *got: torch.cdist(got[2], got[2]).mean()
    )


def healthy_sparse(out: Path, hook: ss.ProfilerHook) -> None:
    bag, head = nn.EmbeddingBag(50_000, 64), classifier_mlp(64)
    optimizer = torch.optim.AdamW([*bag.parameters(), *head.parameters()], fused=True)
    with ss.Run(out, hooks=[hook]) as run:
        for _ in run.steps(range(CLASSIFIER_STEPS)):
            loss = F.cross_entropy(head(bag(torch.randint(50_000, (512, 20)))), torch.randint(16, (512,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def healthy_seldom(out: Path, hook: ss.ProfilerHook) -> None:
    """Weights are kept and another set is asked once, before what is recorded."""
    count = iter(range(100))

    def each(net: nn.Module, x: torch.Tensor, *_: object) -> None:
        if next(count) == 1:
            torch.save(net.state_dict(), out / "kept.pt")
            net(x)

    classifier_fit(out, hook, classifier_batches(), each)


def script(name: str, directory: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if name in PROGRAMS:
        PROGRAMS[name](directory, hook())
    else:
        globals()[name](Path(directory), profiler_hook())


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2], sys.argv[3])
