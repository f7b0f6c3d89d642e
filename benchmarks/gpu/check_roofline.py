"""Model FLOPs of three models against formulas, and the card's peaks against measured ones."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import stepscope as ss
from gpu.claims import Claim
from gpu.device import Device
from gpu.hooked import profile_of
from stepscope.analyze.shapes import shape_table

CLAIMS = (
    Claim("FLOPs of a perceptron are those of its formula, within 1 %.", "perceptron_error", most=0.01),
    Claim("FLOPs of a convolution are those of its formula, within 1 %.", "convolution_error", most=0.01),
    Claim("FLOPs of attention are those of its formula, within 1 %.", "attention_error", most=0.01),
    Claim("Utilisation is that of a step's own clock, within 2 %.", "utilisation_error", most=0.02),
    Claim("The card's peak in bfloat16 is reached to 60 %, and not exceeded.", "matrix_ratio", 0.6, 1.0),
    Claim("The card's bandwidth is reached to 70 %, and not exceeded.", "copy_ratio", 0.7, 1.0),
)


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure FLOPs, then peaks."""
    figures: dict[str, Any] = {}
    peak = None
    for name, make in {"perceptron": perceptron, "convolution": convolution, "attention": attention}.items():
        step, formula = make(device)
        found, peak, seconds = recorded(device, place / name, step)
        flops = statistics.median(one.flops for one in found.steps)
        used = [one.utilisation_ratio for one in found.steps if one.utilisation_ratio is not None]
        figures |= {f"{name}_flops": flops, f"{name}_error": abs(flops / formula - 1)}
        if name == "perceptron" and used and peak is not None:
            own = formula / seconds / peak.flops_per_second["bfloat16"]
            figures["utilisation_error"] = round(abs(statistics.median(used) / own - 1), 4)
            figures["utilisation"] = round(own, 4)
    return figures | peaks(device, peak)


def recorded(device: Device, place: Path, step: Any) -> tuple[Any, Any, float]:
    """Return the work of a capture by shapes, the peak it took, and the seconds of a captured step."""

    def complete() -> None:
        step()
        device.synchronize()

    for _ in range(3):
        step()
    profile = profile_of(place, complete, steps=15, num_steps=5, warmup_steps=1, record_shapes=True)
    found = shape_table(ss.load_trace(profile, cache=False))
    return found, found.peak, 1e-9 * statistics.median(one.wall_ns for one in found.steps)


def perceptron(device: Device) -> tuple[Any, float]:
    """Three layers, of which the first needs no gradient of its input."""
    width, batch, depth = device.size(4096, 64), device.size(8192, 32), 3
    kind = torch.bfloat16
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(depth))).to(device.place, kind)
    x = torch.randn(batch, width, device=device.place, dtype=kind)

    def step() -> None:
        model(x).float().square().mean().backward()
        model.zero_grad()

    return step, 2.0 * batch * width * width * (3 * depth - 1)


def convolution(device: Device) -> tuple[Any, float]:
    """Two convolutions of 3 by 3, of which the first needs no gradient of its input."""
    channels, side, batch = device.size(128, 8), device.size(56, 8), device.size(64, 2)
    model = nn.Sequential(*(nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2)))
    model.to(device.place)
    x = torch.randn(batch, channels, side, side, device=device.place)

    def step() -> None:
        model(x).square().mean().backward()
        model.zero_grad()

    return step, 2.0 * batch * side * side * channels * channels * 9 * (3 * 2 - 1)


def attention(device: Device) -> tuple[Any, float]:
    """Attention alone: two products forward, five backward (Dao 2022: the scores are computed again)."""
    batch, heads, length, depth = device.size(8, 1), device.size(16, 2), device.size(1024, 16), 64
    kind = torch.bfloat16 if device.is_gpu else torch.float32
    query, key, value = (
        torch.randn(batch, heads, length, depth, device=device.place, dtype=kind, requires_grad=True)
        for _ in range(3)
    )

    def step() -> None:
        F.scaled_dot_product_attention(query, key, value).float().square().mean().backward()
        query.grad = key.grad = value.grad = None

    return step, (2 + 5) * 2.0 * batch * heads * length * length * depth


def peaks(device: Device, peak: Any) -> dict[str, Any]:
    """Measure matrix products in bfloat16 and copies within the device."""
    side, size = device.size(8192, 256), device.size(1 << 30, 1 << 20)
    a, b = (torch.randn(side, side, device=device.place, dtype=torch.bfloat16) for _ in range(2))
    source = torch.empty(size, dtype=torch.uint8, device=device.place)
    target = torch.empty_like(source)
    times = device.size(20, 3)
    device.seconds(lambda: torch.mm(a, b), 3)
    flops = 2.0 * side**3 / min(device.seconds(lambda: torch.mm(a, b), times) for _ in range(3))
    moved = 2.0 * size / min(device.seconds(lambda: target.copy_(source), times) for _ in range(3))
    known = peak is not None and device.is_gpu
    return {
        "matrix_tflops": round(flops / 1e12, 2),
        "copy_gb_per_s": round(moved / 1e9, 1),
        "peak": peak.name if peak else None,
        "matrix_ratio": round(flops / peak.flops_per_second["bfloat16"], 3) if known else None,
        "copy_ratio": round(moved / peak.bytes_per_second, 3) if known else None,
    }
