"""Causes planted in PyTorch programs on a GPU: the first finding, and its gain against the measured one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gpu.claims import Claim
from gpu.device import Device
from gpu.planted import Program, judged

CLAIMS = (
    Claim("The planted cause is the first finding.", "causes_ratio", least=0.75),
    Claim("Predicted gains are within a quarter of the measured ones, or a bound that holds.",
          "gains_ratio", least=0.75),
)  # fmt: skip
Step = Callable[[], object]


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Judge every program."""
    return judged(device, place, PROGRAMS)


def trained(model: Any, batches: Iterator[Any], device: Device, *, dtype: Any = None) -> Step:
    """Return a step of a training with SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(device.place, dtype or torch.bfloat16, enabled=dtype is not None):
            loss = model(next(batches)).float().square().mean()
        loss.backward()
        optimizer.step()

    return step


def perceptron(device: Device, width: int, depth: int) -> Any:
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(depth))).to(device.place)


def forever(make: Callable[[], Any]) -> Iterator[Any]:
    while True:
        yield make()


def item(device: Device, mended: bool) -> Step:
    """Read a number of every layer's output while the step runs, or not."""
    width, depth = device.size(512, 32), device.size(40, 4)
    layers = [nn.Linear(width, width).to(device.place) for _ in range(depth)]
    x = torch.randn(device.size(4096, 16), width, device=device.place)

    def step() -> None:
        value = x
        for layer in layers:
            value = layer(value).relu()
            if not mended:
                value.mean().item()

    return step


def pageable(device: Device, mended: bool) -> Step:
    """Copy from memory that is not page-locked and wait, or copy ahead from page-locked memory."""
    size = device.size(1 << 26, 1 << 12)
    host = torch.randn(size, pin_memory=mended and device.decides)
    weight = torch.ones(1, device=device.place, requires_grad=True)
    busy = torch.randn(device.size(4096, 64), device.size(4096, 64), device=device.place)

    def step() -> None:
        data = host.to(device.place, non_blocking=mended)
        (data * weight).mean().backward()
        for _ in range(4):
            torch.mm(busy, busy)

    return step


def small(device: Device, mended: bool) -> Step:
    """Update hundreds of small tensors one by one, or all at once."""
    count = device.size(600, 30)
    some = [torch.randn(64, device=device.place) for _ in range(count)]
    together = torch.randn(count, 64, device=device.place)

    def step() -> None:
        if mended:
            together.mul_(0.99).add_(1e-3)
            return
        for one in some:
            one.mul_(0.99).add_(1e-3)

    return step


def precision(device: Device, mended: bool) -> Step:
    """Multiply in float32, or in bfloat16."""
    model = perceptron(device, device.size(4096, 64), 4)
    x = torch.randn(device.size(8192, 16), device.size(4096, 64), device=device.place)
    return trained(model, forever(lambda: x), device, dtype=torch.bfloat16 if mended else None)


def loader(device: Device, mended: bool) -> Step:
    """Load a batch in the training thread, or have it ready."""
    model = perceptron(device, device.size(1024, 32), 4)
    ready = torch.randn(device.size(256, 8), device.size(1024, 32), device=device.place)

    class Slow(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 1 << 30

        def __getitem__(self, at: int) -> Any:
            if not mended:
                time.sleep(0.0002)
            return torch.ones(ready.shape[1])

    slow = iter(torch.utils.data.DataLoader(Slow(), batch_size=ready.shape[0], sampler=range(1 << 20)))
    return trained(
        model, forever(lambda: ready) if mended else (one.to(device.place) for one in slow), device
    )


def checkpoint(device: Device, mended: bool) -> Step:
    """Write the weights in every step, or not."""
    model = perceptron(device, device.size(2048, 32), 4)
    x = torch.randn(device.size(512, 8), device.size(2048, 32), device=device.place)
    train, path = trained(model, forever(lambda: x), device), Path(f"/tmp/stepscope-{time.time_ns()}.pt")

    def step() -> None:
        train()
        if not mended:
            torch.save(model.state_dict(), path)
            path.unlink()

    return step


def reallocated(device: Device, mended: bool) -> Step:
    """Give all cached memory back in every step, or keep it."""
    model = perceptron(device, device.size(2048, 32), 4)
    x = torch.randn(device.size(4096, 8), device.size(2048, 32), device=device.place)
    train = trained(model, forever(lambda: x), device)

    def step() -> None:
        train()
        if not mended and device.is_gpu:
            torch.cuda.empty_cache()

    return step


def long_kernel(device: Device, mended: bool) -> Step:
    """Sort a large tensor to find its largest element, or ask for it."""
    x = torch.randn(device.size(1 << 27, 1 << 12), device=device.place)
    return (lambda: x.max()) if mended else (lambda: x.sort()[0][-1])


def near_limit(device: Device, mended: bool) -> Step:
    """Hold nearly all of the device's memory, or a little."""
    held = []
    if device.is_gpu and not mended:
        free, _ = torch.cuda.mem_get_info()
        held.append(torch.empty(int(free * 0.93), dtype=torch.uint8, device=device.place))
    model = perceptron(device, device.size(1024, 32), 2)
    x = torch.randn(device.size(256, 8), device.size(1024, 32), device=device.place)
    train = trained(model, forever(lambda: x), device)

    def step() -> None:
        assert mended or not device.is_gpu or held
        train()

    return step


def graph_gaps(device: Device, mended: bool) -> Step:
    """Replay a graph and then work in Python while the device is idle, or replay at once."""
    side = device.size(1024, 32)
    a = torch.randn(side, side, device=device.place)

    def work() -> None:
        for _ in range(50):
            torch.mm(a, a)

    replay = work
    if device.is_gpu:
        graph = torch.cuda.CUDAGraph()
        work()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            work()
        replay = graph.replay

    def step() -> None:
        replay()
        device.synchronize()
        if not mended:
            sum(number * number for number in range(device.size(40_000, 4_000)))

    return step


def eager(device: Device, mended: bool) -> Step:
    """Run a chain of element-wise operators one by one, or compiled."""
    x = torch.randn(device.size(1 << 22, 1 << 10), device=device.place)

    def chain(value: Any) -> Any:
        for _ in range(30):
            value = (value * 1.01 + 0.1).tanh()
        return value.sum()

    backend = "inductor" if device.decides else "eager"
    called = torch.compile(chain, backend=backend) if mended and device.is_gpu else chain
    return lambda: called(x)


def shapes(device: Device, mended: bool) -> Step:
    """Compile for every new length, or for one."""
    width, count = device.size(1024, 32), [0]
    weight = torch.randn(width, width, device=device.place)

    def product(value: Any) -> Any:
        return (value @ weight).relu().sum()

    # Tracing anew is enough of a cause; inductor would take a second for each length.
    called = torch.compile(product, dynamic=False, backend="eager") if device.is_gpu else product
    torch._dynamo.config.recompile_limit = 1000

    def step() -> Any:
        count[0] += 1
        return called(torch.ones(512 if mended else 32 + count[0], width, device=device.place))

    return step


PROGRAMS = (
    Program("item", item, ("sync-points", "host-bound")),
    Program("pageable", pageable, ("pageable-copies",)),
    Program("small", small, ("small-kernels", "launch-bound", "eager-operations")),
    Program("precision", precision, ("dtype-hints",)),
    Program("loader", loader, ("input-bound",)),
    Program("checkpoint", checkpoint, ("checkpoint", "blocking-call")),
    Program("reallocated", reallocated, ("blocking-call", "sync-points", "python-overhead")),
    Program("graph_gaps", graph_gaps, ("python-overhead", "host-bound", "sync-points")),
    Program("near_limit", near_limit, ("memory-near-limit",)),
    Program("long_kernel", long_kernel, ("expensive-operation",)),
    Program("shapes", shapes, ("compilation", "growing-steps"), 20),
    Program("eager", eager, ("eager-operations", "small-kernels", "launch-bound"), 25),
)
