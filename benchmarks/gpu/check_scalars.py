"""Whether logging a loss that is still being computed on the device holds up the training loop.

Each step queues some milliseconds of matrix products, then takes the loss: by ``loss.item()``, which waits
for the device, or by ``run.scalar``, which must not. The loss is then overwritten in place, and at the end
every recorded value is compared with ``.item()`` of a copy. A profile of both loops counts the calls of the
training thread that wait for the device. Times are microseconds of the training thread, medians over steps.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import stepscope as ss
from gpu.claims import Claim
from gpu.device import Device

CLAIMS = (
    Claim("Logging a loss adds no call that waits for the device.", "added_waits", most=0),
    Claim("No step in which a loss is logged waits for the device.", "waited_steps", most=0),
    Claim("Each value is recorded as it was when it was logged.", "wrong_values", most=0),
    Claim("A loop that logs its loss runs as fast as one that does not.", "loop_ratio", most=1.01),
    Claim("To log a loss takes the training thread 100 µs at most.", "scalar_us", most=100),
    Claim("Nothing of Stepscope initialises CUDA in a process that does not use it.", "initialised", most=0),
)
AHEAD = 4
WAITS = re.compile(r"^(cuda|cu)\w*Synchronize|^(cuda|cu)(Memcpy|MemcpyDtoH|MemcpyHtoD)(_v2)?$")
"""Calls of CUDA that return when the device has done something."""


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure the loops."""
    initialised = torch.cuda.is_initialized()
    with ss.Run(place / "idle", hooks=[ss.StepCounterHook(), ss.SystemHook(), ss.ProfilerHook()]) as run:
        run.scalar("loss", 0.5, 0)
        initialised = not initialised and torch.cuda.is_initialized()
    work, steps = Work(device), device.size(50, 12)
    run = ss.Run(place / "run")
    begun = time.perf_counter()
    run.scalar("warm", torch.zeros((), device=device.place), 0)  # takes page-locked memory, once
    first = time.perf_counter() - begun
    run.flush()
    copies: list[Any] = []
    logged: list[float] = []
    items: list[float] = []

    def log(loss: Any, step: int) -> None:
        copies.append(loss.detach().clone())
        logged.append(timed(lambda: run.scalar("loss", loss, step)))
        loss.fill_(-1.0)

    def copy(loss: Any, step: int) -> None:
        loss.detach().clone()
        loss.fill_(-1.0)

    plain = statistics.median(work.loop(steps, copy) for _ in range(3))
    with_item = work.loop(steps, lambda loss, step: items.append(timed(loss.item)))
    with_scalar = work.loop(steps, log)
    waits = {name: work.waits(place / f"{name}.json", call) for name, call in (("plain", copy), ("log", log))}
    flushed = run.flush()
    problems = dict(run.problems)
    run.close()
    with ss.open(place / "run") as logs:
        recorded = logs.runs()[0].series("loss")["value"]
    truth = [one.item() for one in copies]
    step_us = 1e6 * plain / steps
    return {
        "step_us": round(step_us),
        "scalar_us": round(1e6 * statistics.median(logged), 1),
        "scalar_max_us": round(1e6 * max(logged), 1),
        "scalar_first_us": round(1e6 * first, 1),
        "item_us": round(1e6 * statistics.median(items), 1),
        "loop_ratio": round(with_scalar / plain, 4),
        "loop_ratio_of_item": round(with_item / plain, 4),
        "waited_steps": sum(1e6 * seconds > step_us / 2 for seconds in logged),
        "added_waits": max(0, waits["log"] - waits["plain"]),
        "waits": waits,
        "recorded": len(recorded),
        "wrong_values": sum(float(one) != two for one, two in zip(recorded, truth, strict=False))
        + abs(len(truth) - len(recorded)),
        "flushed": flushed,
        "problems": problems,
        "initialised": int(initialised),
    }


class Work:
    """Matrix products that keep the device busy for some time a step."""

    def __init__(self, device: Device) -> None:
        self.device = device
        side = device.size(4096, 256)
        self.a = torch.randn(side, side, device=device.place)
        self.count, aim = 1, device.size(20, 2) / 1e3
        self.step(0)
        for _ in range(3):
            seconds = device.seconds(lambda: self.step(0))
            self.count = min(max(1, round(self.count * aim / seconds)), 500)

    def step(self, step: int) -> Any:
        """Queue one step; return its loss, which is step + 0.5."""
        product = self.a
        for _ in range(self.count):
            product = torch.mm(self.a, product).mul_(1e-3)
        return product.abs().mean() * 0.0 + float(step) + 0.5

    def loop(self, steps: int, log: Callable[[Any, int], None]) -> float:
        """Return the seconds of a loop, the device's work included.

        The loop runs AHEAD steps before the device, no more: beyond a thousand kernels a launch itself waits.
        """
        self.device.synchronize()
        begun, passed = time.perf_counter(), []
        for step in range(steps):
            if step >= AHEAD:
                passed[step - AHEAD].synchronize()
            loss = self.step(step)
            passed.append(self.device.event())
            passed[-1].record()
            log(loss, step)
        self.device.synchronize()
        return time.perf_counter() - begun

    def waits(self, path: Path, log: Callable[[Any, int], None]) -> int:
        """Return the waiting calls that the thread of the loop makes in five steps."""
        with torch.profiler.profile() as profiler:
            for step in range(5):
                log(self.step(step), step)
        self.device.synchronize()
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
        path.unlink()
        threads = [event["tid"] for event in events if event.get("name") == "aten::mm"]
        return sum(
            1
            for event in events
            if event.get("tid") in threads and WAITS.search(str(event.get("name", "")))
            and event.get("cat") in ("cuda_runtime", "cuda_driver")
        )  # fmt: skip


def timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun
