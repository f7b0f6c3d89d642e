"""Trainings that no rule was tuned on: drawn by chance after the rules were done, and judged once.

Architectures, sizes, data, optimizers, schedules, rates, rhythms and paces come from one generator. Another
seed makes another corpus. ``docs/design/health-corpora.md`` has the seeds that were judged, and the results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from cases import (
    ALSO,
    OPTIMIZERS,
    PLAIN_ADAM,
    RATES,
    SCHEDULES,
    at_step,
    detach,
    labels,
    machine,
    poison,
    reverse,
    scaled,
    slower,
)
from record import Case, Planted

HEALTHY = 64
ADAMS = ("adam", "adamw", "nadam", "radam", "adamax")


class Draw:
    """Draws by chance, always the same of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *of: Any) -> Any:
        """Return one of several."""
        return of[int(self.rng.integers(len(of)))]

    def whole(self, low: int, high: int) -> int:
        """Return an integer, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def log(self, low: float, high: float) -> float:
        """Return a number whose logarithm is uniform."""
        return float(f"{np.exp(self.rng.uniform(np.log(low), np.log(high))):.3g}")


def starve(loop: Any) -> None:
    """Have the router send the first expert nothing any more."""
    with torch.no_grad():
        loop.task.body.gate.bias[0] -= 1e4


def model(draw: Draw, name: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return task, options and settings of a model of some family, of a size of its own."""
    act = draw.one("relu", "tanh", "gelu") if name in ("mlp", "deep") else "relu"
    width, rate = draw.whole(24, 96), draw.log(0.5, 1.5)
    families: dict[str, Any] = {
        "mlp": ("mlp", {"width": width, "act": act if act != "gelu" else "relu"}, 2e-3, (32, 96)),
        "deep": ("mlp", {"depth": draw.whole(3, 5), "norm": True, "width": width}, 2e-3, (32, 96)),
        "noisy": ("mlp", {"noise": 0.2, "augment": draw.log(0.1, 0.5), "width": 20}, 1.5e-3, (24, 64)),
        "cnn": ("cnn", {"images": True, "norm": draw.one(True, False)}, 1.5e-3, (24, 64)),
        "regress": ("regress", {"hidden": [draw.whole(16, 64)]}, 2e-3, (24, 64)),
        "logistic": ("regress", {"data": "cancer"}, 5e-3, (24, 64)),
        "transformer": ("language", {"depth": draw.whole(1, 2), "length": draw.whole(16, 32)}, 2e-3, (6, 12)),
        "lstm": ("language", {"kind": "lstm", "width": draw.whole(24, 40)}, 4e-3, (6, 12)),
        "moe": ("language", {"kind": "moe"}, 3e-3, (6, 12)),
        "vae": ("vae", {"warm": draw.whole(200, 500)}, 2e-3, (48, 96)),
        "diffusion": ("diffusion", {}, 2e-3, (48, 96)),
        "simclr": ("ssl", {}, 2e-3, (48, 96)),
        "byol": ("ssl", {"kind": "byol"}, 1e-3, (48, 96)),
        "fewshot": ("fewshot", {}, 1e-3, (64, 64)),
        "finetune": ("finetune", {"frozen": draw.one(True, False)}, 2e-4, (32, 96)),
        "gan": (
            "gan",
            {"kind": draw.one("gan", "wgan"), "names": draw.one(("loss_D", "loss_G"), ("d_loss", "g_loss"))},
            2e-3,
            (64, 64),
        ),
        "rl": ("rl", {"kind": draw.one("a2c", "dqn")}, 2e-3, (32, 32)),
        "parity": ("parity", {"bits": draw.whole(2, 3)}, 2e-3, (48, 96)),
    }  # fmt: skip
    task, options, base, batches = families[name]
    more: dict[str, Any] = {"lr": base * rate, "batch": draw.whole(*batches)}
    if name in ("transformer", "lstm"):
        more["clip"] = 1.0
    return task, options, more


NAMES = (
    "mlp", "deep", "noisy", "cnn", "regress", "logistic", "transformer", "lstm", "moe", "vae", "diffusion",
    "simclr", "byol", "fewshot", "finetune", "gan", "rl", "parity",
)  # fmt: skip


def healthy(seed: int) -> list[Case]:
    """Return healthy trainings."""
    draw, cases = Draw(seed), []
    for at in range(HEALTHY):
        name = NAMES[at % len(NAMES)]
        task, options, more = model(draw, name)
        kind = draw.one(*ADAMS) if name in (*PLAIN_ADAM, "gan", "rl", "parity") else draw.one(*OPTIMIZERS)
        more["lr"] = float(f"{more['lr'] * RATES.get(kind, 1.0):.3g}")
        rhythm = draw.one("step", "step", "every", "epoch", "evaluation", "minute")
        evaluate = draw.whole(20, 90)
        pace = draw.log(0.001, 2400.0)
        if task in ("gan", "rl"):
            rhythm, more = draw.one("step", "every"), {**more, "evaluate": 0}
        elif rhythm == "epoch":
            more["evaluate"] = 1
        elif task in ("vae", "diffusion"):
            more["evaluate"] = evaluate if rhythm == "evaluation" else 0
        else:
            more["evaluate"] = evaluate
        style = draw.one("stepscope", "lightning", "hf", "plain")
        if task == "rl":
            style = draw.one("rl", "stepscope")
        more["style"] = draw.one("keras", "plain") if rhythm == "epoch" else style
        more["step_s"] = draw.log(2.0, 20.0) if rhythm == "minute" else pace
        if more["style"] == "stepscope" and rhythm == "step" and task not in ("gan", "rl"):
            more["layers"] = draw.whole(20, 40)
        cases.append(
            Case(
                f"fresh-{seed}-{at:02}-{name}-{kind}-{rhythm}",
                task,
                optimizer=kind,
                schedule=draw.one(*SCHEDULES),
                steps=900 if rhythm == "epoch" else draw.whole(350, 800),
                rhythm=rhythm,
                every=draw.whole(2, 10),
                seed=seed + at,
                options=options,
                busy=more["step_s"] < 0.01,
                bf16=draw.one(False, False, True) and name != "moe",
                accumulate=draw.one(1, 1, 2),
                **more,
            )
        )
    return cases


def planted(seed: int) -> list[Case]:
    """Return trainings in which something was broken, at a step and in a model drawn by chance."""
    draw, cases = Draw(seed + 1), []

    def add(rule: str, window: tuple[int, int], task: str = "mlp", **more: Any) -> None:
        name = f"planted-{rule}-fresh-{seed}-{len(cases):02}"
        more.setdefault("step_s", draw.log(0.004, 2.0))
        more.setdefault("batch", draw.whole(24, 80))
        cases.append(Case(name, task, planted=Planted(rule, *window, ALSO), seed=seed + len(cases), **more))

    def style() -> str:
        return str(draw.one("stepscope", "lightning", "hf"))

    for task, options in (
        ("mlp", {"depth": 3}), ("cnn", {"images": True}), ("language", {"kind": "lstm"}), ("regress", {}),
    ):  # fmt: skip
        at = draw.whole(40, 300)
        size = draw.whole(6, 12) if task == "language" else draw.whole(24, 64)
        add("nonfinite-loss", (at, at + 1), task, options=options, before=at_step(at, poison), steps=at + 60,
            style=style(), batch=size)  # fmt: skip
    at = draw.whole(60, 200)
    add("nonfinite-gradient", (at, at + 1), before=at_step(at, poison), steps=at + 60, style="stepscope")
    add("nonfinite-activation", (at, at + 25), before=at_step(at, poison), steps=at + 80, layers=25)
    for task in ("mlp", "cnn", "mlp", "cnn"):
        at = draw.whole(120, 300)
        spoil = scaled(range(at, at + draw.whole(3, 6)), -draw.log(15, 40))
        add("loss-spike", (at, at + 8), task, steps=at + 150, style=style(),
            options={"images": task == "cnn", "spoil": spoil})  # fmt: skip
    at = draw.whole(200, 320)
    add("loss-spike", (at, at + 14), steps=at + 120, lr=1e-3, before=slower(1.0, at))
    for task, options in (("mlp", {}), ("cnn", {"images": True})):
        add("loss-not-decreasing", (0, 260), task, steps=400, lr=draw.log(1e-10, 5e-9), optimizer="sgd",
            options=options, style=style())  # fmt: skip
    at = draw.whole(180, 300)
    add("loss-not-decreasing", (at, at + 220), steps=at + 300, optimizer="momentum", lr=0.05,
        before=lambda loop, now, at=at: reverse(loop, now, at, 2e-3))  # fmt: skip
    add(
        "plateau", (1000, 2400), steps=2400, before=slower(1e-9, draw.whole(300, 500)), lr=1e-3, style="plain"
    )
    for samples in (55, 75):
        add("overfitting", (60, 1000), steps=1000, evaluate=draw.whole(15, 30), batch=50, lr=5e-3,
            options={"samples": samples, "noise": 0.25}, style=style())  # fmt: skip
    add("overtraining", (350, 1200), steps=1200, evaluate=20, before=slower(1e-9, draw.whole(240, 320)))
    for task in ("mlp", "cnn"):
        at = draw.whole(150, 300)
        add("gradient-spike", (at, at), task, steps=at + 100, lr=1e-3, style=style(),
            options={"images": task == "cnn",
                     "spoil": scaled(range(at, at + 1), draw.log(80, 200))})  # fmt: skip
    add("vanishing-gradient", (90, 260), steps=300, optimizer="sgd", lr=0.01, layers=10,
        options={"act": "sigmoid", "depth": draw.whole(9, 12)})  # fmt: skip
    at = draw.whole(80, 160)
    add("exploding-gradient", (at, at + 300), steps=at + 300, optimizer="sgd", lr=0.05, options={"depth": 3},
        before=lambda loop, now, at=at: reverse(loop, now, at))  # fmt: skip
    add(
        "update-ratio",
        (190, 400),
        steps=500,
        optimizer="decaying",
        lr=0.3,
        layers=10,
        options={"act": "tanh"},
    )
    add("poor-initialization", (0, 25), steps=100, layers=10, lr=1e-3,
        options={"act": "tanh", "depth": draw.whole(5, 7), "scale": 0.12})  # fmt: skip
    at = draw.whole(40, 120)
    kill = draw.log(15, 40)
    add("dead-relu", (at, at + 270), steps=at + 330, layers=10,
        before=at_step(at, lambda loop: loop.task.model[0].bias.data.sub_(kill)))  # fmt: skip
    add("saturated-activation", (30, 80), steps=200, layers=10, lr=1e-4,
        options={"act": draw.one("tanh", "sigmoid"), "scale": draw.log(50, 90)})  # fmt: skip
    add("unchanged-tensor", (80, 200), steps=300, layers=10, before=at_step(0, detach))
    at = draw.whole(40, 120)
    add("dead-experts", (at + 90, at + 240), "language", options={"kind": "moe"}, steps=at + 280, layers=5,
        lr=3e-3, before=at_step(at, starve), batch=draw.whole(6, 12))  # fmt: skip
    add("clipping", (190, 260), steps=400, clip=draw.log(0.005, 0.02), optimizer="sgd", lr=0.05)
    at = draw.whole(100, 200)
    add("loss-scale", (at, at + 25), steps=at + 100, record=lambda loop, step, at=at: {
        "gradients/loss_scale": 65536.0 * 0.5 ** max(0, min(step - at, 40))})  # fmt: skip
    add("learning-rate", (at, at), steps=at + 100, before=slower(draw.log(0.05, 0.2), at), lr=1e-3)
    add("learning-rate", (at, at), steps=at + 100, before=slower(-1e-4, at), lr=1e-3, style="hf")
    add("class-imbalance", (5, 20), steps=60, record=labels)
    at, wait = draw.whole(150, 300), draw.log(0.5, 0.8)
    add("data-wait", (at, at + 160), steps=at + 200, step_s=0.1,
        wait=lambda step, at=at: 0.1 * wait if step >= at else 0.001)  # fmt: skip
    add("gpu-underused", (290, 420), steps=500, record=machine(draw.log(0.25, 0.4), 0.3, 0.0))
    add("cpu-bottleneck", (290, 360), steps=500, record=machine(0.05, 0.96, 0.0))
    add("io-bottleneck", (290, 360), steps=500, record=machine(0.05, 0.3, draw.log(0.7, 0.9)))
    leak = draw.log(1.5, 6.0) * 2**20
    add("memory-creep", (236, 400), steps=400, record=lambda loop, step: (
        {"system/process/memory_bytes": 5e8 + leak * step} if step % 4 == 0 else {}))  # fmt: skip
    for pause, usual in ((draw.log(500, 2000), 0.02), (draw.log(4000, 9000), 3.0)):
        at = draw.whole(120, 260)
        add("stalled-training", (at - 1, at + 1), steps=at + 100,
            duration=lambda step, at=at, p=pause, u=usual: p if step == at else u)  # fmt: skip
    every, usual = draw.whole(10, 16), draw.log(0.02, 0.3)
    add("step-outliers", (200, 330), steps=600,
        duration=lambda step: 9 * usual if step % every == 0 else usual)  # fmt: skip
    return cases


def fresh(seed: int) -> list[Case]:
    """Return all trainings of a seed."""
    return healthy(seed) + planted(seed)
