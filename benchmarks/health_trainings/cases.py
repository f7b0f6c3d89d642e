"""The trainings of the corpus: at least 120 healthy ones and 60 in which something was broken on purpose."""

from __future__ import annotations

from typing import Any

import torch
from record import Case, Planted

RHYTHMS: list[dict[str, Any]] = [
    {"rhythm": "step"},
    {"rhythm": "every", "every": 5},
    {"rhythm": "epoch", "evaluate": 1},
    {"rhythm": "evaluation", "evaluate": 25},
    {"rhythm": "minute", "step_s": 9.0},
]
STEP_S = (0.001, 0.004, 0.05, 0.3, 2.0, 30.0, 2400.0)
OPTIMIZERS = (
    "adam",
    "sgd",
    "momentum",
    "adamw",
    "rmsprop",
    "nesterov",
    "adagrad",
    "nadam",
    "radam",
    "adamax",
)
SCHEDULES = (
    "constant",
    "cosine",
    "linear",
    "step",
    "restarts",
    "warm-linear",
    "exponential",
    "one-cycle",
    "inverse-root",
    "unfreeze",
)
RATES = {"sgd": 50.0, "momentum": 10.0, "nesterov": 10.0, "adagrad": 5.0, "rmsprop": 0.5}
"""Times the learning rate of Adam."""
STYLES = ("stepscope", "lightning", "hf", "plain", "keras")

FAMILIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name: (task, options, what else differs), each recorded with many optimizers, schedules and rhythms
    "mlp": ("mlp", {}, {"lr": 2e-3}),
    "mlp-tanh": ("mlp", {"act": "tanh", "norm": False}, {"lr": 2e-3}),
    "mlp-deep": ("mlp", {"depth": 5, "norm": True, "smoothing": 0.1}, {"lr": 2e-3}),
    "mlp-noisy": ("mlp", {"noise": 0.3, "augment": 0.3, "width": 16}, {"lr": 2e-3, "batch": 32}),
    "mlp-batch2": ("mlp", {}, {"lr": 5e-4, "batch": 2, "steps": 800}),
    "cnn": ("cnn", {"images": True}, {"lr": 2e-3, "batch": 32}),
    "cnn-norm": ("cnn", {"images": True, "norm": True}, {"lr": 2e-3, "batch": 32}),
    "regress": ("regress", {"hidden": [32]}, {"lr": 2e-3, "batch": 32}),
    "regress-units": ("regress", {"unit": 77.0}, {"lr": 5e-3, "batch": 64, "optimizer": "adam"}),
    "logistic": ("regress", {"data": "cancer"}, {"lr": 5e-3, "batch": 32}),
    "transformer": ("language", {"depth": 1}, {"lr": 3e-3, "batch": 8, "steps": 400, "clip": 1.0}),
    "lstm": ("language", {"kind": "lstm"}, {"lr": 5e-3, "batch": 8, "steps": 400, "clip": 1.0}),
    "moe": ("language", {"kind": "moe"}, {"lr": 3e-3, "batch": 8, "steps": 400}),
    "vae": ("vae", {}, {"lr": 2e-3, "steps": 900}),
    "diffusion": ("diffusion", {}, {"lr": 2e-3, "steps": 900}),
    "simclr": ("ssl", {}, {"lr": 2e-3, "steps": 600}),
    "byol": ("ssl", {"kind": "byol"}, {"lr": 1e-3, "steps": 600}),
    "fewshot": ("fewshot", {}, {"lr": 1e-3, "steps": 800}),
    "finetune": ("finetune", {}, {"lr": 2e-4}),
    "finetune-frozen": ("finetune", {"frozen": True}, {"lr": 5e-4}),
}
PLAIN_ADAM = ("diffusion", "simclr", "byol", "fewshot", "transformer", "lstm", "moe", "vae", "regress-units")
"""Trained with optimizers of Adam's kind only, as everybody does."""


def healthy() -> list[Case]:
    """Five trainings of each family, each with another optimizer, schedule, rhythm, style and pace."""
    cases = []
    for number, (name, (task, options, more)) in enumerate(FAMILIES.items()):
        for turn in range(5):
            at = 5 * number + turn
            pick = number + 3 * turn
            rhythm = RHYTHMS[(number + turn) % 5]
            kind = OPTIMIZERS[pick % 10]
            if name in PLAIN_ADAM:
                kind = ("adam", "adamw", "nadam", "radam", "adamax")[turn]
            style = (
                STYLES[(number + 2 * turn) % 4]
                if rhythm["rhythm"] != "epoch"
                else STYLES[(turn + number) % 5]
            )
            schedule = SCHEDULES[(number + 7 * turn) % 10]
            pace = {"step_s": STEP_S[at % 7], "evaluate": 0 if task in ("vae", "diffusion") else 50}
            if rhythm["rhythm"] == "epoch":
                pace["step_s"] = (0.002, 0.2, 2.0, 60.0)[turn % 4]
            settings = {"optimizer": kind, "schedule": schedule, "style": style, **more, **pace, **rhythm}
            settings["lr"] = settings["lr"] * RATES.get(settings["optimizer"], 1.0)
            if settings["rhythm"] == "epoch":
                settings["steps"] = 900
            if task in ("vae", "diffusion"):
                settings["evaluate"] = 25 if settings["rhythm"] == "evaluation" else 0
            if style == "stepscope" and settings["rhythm"] == "step":
                settings["layers"] = 20
            cases.append(
                Case(
                    f"{name}-{kind}-{schedule}-{settings['rhythm']}",
                    task,
                    seed=at,
                    options=options,
                    busy=settings["step_s"] < 0.01,
                    bf16=at % 6 == 5,
                    accumulate=2 if at % 7 == 3 else 1,
                    **settings,
                )
            )
    return cases + others()


def others() -> list[Case]:
    """Kinds of training that know no ordinary loss, and single cases that rules have been wrong about."""
    cases = [
        Case(
            f"gan-{kind}-{turn}",
            "gan",
            steps=900,
            seed=turn,
            style=("bare", "plain", "stepscope")[turn % 3],
            options={"kind": kind, "names": names},
            step_s=(0.004, 0.2)[turn % 2],
            busy=turn % 2 == 0,
            rhythm=("step", "every")[turn % 2],
            every=3,
        )
        for turn, (kind, names) in enumerate(
            [
                ("gan", ("loss_D", "loss_G")),
                ("gan", ("d_loss", "g_loss")),
                ("wgan", ("critic_loss", "generator_loss")),
                ("gan", ("Loss/discriminator", "Loss/generator")),
                ("wgan", ("D/loss", "G/loss")),
            ]
        )
    ]
    cases += [
        Case(
            f"rl-{kind}-{turn}",
            "rl",
            lr=rate,
            steps=steps,
            seed=turn,
            style=style,
            options={"kind": kind},
            step_s=pace,
            rhythm=rhythm,
            every=4,
            batch=32,
        )
        for turn, (kind, rate, steps, style, pace, rhythm) in enumerate(
            [
                ("a2c", 3e-3, 600, "rl", 0.1, "step"),
                ("a2c", 1e-3, 900, "rl", 0.02, "every"),
                ("dqn", 1e-3, 1500, "rl", 0.01, "every"),
                ("dqn", 2e-3, 1000, "stepscope", 0.05, "step"),
                ("a2c", 5e-3, 500, "stepscope", 1.0, "step"),
            ]
        )
    ]
    add = cases.append
    for turn in range(3):
        add(
            Case(
                f"slow-start-parity-{turn}",
                "parity",
                lr=(2e-3, 1e-3, 3e-3)[turn],
                steps=(900, 1500, 900)[turn],
                batch=64,
                seed=turn,
                optimizer=("adam", "adam", "adamw")[turn],
                style=("stepscope", "plain", "hf")[turn],
                step_s=0.05,
            )
        )
    add(
        Case(
            "slow-start-sigmoid",
            "mlp",
            options={"act": "sigmoid", "depth": 3},
            lr=2e-3,
            steps=1000,
            layers=20,
            evaluate=100,
        )
    )
    add(
        Case(
            "easy-two-classes",
            "regress",
            options={"data": "cancer"},
            lr=5e-2,
            steps=400,
            evaluate=40,
            layers=20,
        )
    )
    add(Case("easy-ten-classes", "mlp", optimizer="adam", lr=1e-2, steps=600, evaluate=60, layers=20))
    add(Case("converged-long", "mlp", options={"images": True}, lr=1e-3, steps=3000, rhythm="every", every=3))
    for minutes, style in ((16, "keras"), (27, "keras"), (44, "lightning")):
        add(
            Case(
                f"epochs-of-{minutes}-minutes",
                "mlp",
                rhythm="epoch",
                evaluate=1,
                steps=1150,
                step_s=minutes * 60 / 23,
                style=style,
                lr=1e-3,
                schedule="cosine",
            )
        )
    add(
        Case(
            "epochs-of-300",
            "mlp",
            rhythm="epoch",
            evaluate=1,
            steps=6900,
            step_s=0.004,
            style="keras",
            lr=2e-4,
            options={"width": 24},
        )
    )
    add(
        Case(
            "epochs-plain-sgd",
            "cnn",
            options={"images": True},
            optimizer="momentum",
            lr=0.02,
            rhythm="epoch",
            evaluate=1,
            steps=1800,
            step_s=0.1,
            style="plain",
            schedule="step",
            batch=32,
        )
    )
    for turn, (rate, width) in enumerate(((0.05, 32), (0.1, 16), (0.05, 48), (0.02, 48))):
        add(
            Case(
                f"cnn-sgd-plateau-ends-{turn}",
                "cnn",
                options={"images": True},
                optimizer=("sgd", "momentum")[turn == 3],
                lr=rate,
                batch=width,
                steps=900,
                seed=turn,
                layers=0 if turn % 2 else 25,
                step_s=0.03,
            )
        )
    add(Case("warm-restarts", "mlp", lr=3e-3, schedule="restarts", steps=1200, evaluate=100))
    add(
        Case(
            "linear-to-zero",
            "language",
            options={"depth": 1},
            lr=3e-3,
            schedule="linear",
            steps=500,
            batch=8,
            clip=1.0,
            style="hf",
        )
    )
    add(
        Case(
            "noisy-validation",
            "mlp",
            options={"samples": 300, "noise": 0.1},
            lr=5e-4,
            steps=800,
            evaluate=20,
            batch=16,
        )
    )
    add(
        Case(
            "busy-machine-1ms",
            "regress",
            options={"hidden": [16]},
            lr=2e-3,
            steps=1500,
            step_s=0.001,
            busy=True,
            batch=32,
        )
    )
    add(Case("busy-machine-5ms", "mlp", lr=1e-3, steps=1500, step_s=0.005, busy=True, evaluate=300))
    add(Case("short-20-steps", "mlp", lr=2e-3, steps=20, layers=2))
    add(
        Case(
            "pauses-for-checkpoints",
            "mlp",
            lr=1e-3,
            steps=800,
            duration=lambda step: 45.0 if step % 100 == 99 else 0.4,
        )
    )
    add(
        Case(
            "interrupted-by-evaluations",
            "mlp",
            lr=1e-3,
            steps=900,
            evaluate=150,
            duration=lambda step: 400.0 if step % 150 == 149 else 1.0,
        )
    )
    return cases


# --- what is broken, and how ----------------------------------------------------------------------------


def scaled(steps: range, factor: float) -> Any:
    """Scale the inputs of some steps."""
    return lambda step, x: x * factor if step in steps else x


def at_step(step: int, change: Any) -> Any:
    """Do something to the loop at one step."""
    return lambda loop, now: change(loop) if now == step else None


def reverse(loop: Any, now: int, begin: int, rate: float | None = None) -> None:
    """Climb instead of descending, with a rate of its own."""
    for group in loop.optimizer.param_groups:
        group["maximize"] = now >= begin
    if rate is not None and now >= begin:
        loop.rate = rate


def kill_units(loop: Any) -> None:
    """Push every unit of the first layer below zero."""
    with torch.no_grad():
        loop.task.model[0].bias -= 20.0


def slower(rate: float, begin: int) -> Any:
    """Lower the learning rate for good."""

    def change(loop: Any, now: int) -> None:
        if now >= begin:
            loop.rate = rate

    return change


def spiked(step: int, value: float) -> Any:
    """Raise the learning rate for good."""
    return slower(value, step)


def poison(loop: Any) -> None:
    """Put a value that is not a number into a parameter."""
    with torch.no_grad():
        next(loop.task.model.parameters()).view(-1)[0] = float("nan")


def detach(loop: Any) -> None:
    """Freeze all but the last layer as an accident does: the optimizer has them, no gradient comes."""
    for each in list(loop.task.model.parameters())[:2]:
        each.register_hook(torch.zeros_like)


def falling_scale(loop: Any, step: int) -> dict[str, float]:
    """Halve the loss scale at every step, as where gradients overflow at each."""
    return {"gradients/loss_scale": 65536.0 * 0.5 ** max(0, min(step - 150, 40))}


def many_skipped(loop: Any, step: int) -> dict[str, float]:
    """Skip a third of the steps."""
    return {"gradients/loss_scale": 1024.0, "gradients/skipped_steps": float(step // 3)}


def leaking(loop: Any, step: int) -> dict[str, float]:
    """Keep 2 MiB of every step."""
    return {"system/process/memory_bytes": 5e8 + 2 * 2**20 * step} if step % 4 == 0 else {}


def machine(gpu: float, cpu: float, io_wait: float) -> Any:
    """Say what the machine did."""

    def numbers(loop: Any, step: int) -> dict[str, float]:
        if step % 5:
            return {}
        return {
            "system/gpu0/utilization_ratio": gpu,
            "system/host/cpu_ratio": cpu,
            "system/host/cpu_iowait_ratio": io_wait,
        }

    return numbers


def large_rows(step: int) -> Any:
    """Scale the rows of one step."""

    def change(loop: Any, now: int) -> None:
        if now in (step, step + 1):
            loop.task.x = loop.task.x * (100.0 if now == step else 0.01)

    return change


def labels(loop: Any, step: int) -> dict[str, float]:
    """Count the labels of a sampler that hardly ever draws one class."""
    return {f"labels/{name}": (40.0, 23.0, 1.0)[name] for name in range(3)}


def sharpen(factor: float, *, once: bool) -> Any:
    """Scale what queries and keys are made by, at a step or at each from then on."""

    def change(loop: Any) -> None:
        with torch.no_grad():
            for name, each in loop.task.model.named_parameters():
                if name.endswith("in_proj_weight"):
                    each[: 2 * len(each) // 3] *= factor

    return lambda loop, now: change(loop) if (now == 100 if once else 100 <= now < 130) else None


def sharpened_and_still(loop: Any, now: int) -> None:
    """Have attention collapse, and nothing learnt any more."""
    sharpen(100.0, once=True)(loop, now)
    slower(1e-12, 100)(loop, now)


def slow_layer(loop: Any) -> None:
    """Take most of one layer's gradient away."""
    list(loop.task.model.parameters())[4].register_hook(lambda gradient: 1e-4 * gradient)


ALSO = (
    "attention-logits",
    "attention-entropy",
    "nonfinite-gradient",
    "nonfinite-activation",
    "nonfinite-loss",
    "loss-spike",
    "exploding-gradient",
    "gradient-spike",
    "loss-not-decreasing",
    "rank-divergence",
    "overfitting",
    "dead-relu",
    "saturated-activation",
    "update-ratio",
    "plateau",
    "unchanged-tensor",
    "vanishing-gradient",
    "overtraining",
    "poor-initialization",
    "clipping",
    "learning-rate",
    "gpu-underused",
)
"""What else is true, or follows, where a training is broken."""


def planted() -> list[Case]:
    """Trainings that a rule has to find something about."""
    cases: list[Case] = []

    def add(name: str, task: str, rule: str, first: int, last: int, **more: Any) -> None:
        more.setdefault("seed", len(cases))
        cases.append(Case(f"planted-{rule}-{name}", task, planted=Planted(rule, first, last, ALSO), **more))

    add("nan-in-weight", "mlp", "nonfinite-loss", 120, 120, before=at_step(120, poison), steps=200)
    add(
        "nan-in-cnn",
        "cnn",
        "nonfinite-loss",
        80,
        80,
        before=at_step(80, poison),
        steps=200,
        options={"images": True},
        style="lightning",
    )
    add(
        "inf-batch",
        "regress",
        "nonfinite-loss",
        150,
        151,
        before=at_step(150, poison),
        steps=200,
        batch=32,
        style="hf",
    )
    add(
        "rate-far-too-large",
        "regress",
        "nonfinite-loss",
        0,
        199,
        optimizer="sgd",
        lr=50.0,
        steps=200,
        options={"hidden": [32]},
        batch=32,
    )
    add(
        "lstm",
        "language",
        "nonfinite-loss",
        60,
        60,
        before=at_step(60, poison),
        steps=120,
        options={"kind": "lstm"},
        batch=8,
        style="plain",
    )
    add(
        "transformer",
        "language",
        "nonfinite-loss",
        90,
        90,
        before=at_step(90, poison),
        steps=150,
        options={"depth": 1},
        batch=8,
    )
    add(
        "per-epoch",
        "mlp",
        "nonfinite-loss",
        5,
        6,
        before=at_step(120, poison),
        steps=230,
        rhythm="epoch",
        evaluate=1,
        style="keras",
    )
    add("mlp", "mlp", "nonfinite-gradient", 120, 120, before=at_step(120, poison), steps=200, layers=20)
    add("hf", "mlp", "nonfinite-gradient", 100, 100, before=at_step(100, poison), steps=200, style="hf")
    add("mlp", "mlp", "nonfinite-activation", 120, 140, before=at_step(120, poison), steps=200, layers=20)
    for turn, (style, factor) in enumerate(
        (("stepscope", -20.0), ("lightning", -30.0), ("hf", -15.0), ("plain", -25.0), ("bare", -20.0))
    ):
        begin = 220 + 20 * turn
        add(
            f"bad-batches-{style}",
            ("mlp", "cnn")[turn % 2],
            "loss-spike",
            begin,
            begin + 8,
            steps=360,
            style=style,
            options={"images": bool(turn % 2), "spoil": scaled(range(begin, begin + 5), factor)},
        )
    add("stays-up", "mlp", "loss-spike", 250, 264, steps=400, lr=1e-3, before=slower(1.0, 250))
    add(
        "transformer",
        "language",
        "loss-spike",
        300,
        312,
        steps=400,
        lr=3e-3,
        before=slower(0.5, 300),
        options={"depth": 1},
        batch=8,
    )
    for turn, style in enumerate(("stepscope", "lightning", "hf")):
        add(
            f"rate-of-nothing-{style}",
            ("mlp", "language", "cnn")[turn],
            "loss-not-decreasing",
            0,
            260,
            steps=400,
            lr=1e-9,
            style=style,
            options=({}, {"depth": 1}, {"images": True})[turn],
            batch=32,
            optimizer="sgd",
        )
    add("zero-gradient", "mlp", "loss-not-decreasing", 0, 260, steps=400, before=slower(0.0, 0), batch=16)
    add(
        "climbs-back",
        "mlp",
        "loss-not-decreasing",
        200,
        420,
        steps=500,
        optimizer="momentum",
        lr=0.05,
        before=lambda loop, now: reverse(loop, now, 200, 2e-3),
    )
    add(
        "random-labels",
        "mlp",
        "loss-not-decreasing",
        0,
        1999,
        steps=2000,
        lr=1e-2,
        optimizer="sgd",
        options={"shuffled": True},
        rhythm="every",
        every=2,
    )
    add("rate-too-large", "mlp", "loss-not-decreasing", 0, 600, steps=700, lr=3.0, optimizer="adam")
    add(
        "nothing-to-learn",
        "mlp",
        "plateau",
        1000,
        2600,
        steps=2600,
        lr=1e-2,
        options={"noise": 1.0, "width": 2, "spoil": lambda step, x: 0 * x},
    )
    add(
        "rate-falls-to-nothing",
        "mlp",
        "plateau",
        1000,
        2400,
        steps=2400,
        before=slower(1e-9, 400),
        lr=1e-3,
        style="plain",
    )
    for turn, (samples, every) in enumerate(((60, 20), (80, 25), (50, 15), (100, 30))):
        add(
            f"few-samples-{samples}",
            ("mlp", "cnn")[turn == 3],
            "overfitting",
            60,
            1000,
            steps=1000,
            evaluate=every,
            batch=50,
            lr=5e-3,
            options={"samples": samples, "noise": 0.25, "images": turn == 3},
            style=("stepscope", "plain", "hf", "lightning")[turn],
        )
    add(
        "per-epoch",
        "mlp",
        "overfitting",
        4,
        80,
        steps=240,
        rhythm="epoch",
        evaluate=1,
        batch=30,
        lr=8e-3,
        style="keras",
        options={"samples": 90, "noise": 0.25},
    )
    add(
        "rate-falls-to-nothing",
        "mlp",
        "overtraining",
        400,
        1200,
        steps=1200,
        evaluate=20,
        before=slower(1e-9, 300),
    )
    add(
        "cnn",
        "cnn",
        "overtraining",
        400,
        1200,
        steps=1200,
        evaluate=20,
        before=slower(1e-9, 240),
        options={"images": True},
        style="hf",
    )
    for turn, (style, task) in enumerate(
        (("stepscope", "mlp"), ("hf", "cnn"), ("lightning", "mlp"), ("stepscope", "regress"))
    ):
        begin = 200 + 30 * turn
        add(
            f"one-batch-{style}-{task}",
            task,
            "gradient-spike",
            begin,
            begin,
            steps=400,
            style=style,
            lr=1e-3,
            before=large_rows(begin) if task == "regress" else None,
            options={"images": task == "cnn", "spoil": scaled(range(begin, begin + 1), 100.0)},
        )
    add(
        "sigmoid-nine",
        "mlp",
        "vanishing-gradient",
        90,
        260,
        steps=300,
        optimizer="sgd",
        lr=0.01,
        layers=10,
        options={"act": "sigmoid", "depth": 9},
    )
    add(
        "sigmoid-twelve",
        "mlp",
        "vanishing-gradient",
        90,
        260,
        steps=300,
        optimizer="momentum",
        lr=0.01,
        layers=10,
        options={"act": "sigmoid", "depth": 12},
    )
    add(
        "ascent",
        "mlp",
        "exploding-gradient",
        100,
        399,
        steps=400,
        optimizer="sgd",
        lr=0.05,
        before=lambda loop, now: reverse(loop, now, 100),
        options={"depth": 3},
    )
    add(
        "unstable-line",
        "regress",
        "exploding-gradient",
        19,
        399,
        steps=400,
        optimizer="sgd",
        lr=0.33,
        batch=300,
    )
    add(
        "unstable-hf",
        "regress",
        "exploding-gradient",
        19,
        399,
        steps=400,
        optimizer="sgd",
        lr=0.34,
        batch=300,
        style="hf",
    )
    add(
        "tiny",
        "mlp",
        "update-ratio",
        190,
        400,
        steps=500,
        optimizer="adam",
        lr=1e-9,
        layers=10,
        before=at_step(0, lambda loop: loop.task.model.double()),
        options={"spoil": lambda step, x: x.double()},
    )
    add(
        "huge",
        "mlp",
        "update-ratio",
        190,
        400,
        steps=500,
        optimizer="decaying",
        lr=0.3,
        layers=10,
        options={"act": "tanh"},
    )
    add(
        "small-weights",
        "mlp",
        "poor-initialization",
        0,
        25,
        steps=100,
        layers=10,
        lr=1e-3,
        options={"act": "tanh", "depth": 5, "scale": 0.15},
    )
    add(
        "smaller-weights",
        "mlp",
        "poor-initialization",
        0,
        25,
        steps=100,
        layers=10,
        lr=1e-3,
        options={"act": "relu", "depth": 7, "scale": 0.5},
    )
    add(
        "large-weights",
        "mlp",
        "poor-initialization",
        0,
        60,
        steps=100,
        lr=1e-2,
        options={"depth": 3, "scale": 12.0},
    )
    add("one-large-step", "mlp", "dead-relu", 50, 320, steps=400, layers=10, before=at_step(50, kill_units))
    add(
        "cnn-first",
        "cnn",
        "dead-relu",
        80,
        340,
        steps=400,
        layers=10,
        options={"images": True},
        before=at_step(80, lambda loop: loop.task.model[1].bias.data.sub_(20)),
    )
    add(
        "large-weights",
        "mlp",
        "saturated-activation",
        30,
        80,
        steps=200,
        layers=10,
        options={"act": "tanh", "scale": 30.0},
        lr=1e-4,
    )
    add(
        "sigmoid",
        "mlp",
        "saturated-activation",
        30,
        80,
        steps=200,
        layers=10,
        options={"act": "sigmoid", "scale": 60.0},
        lr=1e-4,
    )
    add(
        "no-gradient",
        "mlp",
        "unchanged-tensor",
        80,
        200,
        steps=300,
        layers=10,
        before=at_step(0, detach),
        optimizer="sgd",
        lr=0.05,
    )
    add(
        "no-gradient-adam",
        "mlp",
        "unchanged-tensor",
        80,
        200,
        steps=300,
        layers=10,
        before=at_step(0, detach),
    )
    add("far-below", "mlp", "clipping", 190, 260, steps=400, clip=0.01, optimizer="sgd", lr=0.05)
    add(
        "language",
        "language",
        "clipping",
        190,
        260,
        steps=400,
        clip=0.02,
        optimizer="sgd",
        lr=0.05,
        options={"depth": 1},
        batch=8,
    )
    add("collapse", "mlp", "loss-scale", 150, 175, steps=250, record=falling_scale)
    add("skips", "mlp", "loss-scale", 100, 220, steps=300, record=many_skipped)
    add("jumps", "mlp", "learning-rate", 150, 150, steps=300, before=spiked(150, 0.1), lr=1e-3)
    add(
        "negative",
        "cnn",
        "learning-rate",
        100,
        100,
        steps=200,
        before=slower(-1e-4, 100),
        lr=1e-3,
        options={"images": True},
        style="hf",
    )
    add("zero", "mlp", "learning-rate", 200, 320, steps=400, before=slower(0.0, 120), lr=1e-3, style="plain")
    add("sampler", "mlp", "class-imbalance", 5, 20, steps=60, record=labels)
    add("half", "mlp", "data-wait", 90, 160, steps=300, step_s=0.02, wait=lambda step: 0.01)
    add(
        "later",
        "mlp",
        "data-wait",
        300,
        460,
        steps=500,
        step_s=0.1,
        wait=lambda step: 0.06 if step >= 300 else 0.001,
    )
    add("forty-percent", "mlp", "gpu-underused", 290, 420, steps=500, record=machine(0.4, 0.3, 0.0))
    add("cpu", "mlp", "cpu-bottleneck", 290, 360, steps=500, record=machine(0.05, 0.97, 0.0))
    add("disks", "mlp", "io-bottleneck", 290, 360, steps=500, record=machine(0.05, 0.3, 0.8))
    add("two-mib-a-step", "mlp", "memory-creep", 236, 400, steps=400, record=leaking)
    add(
        "ten-minutes",
        "mlp",
        "stalled-training",
        199,
        201,
        steps=300,
        duration=lambda step: 600.0 if step == 200 else 0.01,
    )
    add(
        "an-hour",
        "mlp",
        "stalled-training",
        149,
        151,
        steps=300,
        duration=lambda step: 3600.0 if step == 150 else 2.0,
        style="hf",
    )
    add(
        "epochs",
        "mlp",
        "stalled-training",
        18,
        22,
        steps=690,
        rhythm="epoch",
        evaluate=1,
        style="keras",
        duration=lambda step: 20_000.0 if step == 460 else 20.0,
    )
    add(
        "every-tenth",
        "mlp",
        "step-outliers",
        200,
        330,
        steps=600,
        duration=lambda step: 0.3 if step % 15 == 0 else 0.02,
    )
    add(
        "checkpoints",
        "mlp",
        "step-outliers",
        200,
        330,
        steps=600,
        duration=lambda step: 2.0 if step % 12 == 0 else 0.25,
    )
    small: dict[str, Any] = {"options": {"depth": 2}, "layers": 10, "batch": 8, "steps": 300}
    grown = sharpen(1.2, once=False)
    add("queries-and-keys", "language", "attention-logits", 110, 200, before=grown, lr=1e-4, **small)
    still = sharpened_and_still
    add("all-heads", "language", "attention-entropy", 130, 170, before=still, lr=1e-6, **small)
    deep: dict[str, Any] = {"options": {"depth": 5}, "layers": 10, "steps": 200, "optimizer": "sgd"}
    add("one-layer", "mlp", "update-scale", 80, 120, before=at_step(0, slow_layer), lr=0.05, **deep)
    cases.append(Case("transformer-with-attention", "language", optimizer="adamw", lr=3e-3, **small))
    return cases


CASES = healthy() + planted()
