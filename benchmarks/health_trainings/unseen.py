"""Trainings of other architectures, data, optimizers, schedules and rhythms than rules were tuned on.

They are drawn from a seed as those of ``fresh.py``, trained where they are judged, and not committed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import record
import torch
import unseen_tasks
from cases import ALSO, at_step, detach, poison, reverse, scaled, slower
from fresh import Draw
from record import Case, Planted

HEALTHY = 96


class Lion(torch.optim.Optimizer):
    """Signs of a momentum (Chen et al. 2023, arXiv 2302.06675)."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Do one step."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.sub_(group["lr"] * torch.sign(0.9 * m + 0.1 * p.grad))
                m.mul_(0.99).add_(0.01 * p.grad)


OPTIMIZERS: dict[str, tuple[Callable[..., torch.optim.Optimizer], float]] = {
    # Each with the factor of its learning rate to that of Adam.
    "amsgrad": (lambda p, lr: torch.optim.Adam(p, lr, amsgrad=True), 1.0),
    "adam-b95": (lambda p, lr: torch.optim.AdamW(p, lr, (0.9, 0.95), weight_decay=0.1), 1.0),
    "adafactor": (lambda p, lr: torch.optim.Adafactor(p, lr), 3.0),
    "adadelta": (lambda p, lr: torch.optim.Adadelta(p, lr), 300.0),
    "asgd": (lambda p, lr: torch.optim.ASGD(p, lr), 30.0),
    "lion": (Lion, 0.2),
    "rms-momentum": (lambda p, lr: torch.optim.RMSprop(p, lr, momentum=0.9), 0.1),
    "heavy": (lambda p, lr: torch.optim.SGD(p, lr, momentum=0.95, weight_decay=5e-4), 5.0),
    "foreach": (lambda p, lr: torch.optim.AdamW(p, lr, foreach=True), 1.0),
}
SCHEDULES: dict[str, Callable[[float], float]] = {
    "polynomial": lambda t: (1 - t) ** 2,
    "stable-decay": lambda t: min(t / 0.05, 1.0) if t < 0.8 else max((1 - t) / 0.2, 1e-4),
    "triangular": lambda t: 0.1 + 0.9 * abs(1 - 2 * ((4 * t) % 1.0)),
    "warm-cosine": lambda t: t / 0.1 if t < 0.1 else 0.1 + 0.45 * (1 + math.cos(math.pi * (t - 0.1) / 0.9)),
    "milestones": lambda t: 0.5 ** ((t > 0.4) + (t > 0.6) + (t > 0.8)),
    "flat": lambda t: 1.0,
}
FAMILIES: dict[str, tuple[str, dict[str, Any], float, tuple[int, int]]] = {
    "wine": ("table", {"data": "wine"}, 3e-3, (16, 48)),
    "iris-norm": ("table", {"data": "iris", "norm": True, "act": "elu"}, 3e-3, (16, 32)),
    "moons": ("table", {"data": "moons", "act": "leaky"}, 5e-3, (16, 128)),
    "friedman": ("table", {"data": "friedman"}, 3e-3, (32, 128)),
    "quantile": ("table", {"data": "friedman", "kind": "quantile"}, 3e-3, (32, 128)),
    "resnet": ("picture", {}, 2e-3, (24, 64)),
    "mixer": ("picture", {"kind": "mixer"}, 2e-3, (24, 64)),
    "vit": ("picture", {"kind": "vit"}, 2e-3, (24, 64)),
    "segment": ("segment", {}, 3e-3, (16, 48)),
    "flow": ("flow", {}, 2e-3, (64, 128)),
    "gru": ("series", {}, 5e-3, (24, 64)),
    "temporal": ("series", {"kind": "conv"}, 2e-3, (24, 64)),
    "ratings": ("ratings", {}, 1e-2, (64, 256)),
    "graph": ("graph", {}, 1e-2, (1, 1)),
    "copying": ("copying", {}, 2e-3, (24, 48)),
    "triplet": ("triplet", {}, 1e-3, (48, 96)),
    "distil": ("distil", {}, 3e-3, (32, 96)),
    "physics": ("physics", {}, 2e-3, (48, 96)),
    "speech": ("speech", {}, 3e-3, (16, 32)),
    "words": ("words", {}, 5e-3, (32, 128)),
}
SICK = {"graph"}
"""Few labels and a strong model: it overfits in earnest, and is not a healthy training."""
EVALUATED = {"physics"}
"""Tasks that have no evaluation."""
record.TASKS.update(unseen_tasks.TASKS)
record.OPTIMIZERS.update({name: make for name, (make, _) in OPTIMIZERS.items()})
record.SCHEDULES.update(SCHEDULES)


def healthy(seed: int) -> list[Case]:
    """Return healthy trainings."""
    draw, cases, names = Draw(seed), [], [name for name in FAMILIES if name not in SICK]
    for at in range(HEALTHY):
        name = names[(at + seed) % len(names)]
        task, options, rate, batches = FAMILIES[name]
        kind = draw.one(*OPTIMIZERS)
        rhythm = draw.one("step", "step", "every", "mean", "samples", "epoch", "evaluation", "minute")
        evaluate = 0 if task in EVALUATED else draw.whole(15, 120)
        if (rhythm == "evaluation" and not evaluate) or (rhythm == "epoch" and task == "graph"):
            rhythm = "mean"
        style = (
            draw.one("keras", "plain")
            if rhythm == "epoch"
            else draw.one("stepscope", "lightning", "hf", "plain")
        )
        pace = draw.log(2.0, 30.0) if rhythm == "minute" else draw.log(0.001, 1800.0)
        layers = draw.whole(10, 50) if style == "stepscope" and rhythm == "step" else 0
        cases.append(
            Case(
                f"unseen-{seed}-{at:02}-{name}-{kind}-{rhythm}",
                task,
                optimizer=kind,
                lr=float(f"{rate * OPTIMIZERS[kind][1] * draw.log(0.4, 1.6):.3g}"),
                schedule=draw.one(*SCHEDULES),
                steps=draw.whole(250, 1000),
                batch=draw.whole(*batches),
                rhythm=rhythm,
                every=draw.whole(2, 25),
                step_s=pace,
                busy=pace < 0.01 or (draw.one(False, False, True) and pace < 0.1),
                style=style,
                evaluate=1 if rhythm == "epoch" and evaluate else evaluate,
                layers=layers,
                accumulate=draw.one(1, 1, 4),
                clip=draw.one(0.0, 0.0, 1.0, 5.0),
                seed=seed + at,
                options={**options, "width": 4 * draw.whole(3, 10)} if task != "flow" else options,
            )
        )
    return cases


def planted(seed: int) -> list[Case]:
    """Return trainings in which something was broken, at a step and in a model drawn by chance."""
    draw, cases = Draw(seed + 1), []

    def add(rule: str, window: tuple[int, int], family: str, **more: Any) -> None:
        task, options, rate, batches = FAMILIES[family]
        more["options"] = {**options, **more.get("options", {})}
        more.setdefault("lr", rate)
        more.setdefault("batch", draw.whole(*batches))
        more.setdefault("step_s", draw.log(0.004, 2.0))
        name = f"planted-{rule}-unseen-{seed}-{len(cases):02}"
        cases.append(Case(name, task, planted=Planted(rule, *window, ALSO), seed=seed + len(cases), **more))

    style = lambda: str(draw.one("stepscope", "lightning", "hf"))  # noqa: E731
    for family in ("resnet", "gru", "friedman", "vit", "flow", "words"):
        at = draw.whole(30, 350)
        add("nonfinite-loss", (at, at + 1), family, before=at_step(at, poison), steps=at + 60, style=style())
    at = draw.whole(60, 200)
    add("nonfinite-gradient", (at, at + 1), "mixer", before=at_step(at, poison), steps=at + 60)
    for family in ("friedman", "resnet", "gru"):
        at = draw.whole(120, 400)
        spoil = scaled(range(at, at + draw.whole(3, 6)), -draw.log(15, 40))
        add("loss-spike", (at, at + 8), family, steps=at + 120, style=style(), options={"spoil": spoil})
    at = draw.whole(200, 320)
    add("loss-spike", (at, at + 14), "vit", steps=at + 120, lr=1e-3, before=slower(0.6, at))
    for family in ("moons", "segment", "temporal"):
        add("loss-not-decreasing", (0, 260), family, steps=400, lr=draw.log(1e-10, 5e-9), optimizer="sgd",
            style=style())  # fmt: skip
    for family in ("resnet", "friedman"):
        at = draw.whole(180, 300)
        add("loss-not-decreasing", (at, at + 220), family, steps=at + 300, optimizer="momentum", lr=0.02,
            before=lambda loop, now, at=at: reverse(loop, now, at, 1e-3))  # fmt: skip
    add(
        "plateau",
        (1000, 2600),
        "friedman",
        steps=2600,
        before=slower(1e-9, draw.whole(300, 500)),
        style="plain",
    )
    for family in ("resnet", "friedman"):
        at = draw.whole(150, 300)
        add("gradient-spike", (at, at), family, steps=at + 100, lr=1e-3, style=style(),
            options={"spoil": scaled(range(at, at + 1), draw.log(80, 200))})  # fmt: skip
    for family in ("distil", "temporal"):
        at = draw.whole(80, 160)
        add("exploding-gradient", (at, at + 300), family, steps=at + 300, optimizer="sgd", lr=0.05,
            before=lambda loop, now, at=at: reverse(loop, now, at))  # fmt: skip
    for family in ("mixer", "resnet"):
        add("unchanged-tensor", (80, 200), family, steps=300, layers=10, before=at_step(0, detach))
    at = draw.whole(100, 200)
    add("learning-rate", (at, at), "moons", steps=at + 100, before=slower(draw.log(0.06, 0.3), at), lr=1e-3)
    at, wait = draw.whole(150, 300), draw.log(0.5, 0.8)
    add("data-wait", (at, at + 160), "ratings", steps=at + 200, step_s=0.1,
        wait=lambda step, at=at: 0.1 * wait if step >= at else 0.001)  # fmt: skip
    for pause, usual in ((draw.log(500, 2000), 0.02), (draw.log(4000, 9000), 3.0)):
        at = draw.whole(120, 260)
        add("stalled-training", (at - 1, at + 1), "gru", steps=at + 100,
            duration=lambda step, at=at, p=pause, u=usual: p if step == at else u)  # fmt: skip
    every, usual = draw.whole(10, 16), draw.log(0.02, 0.3)
    add("step-outliers", (200, 330), "words", steps=600,
        duration=lambda step: 9 * usual if step % every == 0 else usual)  # fmt: skip
    add("clipping", (190, 260), "temporal", steps=400, clip=draw.log(0.002, 0.008), optimizer="sgd", lr=0.05)
    leak = draw.log(1.5, 6.0) * 2**20
    add("memory-creep", (236, 400), "graph", steps=400, record=lambda loop, step: (
        {"system/process/memory_bytes": 5e8 + leak * step} if step % 4 == 0 else {}))  # fmt: skip
    return cases


def unseen(seed: int) -> list[Case]:
    """Return all trainings of a seed."""
    return healthy(seed) + planted(seed)
