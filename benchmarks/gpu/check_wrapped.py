"""The recorded norm of gradients against the loop's own, under what wraps a training on a GPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

import stepscope as ss
from gpu.claims import Claim
from gpu.device import Device
from stepscope.integrations.torch import watch

CLAIMS = (
    Claim("Under GradScaler the norm is that of the unscaled gradients.", "scaler_error", most=1e-3),
    Claim("Under torch.compile the norm is the loop's own.", "compile_error", most=1e-3),
    Claim("Under FSDP2 the norm is that of all shards.", "fsdp2_error", most=1e-3),
    Claim("Replayed CUDA graphs are recorded, or the run says that they are not.", "graphs", least=1),
)
STEPS = 8
Loop = Callable[[Device, Any, Any, Any], Iterator[float]]


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure each; of one that cannot run here, give the reason."""
    figures: dict[str, Any] = {}
    for name, loop in {"scaler": scaled, "compile": compiled, "fsdp2": sharded}.items():
        figures |= error_or_reason(device, place, name, loop)
    return figures | graphs(device, place / "graphs")


def error_or_reason(device: Device, place: Path, name: str, loop: Loop) -> dict[str, Any]:
    try:
        return {f"{name}_error": error_of(device, place / name, loop)}
    except Exception as error:  # noqa: BLE001  the others are measured
        return {f"{name}_error": None, f"{name}_failed": f"{type(error).__name__}: {error}"[:300]}


def model_of(device: Device) -> tuple[Any, Any]:
    torch.manual_seed(0)
    width = device.size(1024, 32)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)).to(device.place)
    return model, torch.randn(device.size(256, 8), width, device=device.place)


def error_of(device: Device, place: Path, loop: Loop) -> float:
    """Return the largest relative difference between the recorded norms and the loop's own."""
    model, x = model_of(device)
    with ss.Run(place, hooks=[ss.GradientHook(1)]) as run:
        own = dict(zip(range(STEPS), loop(device, model, x, run), strict=False))
    with ss.open(place) as logs:
        series = logs.runs()[0].series("gradients/norm")
        recorded = dict(zip(map(int, series["step"]), map(float, series["value"]), strict=True))
    common = sorted(set(own) & set(recorded))
    if len(common) < STEPS // 2:
        raise ValueError(f"expected the norms of {STEPS} steps, found {len(common)}: {sorted(recorded)}")
    return max(abs(recorded[step] / own[step] - 1) for step in common)


def norm_of(model: Any) -> float:
    grads = [one.grad for one in model.parameters() if one.grad is not None]
    whole = [getattr(one, "full_tensor", lambda one=one: one)() for one in grads]
    return float(torch.stack([one.detach().double().square().sum() for one in whole]).sum().sqrt())


def scaled(device: Device, model: Any, x: Any, run: Any) -> Iterator[float]:
    scaler = torch.amp.GradScaler(device.place, init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    watched = watch(model, optimizer, run, scaler=scaler)
    kind = torch.float16 if device.is_gpu else torch.bfloat16
    for _ in run.steps(range(STEPS)):
        optimizer.zero_grad()
        with torch.autocast(device.place, kind):
            loss = model(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        yield norm_of(model)
        scaler.step(optimizer)
        scaler.update()
    watched.remove()


def compiled(device: Device, model: Any, x: Any, run: Any) -> Iterator[float]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    wrapped = torch.compile(model, backend="inductor" if device.decides else "eager")
    watched = watch(wrapped, optimizer, run)
    yield from plain(run, optimizer, wrapped, model, x)
    watched.remove()


def sharded(device: Device, model: Any, x: Any, run: Any) -> Iterator[float]:
    from torch.distributed.fsdp import fully_shard

    with group(device):
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        watched = watch(model, optimizer, run)
        yield from plain(run, optimizer, model, model, x)
        watched.remove()


def plain(run: Any, optimizer: Any, called: Any, model: Any, x: Any) -> Iterator[float]:
    for _ in run.steps(range(STEPS)):
        optimizer.zero_grad()
        called(x).square().mean().backward()
        yield norm_of(model)
        optimizer.step()


@contextlib.contextmanager
def group(device: Device) -> Iterator[None]:
    """Form a group of this process alone."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    backend = "cpu:gloo,cuda:nccl" if device.decides else "gloo"
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def graphs(device: Device, place: Path) -> dict[str, Any]:
    """Capture a whole step as a CUDA graph and replay it; on the processor the same loop without a graph."""
    model, x = model_of(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    with ss.Run(place, hooks=[ss.GradientHook(1)]) as run:
        watched = watch(model, optimizer, run)
        replay, loss = graph_of(step) if device.is_gpu else (step, None)
        for number in run.steps(range(STEPS)):
            found = replay()
            run.scalar("train/loss", loss if loss is not None else found, number)
        device.synchronize()
        watched.remove()
        problems = dict(run.problems)
    with ss.open(place) as logs:
        saved = logs.runs()[0]
        tags = set(saved.tags("scalar"))
        losses = saved.series("train/loss")["value"] if "train/loss" in tags else []
        norms = len(saved.series("gradients/norm")["value"]) if "gradients/norm" in tags else 0
    falls = len(losses) == STEPS and all(one > two for one, two in pairwise(losses))
    return {"graphs": int(falls and (norms > 0 or bool(problems))), "graph_norms": norms,
            "graph_losses": len(losses), "graph_problems": problems}  # fmt: skip


def graph_of(step: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    return graph.replay, loss
