"""Whether logging a loss that is still being computed on a CUDA device holds up the training loop.

``python benchmarks/device_sync.py [--steps N]``. Needs torch with CUDA and this package, nothing else;
without CUDA it says so and measures nothing. Each step queues some 20 ms of matrix products on the device,
then takes the loss: by ``loss.item()``, which waits for the device, or by ``run.scalar``, which must not. The
loss is then overwritten in place, and at the end every recorded value is compared with what ``.item()`` says
of a copy. Prints one line of JSON; times in microseconds of the caller's thread, medians over the steps.
"""

from __future__ import annotations

import argparse
import json
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEP_S = 0.02
AHEAD = 4


def main() -> int:
    """Measure and print one line; exit 1 where logging waited or recorded a wrong value."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=50)
    steps = parser.parse_args().steps
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print(json.dumps({"benchmark": "device_sync", "skipped": "no torch with a CUDA device"}))
        return 0
    found = measure(torch, steps)
    print(json.dumps(found))
    return (
        0 if found["waited_steps"] == 0 and found["wrong_values"] == 0 and found["recorded"] == steps else 1
    )


def measure(torch: Any, steps: int) -> dict[str, Any]:
    import stepscope

    work = Work(torch)
    with tempfile.TemporaryDirectory() as directory:
        run = stepscope.Run(directory)
        begun = time.perf_counter()
        run.scalar("warm", torch.zeros((), device="cuda"), 0)  # takes page-locked memory, once
        first = time.perf_counter() - begun
        run.flush()
        copies: list[Any] = []

        def log(loss: Any, step: int) -> None:
            copies.append(loss.detach().clone())
            run_scalar(loss, step)
            loss.fill_(-1.0)

        def run_scalar(loss: Any, step: int) -> None:
            begun = time.perf_counter()
            run.scalar("loss", loss, step)
            logged.append(time.perf_counter() - begun)

        logged: list[float] = []
        loop_without = work.loop(steps, lambda loss, step: None)
        items: list[float] = []
        loop_item = work.loop(steps, lambda loss, step: items.append(timed(loss.item)))
        loop_scalar = work.loop(steps, log)
        flushed = run.flush()
        run.close()
        recorded = scalars(Path(directory), "loss")
        truth = [copy.item() for copy in copies]
        problems = run.problems
    step_us = 1e6 * loop_without / steps
    return {
        "benchmark": "device_sync",
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "steps": steps,
        "step_us": round(step_us),
        "scalar_us": round(1e6 * statistics.median(logged), 1),
        "scalar_max_us": round(1e6 * max(logged), 1),
        "scalar_first_us": round(1e6 * first, 1),
        "item_us": round(1e6 * statistics.median(items), 1),
        "ratio": round(statistics.median(items) / statistics.median(logged), 1),
        "loop_with_scalar_over_without": round(loop_scalar / loop_without, 3),
        "loop_with_item_over_without": round(loop_item / loop_without, 3),
        "waited_steps": sum(1e6 * seconds > step_us / 2 for seconds in logged),
        "recorded": len(recorded),
        "wrong_values": sum(a != b for a, b in zip(recorded, truth, strict=False)),
        "flushed": flushed,
        "problems": problems,
    }


class Work:
    """Matrix products that keep the device busy for about STEP_S a step."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.a = torch.randn(4096, 4096, device="cuda")
        self.count = 1
        self.step(0)
        torch.cuda.synchronize()
        for _ in range(3):
            begun = time.perf_counter()
            self.step(0)
            torch.cuda.synchronize()
            self.count = max(1, round(self.count * STEP_S / (time.perf_counter() - begun)))

    def step(self, step: int) -> Any:
        """Queue one step; return its loss, which is step + 0.5."""
        weight = self.torch.ones((), device="cuda", requires_grad=True)
        product = self.a
        for _ in range(self.count):
            product = self.torch.mm(self.a, product).mul_(1e-3)
        return (product.abs().mean() * 0.0 + float(step) + 0.5) * weight

    def loop(self, steps: int, log: Callable[[Any, int], None]) -> float:
        """Return the seconds of a loop, the device's work included.

        The loop runs AHEAD steps before the device, no more: beyond a thousand kernels a launch itself waits.
        """
        self.torch.cuda.synchronize()
        begun, passed = time.perf_counter(), []
        for step in range(steps):
            if step >= AHEAD:
                passed[step - AHEAD].synchronize()
            loss = self.step(step).detach().requires_grad_()
            passed.append(self.torch.cuda.Event())
            passed[-1].record()
            with self.torch.no_grad():
                log(loss, step)
        self.torch.cuda.synchronize()
        return time.perf_counter() - begun


def timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def scalars(directory: Path, tag: str) -> list[float]:
    """Read a tag's values, by the shortest parser that does: no other package may be there."""
    [path] = directory.glob("*tfevents*")
    data, at, found = path.read_bytes(), 0, []
    key = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15"
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        payload = data[at + 12 : at + 12 + length]
        place = payload.find(key)
        if place >= 0:
            found.append(struct.unpack_from("<f", payload, place + len(key))[0])
        at += 16 + length
    return found


if __name__ == "__main__":
    sys.exit(main())
