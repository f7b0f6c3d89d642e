"""Steps between captures, and the cost of captures: time, size, and the time until a profile is written."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import stepscope as ss
from gpu.claims import Claim
from gpu.device import Device, ratio, spread
from gpu.hooked import between_captures
from stepscope.trace.model import Kind

CLAIMS = (
    Claim("Between captures a step runs at 0.998 of its speed at least.", "speed_between", least=0.998),
    Claim("A capture records the kernels of its steps.", "kernels_per_step", least=1),
    Claim("What captures steal by the run's own account is right within a third.", "account", 0.67, 1.5),
    Claim("The training thread stands still for 250 ms at most when a capture ends.", "longest_ms", most=250),
)


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure with a transformer of a usual size for one GPU."""
    step = transformer(device)
    plain, between = between_captures(device, place / "between", step, secs=device.size(8, 1))
    usual = statistics.median(plain)
    took, pointers, writing = captured(device, place / "captures", step)
    steps = len(took)
    stolen = sum(took) - steps * usual
    account = max(one["cost"]["run_stolen_seconds"] for one in pointers)
    profiles = sorted((place / "captures" / "profiles").glob("*.pt.trace.json.gz"))
    trace = ss.load_trace(profiles[0])
    kernels = int((trace.kind == Kind.KERNEL).sum())
    return {
        "step_ms": round(1e3 * usual, 3),
        "speed_between": round(1 / ratio(plain, between), 4),
        "between_quartiles": spread(plain, between),
        "captures": len(pointers),
        "stolen_ms_per_capture": round(1e3 * stolen / len(pointers), 1),
        "account": round(account / stolen, 3) if stolen > 0 else None,
        "longest_ms": round(1e3 * (max(took) - usual), 1),
        "written_after_s": round(writing, 2),
        "bytes": [path.stat().st_size for path in profiles],
        "events": len(trace.kind),
        "kernels_per_step": kernels / max(1, len(trace.steps)) if device.is_gpu else None,
    }


def transformer(device: Device) -> Any:
    """Return a step of a transformer in bfloat16 with AdamW."""
    width, layers = device.size(1024, 64), device.size(8, 2)
    layer = nn.TransformerEncoderLayer(
        width, width // 64 or 1, 4 * width, batch_first=True, dropout=0.0, device=device.place
    )
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(device.size(8, 2), device.size(512, 16), width, device=device.place)

    def step() -> None:
        with torch.autocast(device.place, torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(5):
        step()
    device.synchronize()
    return step


def captured(device: Device, place: Path, step: Any) -> tuple[list[float], list[dict[str, Any]], float]:
    """Train with captures; return seconds of each step, the profiles' facts, and the seconds of the end."""
    every = device.size(60, 15)
    hook = ss.ProfilerHook(save_steps=every, warmup_steps=1, max_overhead=None)
    took = []
    with ss.Run(place, hooks=[hook]) as run:
        last = time.perf_counter()
        for _ in run.steps(range(3 * every)):
            step()
            device.synchronize()
            took.append(time.perf_counter() - last)
            last = time.perf_counter()
        begun = time.perf_counter()
    writing = time.perf_counter() - begun
    pointers = [json.loads(path.read_text()) for path in (place / "profiles").glob("*.profile.json")]
    return took, [one for one in pointers if "cost" in one], writing
