"""Trainings in PyTorch, a second set judged at first sight: ``python torch_second.py NAME DIRECTORY``."""

from __future__ import annotations

import gc
import http.server
import os
import queue
import sqlite3
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

import stepscope as ss

STEPS, ROWS, WIDTH = 14, 96, 320


class FilesOnDisk(Dataset):
    """One small file a row."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory, "rows")
        self.directory.mkdir()
        for n in range(ROWS):
            np.save(self.directory / f"{n}.npy", np.ones((8, WIDTH), np.float32))

    def __len__(self) -> int:
        return STEPS * ROWS

    def __getitem__(self, at: int) -> torch.Tensor:
        return torch.from_numpy(np.load(self.directory / f"{at % ROWS}.npy").mean(0))  # PLANTED files_on_disk


class Rows(Dataset):
    """Rows of a database."""

    def __init__(self, directory: str) -> None:
        self.base = sqlite3.connect(f"{directory}/rows.db")
        self.base.execute("create table rows (id integer, value blob)")
        raw = np.ones(WIDTH, np.float32).tobytes()
        self.base.executemany("insert into rows values (?, ?)", [(n, raw) for n in range(3000)])

    def __len__(self) -> int:
        return STEPS * ROWS

    def __getitem__(self, at: int) -> torch.Tensor:
        asked = "select value from rows where id = ?"
        (raw,) = self.base.execute(asked, (at % 3000,)).fetchone()  # PLANTED database
        return torch.frombuffer(bytearray(raw), dtype=torch.float32)


class Nested(Dataset):
    """Rows that come as many Python objects, slow to hand from a worker to the trainer."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, at: int) -> dict[str, Any]:
        tokens = {str(n): [n, [n + 1]] for n in range(120_000)}  # PLANTED nested_worker
        return {"x": torch.ones(ROWS, WIDTH), "tokens": tokens}


class Ready(Dataset):
    """Rows that are there."""

    def __init__(self) -> None:
        self.rows = torch.randn(STEPS * ROWS, WIDTH)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> torch.Tensor:
        return self.rows[at]


def tower(depth: int = 6) -> nn.Sequential:
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()) for _ in range(depth)]
    return nn.Sequential(*blocks)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), 1e-4, fused=True)


def some(count: int = STEPS) -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH) for _ in range(count)]


def once(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), x)
    loss.backward()
    optimizer.step()
    return loss


def fit(
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
    fit(directory, hook, DataLoader(FilesOnDisk(directory), batch_size=ROWS))


def database(directory: str, hook: ss.ProfilerHook) -> None:
    fit(directory, hook, DataLoader(Rows(directory), batch_size=ROWS))


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
    fit(directory, hook, batches())


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
        for _ in run.steps(range(STEPS)):
            once(model, optimizer, turned())


def gradient_norms(directory: str, hook: ss.ProfilerHook) -> None:
    def norms(model: nn.Module, x: torch.Tensor) -> None:
        for _ in range(30):
            sum(float(each.grad[0].norm()) for each in model.parameters())  # PLANTED gradient_norms

    fit(directory, hook, some(), norms)


def finite_check(directory: str, hook: ss.ProfilerHook) -> None:
    def check(model: nn.Module, x: torch.Tensor) -> None:
        for row in x.repeat(8, 1):
            if not torch.isfinite(row).all():  # PLANTED finite_check
                raise ValueError("not finite")

    fit(directory, hook, some(), check)


def row_by_row(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = adam(model)
    data = torch.randn(300, 16)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            optimizer.zero_grad()
            total = torch.zeros(())
            for row in data:
                total = total + model(row).square().sum()  # PLANTED row_by_row
            total.backward()
            optimizer.step()


def changing_type(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.recompile_limit = 64
    weight = torch.randn(WIDTH, WIDTH, requires_grad=True)

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
        for _ in run.steps(range(STEPS)):
            optimizer.zero_grad()
            model(torch.randn(4, 40)).sum().backward()
            optimizer.step()  # PLANTED rmsprop_loop


def histograms(directory: str, hook: ss.ProfilerHook) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(f"{directory}/tensorboard")

    def write(model: nn.Module, x: torch.Tensor) -> None:
        for name, value in model.named_parameters():
            writer.add_histogram(name, value, 0)  # PLANTED histograms

    fit(directory, hook, some(), write)


def plotted(directory: str, hook: ss.ProfilerHook) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    def draw(model: nn.Module, x: torch.Tensor) -> None:
        figure, axes = pyplot.subplots()
        axes.imshow(x.numpy())
        figure.savefig(f"{directory}/inputs.png")  # PLANTED plotted
        pyplot.close(figure)

    fit(directory, hook, some(), draw)


def snapshot(directory: str, hook: ss.ProfilerHook) -> None:
    def write_weights(model: nn.Module, x: torch.Tensor) -> None:
        arrays = {name: value.detach().numpy() for name, value in model.named_parameters()}
        np.savez_compressed(f"{directory}/weights.npz", **arrays)  # PLANTED snapshot

    fit(directory, hook, some(), write_weights)


def accuracy_each(directory: str, hook: ss.ProfilerHook) -> None:
    held = DataLoader(Ready(), batch_size=ROWS * 4)

    def check_accuracy(model: nn.Module, x: torch.Tensor) -> None:
        model.eval()
        with torch.no_grad():
            for rows in held:
                (model(rows).argmax(1) == 0).float().mean()  # PLANTED accuracy_each
        model.train()

    fit(directory, hook, some(), check_accuracy)


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

    fit(directory, hook, some(), push)
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
    fit(directory, hook, some(), wait)
    done.set()


def collected_inside(directory: str, hook: ss.ProfilerHook) -> None:
    kept = [[n, [n]] for n in range(300_000)]

    def collect(model: nn.Module, x: torch.Tensor) -> None:
        gc.collect()  # PLANTED collected_inside

    fit(directory, hook, some(), collect)
    assert kept


def score_python(directory: str, hook: ss.ProfilerHook) -> None:
    def score(model: nn.Module, x: torch.Tensor) -> float:
        right = 0
        for row in x.tolist():
            for a, b in zip(row, reversed(row), strict=True):
                right += a > b  # PLANTED score_python
        return right / x.numel()

    fit(directory, hook, [x.repeat(8, 1) for x in some()], score)


def synced_file(directory: str, hook: ss.ProfilerHook) -> None:
    def keep(model: nn.Module, x: torch.Tensor) -> None:
        with Path(directory, "journal").open("ab") as file:
            for _ in range(40):
                file.write(b"x" * 65536)
                file.flush()
                os.fsync(file.fileno())  # PLANTED synced_file

    fit(directory, hook, some(), keep)


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
    fit(directory, hook, iter(ready.get, None))


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
    model = nn.Sequential(nn.EmbeddingBag(5000, WIDTH), tower(4))
    optimizer = adam(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            optimizer.zero_grad()
            model(torch.randint(0, 5000, (ROWS * 2, 20))).square().mean().backward()
            optimizer.step()


def healthy_rare(directory: str, hook: ss.ProfilerHook) -> None:
    count = iter(range(1000))

    def rarely(model: nn.Module, x: torch.Tensor) -> None:
        if next(count) in (1, 13):
            torch.save(model.state_dict(), f"{directory}/model.pt")

    fit(directory, hook, [x.repeat(2, 1) for x in some()], rarely)


def healthy_average(directory: str, hook: ss.ProfilerHook) -> None:
    averages: list[torch.Tensor] = []

    def average(model: nn.Module, x: torch.Tensor) -> None:
        weights = [each.detach() for each in model.parameters()]
        if averages:
            torch._foreach_lerp_(averages, weights, 0.01)
        else:
            averages.extend(each.clone() for each in weights)

    fit(directory, hook, [x.repeat(3, 1) for x in some()], average)


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
    fit(directory, hook, DataLoader(Ready(), batch_size=ROWS, num_workers=2, persistent_workers=True))


def healthy_lstm(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(some()):
            optimizer.zero_grad()
            model(x.reshape(8, -1, WIDTH).repeat(4, 1, 1))[0].square().mean().backward()
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    globals()[sys.argv[1]](
        sys.argv[2],
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    )
