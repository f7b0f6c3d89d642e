"""The cost of gradient statistics on a bfloat16 transformer, and their exactness against float64."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
from torch import nn

import stepscope as ss
from gpu.claims import Claim
from gpu.device import Device, ratio, spread
from stepscope.integrations.torch import watch

CLAIMS = (
    Claim("The norm of every step slows a step by 1 % at most.", "norm_ratio", most=1.01),
    Claim("GradientHook(1) within its budget slows a step by 3 % at most.", "budget_ratio", most=1.03),
    Claim("The gradient's norm is exact to 1e-6 against float64 on the host.", "norm_error", most=1e-6),
    Claim("Each parameter's mean is exact to 1e-6 of its norm.", "mean_error", most=1e-6),
    Claim("Histograms hold every element.", "histogram_missing", most=0),
    Claim("All statistics take the time of two reads of the gradients at most.", "reads", most=2.0),
)


def measure(device: Device, place: Path) -> dict[str, Any]:
    """Measure cost, then exactness."""
    model, step, optimizer = transformer(device)
    figures: dict[str, Any] = {"parameters": sum(one.numel() for one in model.parameters())}
    hooks = {
        "norm": lambda: ss.GradientHook(every_n_steps=10**6, dense_steps=0, histograms_every=0),
        "budget": lambda: ss.GradientHook(1),
        "sampled": lambda: ss.GradientHook(1, max_overhead=None, noise_scale=False),
    }
    for name, make in hooks.items():
        with ss.Run(place / name, hooks=[make()]) as run:
            watched = watch(model, optimizer, run)
            parts = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
            attached = [dict(one) for one in parts]

            def plain(parts: Any = parts, attached: Any = attached) -> None:
                for one in parts:
                    one.clear()
                step()
                for one, some in zip(parts, attached, strict=True):
                    one.update(some)

            def hooked(run: Any = run) -> None:
                with run.step():
                    step()

            for _ in range(device.size(20, 3)):
                hooked()
            without, with_hook = device.paired(plain, hooked, secs=device.size(6, 1), steps=device.size(5, 1))
            watched.remove()
        figures |= {
            "step_ms": round(1e3 * statistics.median(without), 3),
            f"{name}_ratio": round(ratio(without, with_hook), 4),
            f"{name}_quartiles": spread(without, with_hook),
        }
    return figures | exactness(device, place / "exact", model, step, optimizer) | reads(device)


def transformer(device: Device) -> tuple[Any, Any, Any]:
    """Return a bfloat16 transformer of about 350 million parameters, its step and its optimizer."""
    width, layers = device.size(1024, 64), device.size(28, 2)
    layer = nn.TransformerEncoderLayer(
        width,
        width // 64,
        4 * width,
        batch_first=True,
        dropout=0.0,
        device=device.place,
        dtype=torch.bfloat16,
    )
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=device.is_gpu)
    x = torch.randn(device.size(8, 2), device.size(512, 16), width, device=device.place, dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad()
        model(x).float().square().mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    device.synchronize()
    return model, step, optimizer


def exactness(device: Device, place: Path, model: Any, step: Any, optimizer: Any) -> dict[str, Any]:
    """Compare one sampled step with float64 on the host."""
    hook = ss.GradientHook(1, of=["gradients"], histograms_every=1, max_overhead=None, noise_scale=False)
    with ss.Run(place, hooks=[hook]) as run:
        watched = watch(model, optimizer, run)
        with run.step():
            step()
        watched.remove()
    host = {name: one.grad.detach().double().cpu() for name, one in model.named_parameters()}
    norm = float(torch.stack([one.square().sum() for one in host.values()]).sum().sqrt())
    with ss.open(place) as logs:
        saved = logs.runs()[0]
        tags = set(saved.tags("scalar"))
        ours = float(saved.series("gradients/norm")["value"][-1])
        means = [
            abs(float(saved.series(f"gradients/{name}/mean")["value"][-1]) - float(one.mean()))
            / max(float(one.square().sum().sqrt()), 1e-30)
            for name, one in host.items()
            if f"gradients/{name}/mean" in tags
        ]
        missing = 0
        for name, one in host.items():
            [buckets] = saved.record(f"gradients/{name}/histogram")
            missing += abs(int(buckets[len(buckets) - 1][:, 2].sum()) - one.numel())
    return {
        "norm_error": abs(ours / norm - 1),
        "mean_error": max(means),
        "parameters_compared": len(means),
        "histogram_missing": missing,
    }


def reads(device: Device) -> dict[str, Any]:
    """Time all statistics of a thousand million bfloat16 numbers, against one read of them."""
    from stepscope.integrations.torch import device as statistics_of

    place = torch.device(device.place)
    size = device.size(50_000_000, 10_000)
    tensors = [torch.randn(size, device=place, dtype=torch.bfloat16) for _ in range(20)]
    fused = statistics_of.fused_kernel(place)
    kernel = fused or statistics_of.by_torch
    kernel(tensors, True)
    times = {
        "read": min(device.seconds(lambda: [one.amax() for one in tensors]) for _ in range(5)),
        "all": min(device.seconds(lambda: kernel(tensors, True)) for _ in range(5)),
    }
    speed = sum(one.numel() * one.element_size() for one in tensors) / times["read"] / 1e9
    return {
        "reads": round(times["all"] / times["read"], 2), "read_gb_per_s": round(speed),
        "kernel": "fused" if fused else "torch",
    }  # fmt: skip
