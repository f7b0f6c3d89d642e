"""Trainings in PyTorch, each with one cause planted or none: ``python torch_programs.py NAME DIRECTORY``."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterator

import torch
import torch.distributed
from torch.utils.data import DataLoader, Dataset

import stepscope as ss

BATCH, WIDTH = 64, 512


class Ready(Dataset):
    """Samples that are there."""

    def __init__(self, count: int) -> None:
        self.data = torch.randn(count, WIDTH)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, at: int) -> torch.Tensor:
        return self.data[at]


class SlowFiles(Ready):
    """Samples that take their time to come."""

    def __getitem__(self, at: int) -> torch.Tensor:
        time.sleep(0.0008)  # PLANTED slow_loader
        return self.data[at]


def network(depth: int = 6, width: int = WIDTH) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for _ in range(depth):
        layers += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers)


def batches(count: int) -> Iterator[torch.Tensor]:
    data = [torch.randn(BATCH * 4, WIDTH) for _ in range(4)]
    for n in range(count):
        yield data[n % 4]


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
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
        model = network(**of)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        with ss.Run(directory, hooks=[hook]) as run:
            for n, x in enumerate(run.steps(batches(14))):
                step(n, x, model, optimizer)

    return program


def slow_loader(directory: str, hook: ss.ProfilerHook) -> None:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(DataLoader(SlowFiles(BATCH * 14), batch_size=BATCH)):
            train(model, optimizer, x)


def unfused_optimizer(directory: str, hook: ss.ProfilerHook) -> None:
    model = network(depth=60, width=32)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(batches(14)):
            optimizer.zero_grad(set_to_none=False)
            (model(x[:, :32]) ** 2).mean().backward()
            optimizer.step()  # PLANTED unfused_optimizer


def recompilation(directory: str, hook: ss.ProfilerHook) -> None:
    torch._dynamo.config.automatic_dynamic_shapes = False
    model = network(depth=2)
    compiled = torch.compile(model, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for n, x in enumerate(run.steps(batches(8))):
            optimizer.zero_grad()
            (compiled(x[: 100 + n]) ** 2).mean().backward()  # PLANTED recompilation
            optimizer.step()


def with_transform(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    train(model, optimizer, augment(x))


def with_items(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    accuracy(train(model, optimizer, x))


def with_small(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    many_small(x)
    train(model, optimizer, x)


WRITER = Writer()


def with_logging(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    train(model, optimizer, x)
    WRITER.log_everything(model)


def with_checkpoint(
    n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    train(model, optimizer, x)
    save_checkpoint(model, sys.argv[2])


def plain(n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    train(model, optimizer, x)


def healthy_loader(directory: str, hook: ss.ProfilerHook) -> None:
    model = network(depth=16)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=True)
    with ss.Run(directory, hooks=[hook]) as run:
        for x in run.steps(DataLoader(Ready(128 * 14), batch_size=128, num_workers=1, prefetch_factor=4)):
            train(model, optimizer, x)


def healthy_convolution(directory: str, hook: ss.ProfilerHook) -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 32, 3), torch.nn.Flatten(1),
        torch.nn.Linear(32 * 28 * 28, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01, fused=True)
    data = torch.randn(64, 3, 32, 32)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(14)):
            train(model, optimizer, data)


def healthy_inference(directory: str, hook: ss.ProfilerHook) -> None:
    model = network(depth=12, width=1024)
    data = torch.randn(256, 1024)
    with ss.Run(directory, hooks=[hook]) as run, torch.no_grad():
        for _ in run.steps(range(14)):
            model(data)


def healthy_scalars(
    n: int, x: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    loss = train(model, optimizer, x)
    loss.mean().item()


def one_of_two(rank: int, directory: str, late: float) -> None:
    """Train in one of two processes that average their gradients; the second one may come late."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "WORLD_SIZE": "2"}
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(f"{directory}/store", 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=True)
    with ss.Run(directory, hooks=[hook(ranks="all")]) as run:
        for x in run.steps(batches(14)):
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
    return ss.ProfilerHook(
        save_steps=1000, num_steps=3, skip_first=4, record_shapes=True, max_overhead=None,
        analyse=False, backend="torch", **options,
    )  # fmt: skip


PROGRAMS: dict[str, Callable[[str, ss.ProfilerHook], None]] = {
    "slow_loader": slow_loader, "slow_transform": simple(with_transform), "item_in_loop": simple(with_items),
    "small_kernels": simple(with_small, depth=1), "recompilation": recompilation,
    "unfused_optimizer": unfused_optimizer, "logging": simple(with_logging),
    "checkpoint": simple(with_checkpoint),
    "healthy_plain": simple(plain), "healthy_deep": simple(plain, depth=16), "healthy_loader": healthy_loader,
    "healthy_convolution": healthy_convolution, "healthy_inference": healthy_inference,
    "healthy_scalars": simple(healthy_scalars), "slow_rank": two_ranks(1.0), "healthy_ranks": two_ranks(0.0),
}  # fmt: skip

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    PROGRAMS[sys.argv[1]](sys.argv[2], hook())
