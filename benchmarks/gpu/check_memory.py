"""Memory: the level against an own replay of the snapshot, its purposes against sizes that are known.

On the processor the snapshot is made of a few allocations whose peak is known, and no device runs out of
memory.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import stepscope as ss
from gpu.claims import Claim
from gpu.device import SNAPSHOT_PEAK, Device, made_snapshot
from gpu.hooked import profile_of
from stepscope.analyze.memory import memory

CLAIMS = (
    Claim("The peak of a snapshot is that of a replay of its allocations.", "peak_error", most=1e-6),
    Claim("The peak of a snapshot is the allocator's own, within 1 %.", "allocator_error", most=0.01),
    Claim("Gradients at the peak have their size, within 1 %.", "gradient_error", most=0.01),
    Claim(
        "Memory from before the capture is weights and AdamW's state, within 1 %.", "before_error", most=0.01
    ),
    Claim("Running out of memory leaves a snapshot that the command line reads.", "oom_read", least=1),
    Claim("That snapshot names the line that asked for the memory.", "oom_line", least=1),
)


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure on the device."""
    figures = snapshot(device, place / "small.memory.pickle") | purposes(device, place / "run")
    return figures | (out_of_memory(device, place / "oom") if device.is_gpu else {})


def snapshot(device: Device, path: Path) -> dict[str, Any]:
    """Compare the peak of a snapshot with a replay of it."""
    if device.is_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.memory._record_memory_history(max_entries=100_000)
        _, step = training(device)
        for _ in range(3):
            step()
        device.synchronize()
        own = torch.cuda.max_memory_allocated()
        torch.cuda.memory._dump_snapshot(str(path))
        torch.cuda.memory._record_memory_history(enabled=None)
    else:
        made_snapshot(str(path))
        own = SNAPSHOT_PEAK
    content = pickle.loads(path.read_bytes())
    [found] = [one for one in memory(ss.load_trace(path, cache=False)) if one.device >= 0]
    return {
        "peak_bytes": found.peak.bytes,
        "peak_error": abs(found.peak.bytes / replayed(content) - 1),
        "allocator_error": round(abs(found.peak.bytes / own - 1), 5),
        "snapshot_events": found.events,
    }


def replayed(content: dict[str, Any]) -> int:
    """Return the highest level of the first device with a history."""
    alive = sum(
        block["size"]
        for segment in content["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    )
    history = next(events for events in content["device_traces"] if events)
    level = peak = alive
    for event in reversed(history):  # from what is alive at the end back to the beginning
        if event["action"] == "alloc":
            level -= event["size"]
        elif event["action"] == "free_completed":
            level += event["size"]
        peak = max(peak, level)
    return peak


def training(device: Device) -> tuple[Any, Any]:
    width = device.size(4096, 64)
    model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(4))).to(device.place)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(device.size(512, 8), width, device=device.place)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, step


def purposes(device: Device, place: Path) -> dict[str, Any]:
    """Compare who held the memory, as a profile says, with sizes of weights, gradients and AdamW's state."""
    model, step = training(device)
    profile = profile_of(place, step, steps=12, num_steps=3, warmup_steps=1, show_memory=True)
    found = [
        one for one in memory(ss.load_trace(profile, cache=False)) if (one.device >= 0) == device.decides
    ]
    weights = sum(one.numel() * one.element_size() for one in model.parameters())
    figures: dict[str, Any] = {"weights_bytes": weights, "gradient_error": None, "before_error": None}
    if found:
        peak = found[0].peak
        held = {one.name: one.bytes for one in peak.by_category or ()}
        figures |= {"held_bytes": held, "before_bytes": peak.before_bytes}
        figures["gradient_error"] = abs(held.get("gradient", 0) / weights - 1)
        if peak.before_bytes is not None:
            # The input and small tensors of the loss are there too, besides weights and two moments of each.
            figures["before_error"] = round(abs(peak.before_bytes / (3 * weights) - 1), 4)
    return figures


def out_of_memory(device: Device, place: Path) -> dict[str, Any]:
    """Ask for more memory than there is, within a step of a run."""
    kept: list[Any] = []
    with ss.Run(place, hooks=[ss.ProfilerHook()]) as run:
        try:
            for _ in run.steps(range(device.size(1000, 20))):
                kept += [
                    torch.empty(device.size(4 << 30, 1), dtype=torch.uint8, device=device.place)
                ]  # planted
        except torch.OutOfMemoryError:
            del kept[:]
    torch.cuda.empty_cache()
    snapshots = list(place.rglob("*.oom.memory.pickle"))
    if not snapshots:
        return {"oom_read": 0, "oom_line": 0}
    command = [sys.executable, "-m", "stepscope", "profile", "memory", str(snapshots[0])]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    for path in snapshots[1:]:
        path.unlink()
    return {
        "oom_read": int(process.returncode == 0),
        "oom_line": int(Path(__file__).name in process.stdout),
        "oom_text": process.stdout[-1500:],
        "oom_bytes": snapshots[0].stat().st_size,
    }
