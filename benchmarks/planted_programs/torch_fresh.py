"""Trainings in PyTorch, written after the rules and judged once: ``python torch_fresh.py NAME DIRECTORY``."""

from __future__ import annotations

import gc
import gzip
import io
import logging
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import stepscope as ss

STEPS, ROWS, WIDTH = 14, 128, 384
log = logging.getLogger("training")


class Table(Dataset):
    """Rows of text, turned into numbers one by one."""

    def __init__(self) -> None:
        row = ",".join(f"{n * 0.37:.6f}" for n in range(WIDTH))
        self.rows = [row] * (STEPS * ROWS)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> torch.Tensor:
        return torch.tensor([float(cell) for cell in self.rows[at].split(",")])  # PLANTED csv_rows


class Sentences(Dataset):
    """Sentences that are cut into words."""

    def __init__(self) -> None:
        self.text = "the quick brown fox jumps over the lazy dog, again and again; " * 60

    def __len__(self) -> int:
        return STEPS * ROWS

    def __getitem__(self, at: int) -> torch.Tensor:
        words = [hash(word) % 1000 for word in re.findall(r"\w+", self.text)]  # PLANTED worker_words
        return torch.tensor(words[:WIDTH], dtype=torch.float32)


class Packed(IterableDataset):
    """Batches that lie compressed."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.packed = gzip.compress(rng.integers(0, 9, (ROWS, WIDTH * 24)).astype(np.float32).tobytes(), 1)

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(STEPS):
            raw = gzip.decompress(self.packed)  # PLANTED iterable_gzip
            yield torch.from_numpy(np.frombuffer(raw, np.float32).reshape(ROWS, -1)[:, :WIDTH].copy())


class Ready(Dataset):
    """Rows that are there already."""

    def __init__(self) -> None:
        self.rows = torch.randn(STEPS * ROWS, WIDTH)

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


def network(depth: int = 6) -> nn.Sequential:
    return nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(WIDTH, WIDTH), nn.SiLU())])


def fused(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), 1e-4, fused=True)


def batches() -> list[torch.Tensor]:
    return [torch.randn(ROWS, WIDTH) for _ in range(STEPS)]


def train(
    directory: str, hook: ss.ProfilerHook, data: object, extra: Callable[[nn.Module, torch.Tensor], object]
) -> None:
    model = network()
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
    train(directory, hook, DataLoader(Table(), batch_size=ROWS), nothing)


def worker_words(directory: str, hook: ss.ProfilerHook) -> None:
    train(directory, hook, DataLoader(Sentences(), batch_size=ROWS, num_workers=1), nothing)


def iterable_gzip(directory: str, hook: ss.ProfilerHook) -> None:
    train(directory, hook, DataLoader(Packed(), batch_size=None), nothing)


def mixed(x: torch.Tensor) -> torch.Tensor:
    spectrum = np.abs(np.fft.fft2(np.repeat(x.numpy(), 4, axis=0)))[:ROWS]  # PLANTED spectrum
    return torch.from_numpy(spectrum.astype(np.float32))


def spectrum(directory: str, hook: ss.ProfilerHook) -> None:
    model = network()
    optimizer = fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(batches()):
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

    train(directory, hook, batches(), count)


def python_recurrence(directory: str, hook: ss.ProfilerHook) -> None:
    model = Cell()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(batches()):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()


def sequence_lengths(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.automatic_dynamic_shapes = False
    torch._dynamo.config.recompile_limit = 64
    model = torch.compile(network(2), backend="aot_eager", dynamic=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for n in run.steps(range(10)):
            model(torch.randn(ROWS + n, WIDTH)).sum().backward()  # PLANTED sequence_lengths


def hand_sgd(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(*[nn.Linear(24, 24) for _ in range(120)])
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            model(torch.randn(8, 24)).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.01 * parameter.grad.clamp(-1, 1)  # PLANTED hand_sgd
                    parameter.grad = None


def adam_loop(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.ModuleList([nn.Linear(48, 48) for _ in range(200)])
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
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

    train(directory, hook, batches(), tell)


def pickled(directory: str, hook: ss.ProfilerHook) -> None:
    def save_checkpoint(model: nn.Module, x: torch.Tensor) -> None:
        state = {name: value.numpy() for name, value in model.state_dict().items()}
        for n in range(6):
            with Path(directory, f"state-{n}.pkl").open("wb") as file:
                pickle.dump(state, file)  # PLANTED pickled

    train(directory, hook, batches(), save_checkpoint)


def held_out(directory: str, hook: ss.ProfilerHook) -> None:
    data = [torch.randn(ROWS * 4, WIDTH) for _ in range(3)]

    def evaluate(model: nn.Module, x: torch.Tensor) -> float:
        with torch.inference_mode():
            return sum(model(each).mean().item() for each in data)  # PLANTED held_out

    train(directory, hook, batches(), evaluate)


def shell(directory: str, hook: ss.ProfilerHook) -> None:
    def measure(model: nn.Module, x: torch.Tensor) -> None:
        subprocess.run(["sleep", "0.05"], check=True)  # PLANTED shell

    train(directory, hook, batches(), measure)


def collected(directory: str, hook: ss.ProfilerHook) -> None:
    kept = [[n, {n: [n]}] for n in range(200_000)]
    model = network()
    optimizer = fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in batches():
            with run.step():
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            gc.collect()  # PLANTED collected
    assert kept


def healthy_workers(directory: str, hook: ss.ProfilerHook) -> None:
    train(directory, hook, DataLoader(Ready(), batch_size=ROWS, num_workers=1), nothing)


def healthy_images(directory: str, hook: ss.ProfilerHook) -> None:
    model = nn.Sequential(nn.Conv2d(3, 24, 3, 2), nn.ReLU(), nn.Conv2d(24, 48, 3, 2), nn.ReLU(),
                          nn.Flatten(), nn.LazyLinear(10))  # fmt: skip
    images = torch.randn(32, 3, 64, 64)
    model(images)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            optimizer.zero_grad()
            loss = model(images).logsumexp(1).mean()
            loss.backward()
            optimizer.step()
            run.scalar("loss", loss.item())


def healthy_pair(directory: str, hook: ss.ProfilerHook) -> None:
    maker, critic = network(3), network(3)
    one, two = fused(maker), fused(critic)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(batches()):
            two.zero_grad()
            (critic(maker(x).detach()).mean() - critic(x).mean()).backward()
            two.step()
            one.zero_grad()
            (-critic(maker(x)).mean()).backward()
            one.step()


def healthy_accumulation(directory: str, hook: ss.ProfilerHook) -> None:
    model = network()
    optimizer = fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(batches()):
            optimizer.zero_grad()
            for part in x.repeat(4, 1).chunk(2):
                (model(part).pow(2).mean() / 2).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


def healthy_compiled(directory: str, hook: ss.ProfilerHook) -> None:
    model = network()
    compiled, optimizer = torch.compile(model, backend="aot_eager"), fused(model)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps([each.repeat(4, 1) for each in batches()]):
            optimizer.zero_grad()
            compiled(x).pow(2).mean().backward()
            optimizer.step()


def healthy_attention(directory: str, hook: ss.ProfilerHook) -> None:
    attention, norm = nn.MultiheadAttention(256, 4, batch_first=True), nn.LayerNorm(256)
    optimizer = torch.optim.AdamW([*attention.parameters(), *norm.parameters()], fused=True)
    x = torch.randn(16, 128, 256)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(STEPS)):
            optimizer.zero_grad()
            norm(x + attention(x, x, x, need_weights=False)[0]).pow(2).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    globals()[sys.argv[1]](
        sys.argv[2],
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    )
