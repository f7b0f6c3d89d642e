"""Stages of a step as events in the stream time them, against the times of the profiler's kernels.

A stage ends on the device when the last kernel ends that its part of the loop launched, so the truth for a
stage is the time from the end of the last kernel of the stage before to the end of its own last kernel. On
the processor the truth is the profiler's time of the marked parts.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import stepscope as ss
from gpu.claims import Claim
from gpu.device import Device
from stepscope.integrations.torch import watch
from stepscope.store.ranks import Ranks

CLAIMS = (
    Claim("Stages that events time are within 2 % of the profiler's.", "largest_error", most=0.02),
    Claim("Stages of a run on a GPU are those of the device.", "by_device", least=1),
    Claim("Timing stages slows a step by 1 % at most.", "slower", most=1.01),
)
STAGES = ("forward", "backward", "optimizer")


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure stages both ways in the same steps."""
    width, depth = device.size(4096, 256), 6
    layers = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers).to(device.place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(device.size(8192, 64), width, device=device.place)

    def step() -> None:
        with torch.profiler.record_function("stage:forward"):
            loss = model(x).square().mean()
        with torch.profiler.record_function("stage:backward"):
            loss.backward()
        with torch.profiler.record_function("stage:optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    steps, trace = device.size(60, 40), place / "trace.json"
    plain = statistics.median(device.seconds(step) for _ in range(10))
    with ss.Run(place / "run") as run:
        watched = watch(model, optimizer, run)
        for _ in run.steps(range(steps)):
            step()
        device.synchronize()
        seen = statistics.median(
            device.seconds(lambda: [step() for _ in run.steps(range(steps, steps + 1))]) for _ in range(10)
        )
        with torch.profiler.profile() as profiler:
            for _ in run.steps(range(steps + 10, 2 * steps)):
                step()
            device.synchronize()
        watched.remove()
    profiler.export_chrome_trace(str(trace))
    truth = of_profiler(trace, on_gpu=device.is_gpu)
    trace.unlink()
    table = Ranks(str(place / "run")).stages(begin=steps + 10, end=2 * steps)
    ours = {
        name: 1e3 * float(np.nanmedian(table.durations_s[:, 0, at]))
        for at, name in enumerate(table.stages)
        if name in STAGES
    }
    errors = {
        name: round(abs(ours[name] / truth[name] - 1), 4) for name in STAGES if name in ours and name in truth
    }
    return {
        "stages_ms": {name: round(value, 4) for name, value in ours.items()},
        "profiler_ms": {name: round(value, 4) for name, value in truth.items()},
        "errors": errors,
        "largest_error": max(errors.values()) if len(errors) == len(STAGES) else None,
        "by_device": int(table.clock == "device"),
        "slower": round(seen / plain, 4),
        "steps": len(table.steps),
    }


def of_profiler(path: Path, *, on_gpu: bool) -> dict[str, float]:
    """Return the median milliseconds of each stage in the steps of a profile."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    parts = sorted(
        (float(event["ts"]), float(event["ts"]) + float(event["dur"]), event["name"][6:])
        for event in events
        if event.get("cat") == "user_annotation" and event["name"].startswith("stage:")
    )
    if not on_gpu:
        times = defaultdict(list)
        for begin, end, name in parts:
            times[name].append((end - begin) / 1e3)
        return {name: statistics.median(some) for name, some in times.items()}
    ends = {
        event["args"]["correlation"]: float(event["ts"]) + float(event["dur"])
        for event in events
        if event.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")
    }
    launches = sorted(
        (float(event["ts"]), ends[event["args"]["correlation"]])
        for event in events
        if event.get("cat") in ("cuda_runtime", "cuda_driver")
        and event.get("args", {}).get("correlation") in ends
    )
    times, before, at = defaultdict(list), None, 0
    for begin, end, name in parts:
        last = None
        while at < len(launches) and launches[at][0] <= end:
            last = launches[at][1] if launches[at][0] >= begin else last
            at += 1
        if last is not None and before is not None:
            times[name].append((last - before) / 1e3)
        before = last if last is not None else before
    return {name: statistics.median(some) for name, some in times.items()}
