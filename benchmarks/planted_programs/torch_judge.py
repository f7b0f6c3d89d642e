"""Trainings in PyTorch, unseen by the rules when written: ``python torch_judge.py NAME DIRECTORY``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

import stepscope as ss

WIDTH = 512


class Texts(Dataset):
    """Rows of numbers, slow ones where that is planted."""

    def __init__(self, count: int, seconds: float = 0.0) -> None:
        self.rows = torch.randn(count, WIDTH)
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


def mlp() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    layers: list[torch.nn.Module] = []
    for _ in range(6):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers)
    return model, torch.optim.AdamW(model.parameters(), fused=True)


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def loop(directory: str, hook: ss.ProfilerHook, data: object, after: Callable | None = None) -> None:
    model, optimizer = mlp()
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(data):
            learn(model, optimizer, x)
            if after is not None:
                after(model, x)


def ready() -> list[torch.Tensor]:
    return [torch.randn(256, WIDTH) for _ in range(14)]


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
    model, optimizer = mlp()
    rng = np.random.default_rng(0)

    def jitter(x: torch.Tensor) -> torch.Tensor:
        noise = rng.normal(size=(len(x), WIDTH * 8))  # PLANTED numpy_augment
        return x + torch.from_numpy(noise[:, :WIDTH].astype(np.float32))

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
    held_out = torch.randn(2048, WIDTH)

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
    model, optimizer = mlp()
    data = Texts(2 * 64)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in range(14):
            loader = DataLoader(data, batch_size=128, num_workers=1)
            with run.step():
                for x in loader:  # PLANTED worker_start
                    learn(model, optimizer, x)


def python_scalar(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.automatic_dynamic_shapes = False
    model, _ = mlp()

    @torch.compile(backend="aot_eager", dynamic=False)
    def scaled(x: torch.Tensor, repeat: int) -> torch.Tensor:
        return model(x).repeat(repeat, 1).mean()

    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(ready()[:8])):
            scaled(x, n + 2).backward()  # PLANTED python_scalar


def callbacks(directory: str, hook: ss.ProfilerHook) -> None:
    model, optimizer = mlp()
    seen: list[float] = []
    with ss.Run(directory, hooks=[hook]) as run:
        for x in ready():
            with run.step():
                learn(model, optimizer, x)
            seen.extend(sorted(x.flatten().tolist())[:10])  # PLANTED callbacks


def healthy_steps(directory: str, hook: ss.ProfilerHook) -> None:
    model, optimizer = mlp()
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    globals()[sys.argv[1]](
        sys.argv[2],
        ss.ProfilerHook(save_steps=1000, num_steps=3, skip_first=4, max_overhead=None, analyse=False),
    )
