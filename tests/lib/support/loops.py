"""Small trainings in every kind of loop, with their gradients by hand, and the check of a recording.

Each program notes its gradients itself where its optimizer uses them (``Truth``), without Stepscope.
``check`` compares the recording with that: a value that differs, or is at another step, is wrong; what is
missing is declared if the run states that it is not measured, and wrong if not.

Usage: python loops.py OUT NAME…, with RANK, WORLD_SIZE and MASTER_PORT for those of two ranks.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stepscope as ss

STEPS = 4
STATISTICS = ("norm", "per layer", "update", "histogram")
PRECISION = 1e-6


class Loop(NamedTuple):
    """One way to train.

    Attributes:
        title: For the table.
        where: Which process it runs in: ``alone ranks trainers keras-torch keras-jax keras-tensorflow jax``.
        train: Trains so, into a directory.
    """

    title: str
    where: str
    train: Callable[[Path], None]


def names_of(where: str) -> list[str]:
    """Return the loops that run in one process, or in one job of two."""
    return [name for name, loop in LOOPS.items() if loop.where == where]


# --- by hand ------------------------------------------------------------------------------------------


class Truth:
    """What a training's gradients and updates are, by step, as whole arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def norm(self, step: int, gradients: Iterable[np.ndarray], name: str = "") -> None:
        """Note the gradients whose norm is that of a step, before any clipping."""
        squares = sum(float((np.asarray(each, "f8") ** 2).sum()) for each in gradients)
        self.arrays[f"norm|{name}|{step}"] = np.sqrt(squares)

    def gradients(self, step: int, named: Mapping[str, np.ndarray]) -> None:
        """Note the gradients that the optimizer uses."""
        for name, each in named.items():
            self.arrays[f"gradients|{name}|{step}"] = np.array(each)

    def updates(self, step: int, named: Mapping[str, np.ndarray]) -> None:
        """Note what the optimizer's step added to the weights."""
        for name, each in named.items():
            self.arrays[f"updates|{name}|{step}"] = np.array(each)

    def save(self, directory: Path) -> None:
        np.savez(directory / "truth.npz", **self.arrays)


def hook() -> ss.GradientHook:
    return ss.GradientHook(1, histograms_every=1, max_overhead=None)


# --- the check ----------------------------------------------------------------------------------------


def recorded(directory: Path) -> tuple[dict[str, dict[int, float]], dict[str, dict[int, np.ndarray]]]:
    """Return the numbers and histograms of a run by tag and step."""
    from stepscope.events import EventFile
    from stepscope.events.kinds import histogram
    from support.records import decoded

    numbers: dict[str, dict[int, float]] = {}
    histograms: dict[str, dict[int, np.ndarray]] = {}
    for path in directory.glob("*tfevents*"):
        for column in EventFile(path).read().scalars:
            points = zip(column.step.tolist(), column.value.tolist(), strict=True)
            numbers.setdefault(column.tag, {}).update(points)
        for event in decoded(path.read_bytes()):
            for value in event.values:
                if value.tag.endswith("/histogram"):
                    histograms.setdefault(value.tag, {})[event.step] = histogram.read(value)
    return numbers, histograms


def check(directory: Path) -> dict[str, str]:
    """Return for each statistic "exact", "declared: …" or "wrong: …"."""
    from stepscope.record.edges import counts, rows

    truth: dict[str, dict[str, dict[int, np.ndarray]]] = {}
    with np.load(directory / "truth.npz") as found:
        for key in found:
            kind, name, step = key.split("|")
            truth.setdefault(kind, {}).setdefault(name, {})[int(step)] = found[key]
    numbers, histograms = recorded(directory)
    stated = ss.open(directory, cache=False).run(".").info.unmeasured
    declared: dict[str, str] = {}

    def is_declared(statistic: str, step: int) -> bool:
        for each in stated:
            of_layers = "layers" in each.what
            covers = each.since <= step and (each.until is None or step < each.until)
            if covers and not (of_layers and statistic == "norm"):
                declared[statistic] = f"{each.what} since step {each.since}: {each.why}"
                return True
        return False

    def compare(statistic: str, want: dict[int, float], tag: str) -> list[str]:
        have = numbers.get(tag, {})
        far = [f"{tag} has a point at {step}" for step in have if step not in want]
        for step, value in want.items():
            if step not in have:
                if not is_declared(statistic, step):
                    far.append(f"{tag} has no point at {step}")
            elif not abs(have[step] - value) <= PRECISION * abs(value):
                far.append(f"{tag} at {step}: {have[step]:.9g}, by hand {value:.9g}")
        return far

    def size(array: np.ndarray) -> float:
        return float(np.sqrt((array.astype("f8") ** 2).sum()))

    wrong: dict[str, list[str]] = {each: [] for each in STATISTICS}
    for name, steps in truth["norm"].items():
        tag = f"gradients/{name}/norm" if name else "gradients/norm"
        wrong["norm"] += compare("norm", {step: float(each) for step, each in steps.items()}, tag)
    for kind, statistic in (("gradients", "per layer"), ("updates", "update")):
        for name, steps in truth[kind].items():
            want = {step: size(each) for step, each in steps.items()}
            wrong[statistic] += compare(statistic, want, f"{kind}/{name}/norm")
    for name, steps in truth["gradients"].items():
        have = histograms.get(f"gradients/{name}/histogram", {})
        for step, array in steps.items():
            if step not in have:
                if not is_declared("histogram", step):
                    wrong["histogram"].append(f"no histogram of {name} at {step}")
            elif not np.array_equal(have[step], rows(counts(array))):
                wrong["histogram"].append(f"histogram of {name} at {step} differs")
    return {
        each: f"wrong: {wrong[each][0]}"
        if wrong[each]
        else f"declared: {declared[each]}"
        if each in declared
        else "exact"
        for each in STATISTICS
    }


def verdicts_of(directory: Path) -> dict[str, str]:
    """Return the verdicts of a program; all are "wrong" if it failed."""
    if (directory / "truth.npz").exists():
        return check(directory)
    failed = directory / "failed.json"
    why = json.loads(failed.read_text()) if failed.exists() else "it did not end"
    return dict.fromkeys(STATISTICS, f"wrong: {why}")


# --- PyTorch ------------------------------------------------------------------------------------------


def net() -> Any:
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(6, 10), nn.Linear(10, 4)

        def forward(self, x: Any) -> Any:
            return self.second(torch.tanh(self.first(x)))

    torch.manual_seed(0)
    return Net()


def batch(step: int, part: int = 0) -> Any:
    import torch

    return torch.randn(8, 6, generator=torch.Generator().manual_seed(10 * step + part))


def loss_of(model: Any, step: int, part: int = 0) -> Any:
    return model(batch(step, part)).square().mean()


def whole(tensor: Any) -> np.ndarray:
    """Return all of a tensor; every rank calls this for a sharded one."""
    tensor = tensor.detach()
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).cpu().clone().numpy()


class ByHand(Truth):
    """The same, of the parameters of a model of PyTorch."""

    def __init__(self, model: Any, clean: Callable[[str], str] = lambda name: name) -> None:
        super().__init__()
        self.model, self._clean = model, clean
        self._before: dict[str, np.ndarray] = {}

    def named(self, only: Any = None) -> dict[str, Any]:
        wanted = (
            None if only is None else {id(each) for group in only.param_groups for each in group["params"]}
        )
        return {
            self._clean(name): each
            for name, each in self.model.named_parameters()
            if wanted is None or id(each) in wanted
        }

    def grads(self, only: Any = None) -> dict[str, np.ndarray]:
        named = self.named(only).items()
        return {name: whole(each.grad) for name, each in named if each.grad is not None}

    def weights(self, only: Any = None) -> None:
        """Remember the weights before an optimizer's step."""
        self._before.update({name: whole(each) for name, each in self.named(only).items()})

    def use(self, step: int, only: Any = None, name: str = "", *, norm: bool = True) -> None:
        """Note the gradients that an optimizer is about to use."""
        found = self.grads(only)
        if norm:
            self.norm(step, found.values(), name)
        self.gradients(step, found)

    def done(self, step: int, only: Any = None) -> None:
        """Note what its step did."""
        now = {name: whole(each) for name, each in self.named(only).items()}
        there = [name for name in now if f"gradients|{name}|{step}" in self.arrays]
        self.updates(step, {name: now[name] - self._before[name] for name in there})


def training(
    out: Path, model: Any, optimizer: Any, *, used: Any = None, steps: int = STEPS, **options: Any
) -> Iterator[tuple[int, ByHand]]:
    """Yield the steps of a loop that is recorded, and what is to be noted of them; the chief saves that.

    Args:
        out: The run's directory.
        model: Has the parameters.
        optimizer: As for ``watch``.
        used: The model that is called, if it is another.
        steps: How many.
        options: For the run.
    """
    from stepscope.integrations.torch import watch

    truth = ByHand(model)
    with ss.Run(out, hooks=[hook()], **options) as run:
        watch(used or model, optimizer, run)
        for step in run.steps(range(steps)):
            yield step, truth
    if not options.get("rank"):
        truth.save(out)


def simple(
    out: Path,
    *,
    make: Callable[[Any], Any] | None = None,
    micros: int = 1,
    clip: Callable[[Any], Any] | None = None,
    compiled: str = "",
    change: Callable[[int, Any, Any], Any] | None = None,
) -> None:
    """Train in a plain loop."""
    import torch

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if make is None else make(model)
    called = torch.compile(model, backend="eager") if compiled == "model" else model
    for step, truth in training(out, model, optimizer):
        if change is not None:
            optimizer = change(step, model, optimizer)
        model.zero_grad()
        for part in range(micros):
            loss_of(called, step, part).backward()
        truth.weights(optimizer)
        truth.norm(step, truth.grads(optimizer).values())
        if clip is not None:
            clip(model.parameters())
        truth.use(step, optimizer, norm=False)
        if compiled == "step":
            torch.compile(lambda optimizer=optimizer: optimizer.step(), backend="eager")()
        else:
            optimizer.step()
        truth.done(step, optimizer)


def closure(out: Path, *, evaluations: int = 1) -> None:
    import torch

    model = net()
    optimizer: Any = (
        torch.optim.Adam(model.parameters(), lr=0.01)
        if evaluations == 1
        else torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=evaluations)
    )
    for step, truth in training(out, model, optimizer):

        def compute(step: int = step, truth: ByHand = truth) -> Any:
            optimizer.zero_grad()
            loss = loss_of(model, step)
            loss.backward()
            truth.use(step)  # of several evaluations the last one stays, after which LBFGS writes
            return loss

        truth.weights()
        optimizer.step(compute)
        truth.done(step)


def sam(out: Path) -> None:
    import torch

    class Sam(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1})
            self.base_optimizer = torch.optim.SGD(self.param_groups, lr=0.1)

        @torch.no_grad()
        def step(self, closure: Any) -> None:  # type: ignore[override]
            parameters = [each for group in self.param_groups for each in group["params"]]
            old = [each.clone() for each in parameters]
            for each in parameters:
                each.add_(0.05 * each.grad)
            with torch.enable_grad():
                closure()
            for each, before in zip(parameters, old, strict=True):
                each.data = before
            self.base_optimizer.step()

    model = net()
    optimizer = Sam(model.parameters())
    for step, truth in training(out, model, optimizer):

        def compute(step: int = step, truth: ByHand = truth) -> None:
            optimizer.zero_grad()
            loss_of(model, step).backward()
            truth.use(step)

        compute()
        truth.weights()
        optimizer.step(compute)
        truth.done(step)


def amp(out: Path) -> None:
    import torch

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step, truth in training(out, model, optimizer):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, step)
        scaler.scale(loss).backward()
        truth.weights()
        scaler.unscale_(optimizer)
        truth.use(step)
        scaler.step(optimizer)
        scaler.update()
        truth.done(step)


def several(out: Path) -> None:
    import torch

    model = net()
    optimizers = {
        "first": torch.optim.SGD(model.first.parameters(), lr=0.1),
        "second": torch.optim.Adam(model.second.parameters(), lr=0.01),
    }
    for step, truth in training(out, model, optimizers):
        for name, optimizer in optimizers.items():
            model.zero_grad()
            loss_of(model, step).backward()
            truth.weights(optimizer)
            truth.use(step, optimizer, name)
            optimizer.step()
            truth.done(step, optimizer)


def in_backward(out: Path) -> None:
    import torch

    model = net()
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}
    seen = []

    def step_now(parameter: Any) -> None:
        optimizer = optimizers[parameter]
        truth.weights(optimizer)
        truth.use(step, optimizer, norm=False)
        seen.append(whole(parameter.grad))
        optimizer.step()
        truth.done(step, optimizer)
        optimizer.zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_now)
    for step, truth in training(out, model, optimizers):
        seen.clear()
        loss_of(model, step).backward()
        truth.norm(step, seen)


def groups(step: int, model: Any, optimizer: Any) -> Any:
    if step == 2:
        optimizer.add_param_group({"params": list(model.first.parameters()), "lr": 0.05})
    return optimizer


def replaced(step: int, model: Any, optimizer: Any) -> Any:
    import torch

    return torch.optim.Adam(model.parameters(), lr=0.01) if step == 2 else optimizer


# --- two ranks ----------------------------------------------------------------------------------------


def ranks(out: Path, kind: str) -> None:
    """Train a model over two ranks; what is right is made of all of them."""
    import torch
    import torch.distributed as dist
    from torch import nn

    rank = dist.get_rank()
    model = net()
    used: Any = model
    if kind.startswith("ddp"):
        used = nn.parallel.DistributedDataParallel(model, find_unused_parameters=kind == "ddp_groups")
    elif kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model)
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
        parallelize_module(model, init_device_mesh("cpu", (2,)), plan)
    trained = model.second if kind == "ddp_groups" else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    steps = 60 if kind == "ddp_groups" else STEPS
    for step, truth in training(out, model, optimizer, used=used, steps=steps, rank=rank, world_size=2):
        if kind == "ddp_groups" and step == 2:
            optimizer.add_param_group({"params": list(model.first.parameters())})
        used.zero_grad()
        loss_of(used, step, 0 if kind == "tp" else rank).backward()
        truth.weights(optimizer)
        truth.use(step, optimizer)
        optimizer.step()
        truth.done(step, optimizer)


def pipeline(out: Path) -> None:
    """Train a model of two stages, one on each rank, over two micro-batches."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank = dist.get_rank()
    model = net()
    stage_of = model.first if rank == 0 else model.second

    class Part(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            setattr(self, "first" if rank == 0 else "second", stage_of)

        def forward(self, x: Any) -> Any:
            return torch.tanh(self.first(x)) if rank == 0 else self.second(x)

    part = Part()
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(
        stage, n_microbatches=2, loss_fn=lambda out, target: (out - target).square().mean()
    )
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    for step, truth in training(out, part, optimizer, rank=rank, world_size=2):
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(batch(step))
        else:
            schedule.step(target=torch.zeros(8, 4))
        truth.weights()
        truth.use(step, norm=False)
        optimizer.step()
        truth.done(step)
        everyone: list[Any] = [None, None]
        dist.all_gather_object(everyone, truth.arrays)
        for arrays in everyone:
            truth.arrays.update(arrays)
        kind, at = "gradients|", f"|{step}"
        of_step = [array for key, array in truth.arrays.items() if key.startswith(kind) and key.endswith(at)]
        truth.norm(step, of_step)


# --- trainers -----------------------------------------------------------------------------------------


def lightning(out: Path, *, manual: bool = False, micros: int = 1, clip: float | None = None) -> None:
    import lightning.pytorch as pl
    import torch

    from stepscope.integrations.lightning import StepscopeCallback, StepscopeLogger

    truth: ByHand

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.automatic_optimization = net(), not manual

        def forward(self, x: Any) -> Any:
            return self.net(x)

        def training_step(self, x: Any, index: int) -> Any:
            loss = self(x).square().mean()
            if manual:
                optimizer: Any = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                truth.weights()
                truth.use(index)
                optimizer.step()
            return loss

        def configure_gradient_clipping(self, optimizer: Any, *limits: Any, **more: Any) -> None:
            step = self.trainer.global_step
            truth.norm(step, truth.grads().values())
            super().configure_gradient_clipping(optimizer, *limits, **more)
            truth.weights()
            truth.use(step, norm=False)

        def on_train_batch_end(self, outputs: Any, batch: Any, index: int) -> None:
            step = self.trainer.global_step - 1
            if (index + 1) % micros == 0:
                truth.done(step)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Module()
    truth = ByHand(module)
    trainer = pl.Trainer(
        logger=StepscopeLogger(out, hooks=[hook()]), callbacks=[StepscopeCallback()], accelerator="cpu",
        max_epochs=1, accumulate_grad_batches=micros, gradient_clip_val=clip, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    data = torch.cat([batch(step) for step in range(STEPS * micros)])
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
    truth.save(out)


def fabric(out: Path, *, by_closure: bool = False) -> None:
    import torch
    from lightning.fabric import Fabric

    engine = Fabric(accelerator="cpu", devices=1)
    inner = net()
    model, optimizer = engine.setup(inner, torch.optim.SGD(inner.parameters(), lr=0.1))
    for step, truth in training(out, inner, optimizer):

        def compute(step: int = step, truth: ByHand = truth) -> Any:
            optimizer.zero_grad()
            loss = model(batch(step)).square().mean()
            engine.backward(loss)
            truth.use(step)
            return loss

        truth.weights()
        if by_closure:
            optimizer.step(compute)
        else:
            compute()
            optimizer.step()
        truth.done(step)


def accelerate(out: Path) -> None:
    import torch
    from accelerate import Accelerator

    from stepscope.integrations.accelerate import StepscopeTracker
    from stepscope.integrations.torch import watch

    tracker = StepscopeTracker(out, hooks=[hook()])
    engine = Accelerator(cpu=True, gradient_accumulation_steps=2, log_with=tracker)
    engine.init_trackers("loops")
    inner = net()
    model, optimizer = engine.prepare(inner, torch.optim.SGD(inner.parameters(), lr=0.1))
    truth = ByHand(inner)
    watch(model, optimizer, tracker.run)
    for step in tracker.run.steps(range(2 * STEPS)):
        with engine.accumulate(model):
            engine.backward(model(batch(step)).square().mean())
            if engine.sync_gradients:
                truth.weights()
                truth.use(step)
            optimizer.step()
            if engine.sync_gradients:
                truth.done(step)
            optimizer.zero_grad()
    engine.end_training()
    truth.save(out)


def transformers(out: Path, *, subclass: bool = False) -> None:
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from transformers.models.gpt2 import GPT2Config, GPT2LMHeadModel

    from stepscope.integrations.transformers import StepscopeCallback

    class Data(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 4 * STEPS

        def __getitem__(self, index: int) -> Any:
            ids = torch.randint(0, 32, (6,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": ids, "labels": ids}

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    model = GPT2LMHeadModel(config)
    truth = ByHand(model)

    class Note(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            truth.weights()
            truth.use(state.global_step + 1)

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            truth.done(state.global_step + 1)

    class Fine(Trainer):  # type: ignore[misc]
        """As TRL's trainers: a loss and a step of its own, and more metrics in the log."""

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            labels = inputs.pop("labels")
            outputs = model(**inputs)
            logits = outputs.logits[:, :-1].reshape(-1, 32)
            loss = torch.nn.functional.cross_entropy(logits, labels[:, 1:].reshape(-1))
            return (loss, outputs) if return_outputs else loss

        def training_step(self, *arguments: Any, **named: Any) -> Any:
            return super().training_step(*arguments, **named)

        def log(self, logs: dict[str, float], *more: Any) -> None:
            super().log({**logs, "entropy": 1.0}, *more)

    settings = TrainingArguments(
        output_dir=str(out / "output"), per_device_train_batch_size=2, gradient_accumulation_steps=2,
        num_train_epochs=1, max_grad_norm=0, report_to=[], use_cpu=True, save_strategy="no",
        disable_tqdm=True, logging_steps=1, learning_rate=1e-2,
    )  # fmt: skip
    kind = Fine if subclass else Trainer
    callback = StepscopeCallback(out, hooks=[hook()])
    kind(model=model, args=settings, train_dataset=Data(), callbacks=[callback, Note()]).train()
    truth.save(out)


# --- Keras and JAX: gradients that are short binary fractions, exact however they are computed ---------


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype("f4") / 2


class Linear:
    """Two linear layers without biases, by hand: the loss is the sum of outputs times targets."""

    def __init__(self) -> None:
        self.first, self.second = numbers((6, 5), 1), numbers((5, 4), 2)
        self.rate = 0.5

    def gradients(self, x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        error = target / np.float32(len(x))
        return x.T @ (error @ self.second.T), (x @ self.first).T @ error

    def step(self, x: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the gradients, and make a step of descent."""
        found = self.gradients(x, target)
        self.first, self.second = self.first - self.rate * found[0], self.second - self.rate * found[1]
        return found


EXACT_STEPS = 3
"""Steps in which the numbers are exact in float32."""


def linear_truth(names: tuple[str, str], first_step: int = 0) -> Truth:
    truth, by_hand = Truth(), Linear()
    for step in range(EXACT_STEPS):
        found = by_hand.step(numbers((8, 6), 10 + step), numbers((8, 4), 20 + step))
        truth.norm(step + first_step, found)
        named = dict(zip(names, found, strict=True))
        truth.gradients(step + first_step, named)
        truth.updates(step + first_step, {name: -by_hand.rate * each for name, each in named.items()})
    return truth


def keras(out: Path) -> None:
    import keras as library

    from stepscope.integrations.keras import StepscopeCallback, measured

    layers = library.layers
    model = library.Sequential(
        [
            library.Input((6,)),
            layers.Dense(5, use_bias=False, name="first"),
            layers.Dense(4, use_bias=False, name="second"),
        ],
        name="net",
    )
    by_hand = Linear()
    model.set_weights([by_hand.first, by_hand.second])
    optimizer = measured(library.optimizers.SGD(by_hand.rate), hook())
    model.compile(optimizer, loss=lambda target, out: library.ops.sum(target * out, axis=-1))
    x = np.concatenate([numbers((8, 6), 10 + step) for step in range(EXACT_STEPS)])
    y = np.concatenate([numbers((8, 4), 20 + step) for step in range(EXACT_STEPS)])
    model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0, callbacks=[StepscopeCallback(out)])
    linear_truth(("net/first/kernel", "net/second/kernel")).save(out)


def jax(out: Path) -> None:
    import jax as library
    import jax.numpy as jnp
    import optax

    from stepscope.integrations.jax import measure, watch

    by_hand = Linear()
    parameters = {"first": jnp.asarray(by_hand.first), "second": jnp.asarray(by_hand.second)}
    optimizer = optax.sgd(by_hand.rate)
    state = optimizer.init(parameters)
    ours = hook()

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        return (x @ parameters["first"] @ parameters["second"] * target).sum() / len(x)

    def update(level: str, parameters: Any, state: Any, x: Any, target: Any) -> Any:
        gradients = library.grad(loss)(parameters, x, target)
        changes, state = optimizer.update(gradients, state, parameters)
        found = measure(level, gradients=gradients, weights=parameters, updates=changes)
        return optax.apply_updates(parameters, changes), state, found

    update = library.jit(update, static_argnums=0)
    with ss.Run(out, hooks=[ours]) as run:
        levels = watch(run, ours)
        for step in run.steps(range(EXACT_STEPS)):
            x, target = numbers((8, 6), 10 + step), numbers((8, 4), 20 + step)
            parameters, state, found = update(levels.level(step), parameters, state, x, target)
            levels.record(found, step)
    linear_truth(("first", "second")).save(out)


# --- to run them --------------------------------------------------------------------------------------


def sgd(**options: Any) -> Callable[[Any], Any]:
    def make(model: Any) -> Any:
        import torch

        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, **options)

    return make


def head(model: Any) -> Any:
    import torch

    return torch.optim.SGD(model.second.parameters(), lr=0.1)


def clip_norm(parameters: Any) -> None:
    import torch

    torch.nn.utils.clip_grad_norm_(parameters, 0.05)


def clip_value(parameters: Any) -> None:
    import torch

    torch.nn.utils.clip_grad_value_(parameters, 0.01)


LOOPS = {
    "plain": Loop("plain loop", "alone", simple),
    "closure": Loop("closure", "alone", closure),
    "lbfgs": Loop(
        "closure evaluated several times (LBFGS)", "alone", lambda out: closure(out, evaluations=4)
    ),
    "sam": Loop("closure between two writes (SAM)", "alone", sam),
    "accumulation": Loop("accumulation", "alone", lambda out: simple(out, micros=3)),
    "amp": Loop("AMP, GradScaler", "alone", amp),
    "clip_norm": Loop("clipping by norm", "alone", lambda out: simple(out, clip=clip_norm)),
    "clip_value": Loop("clipping by value", "alone", lambda out: simple(out, clip=clip_value)),
    "several": Loop("several optimizers", "alone", several),
    "groups": Loop("a group that is added", "alone", lambda out: simple(out, make=head, change=groups)),
    "replaced": Loop("an optimizer that is replaced", "alone", lambda out: simple(out, change=replaced)),
    "backward": Loop("optimizer in backward", "alone", in_backward),
    "fused": Loop("fused", "alone", lambda out: simple(out, make=sgd(fused=True))),
    "foreach": Loop("foreach", "alone", lambda out: simple(out, make=sgd(foreach=True))),
    "compiled": Loop("compiled model", "alone", lambda out: simple(out, compiled="model")),
    "compiled_step": Loop("compiled optimizer", "alone", lambda out: simple(out, compiled="step")),
    "ddp": Loop("DDP", "ranks", lambda out: ranks(out, "ddp")),
    "ddp_groups": Loop("DDP, a group that is added", "ranks", lambda out: ranks(out, "ddp_groups")),
    "fsdp2": Loop("FSDP2", "ranks", lambda out: ranks(out, "fsdp2")),
    "tp": Loop("tensor parallel", "ranks", lambda out: ranks(out, "tp")),
    "pipeline": Loop("pipeline", "ranks", pipeline),
    "lightning": Loop("Lightning, automatic", "trainers", lightning),
    "lightning_accumulation": Loop(
        "Lightning, automatic, accumulation", "trainers", lambda out: lightning(out, micros=3)
    ),
    "lightning_clip": Loop(
        "Lightning, automatic, clipping", "trainers", lambda out: lightning(out, clip=0.05)
    ),
    "lightning_manual": Loop("Lightning, manual", "trainers", lambda out: lightning(out, manual=True)),
    "fabric": Loop("Fabric", "trainers", fabric),
    "fabric_closure": Loop("Fabric, closure", "trainers", lambda out: fabric(out, by_closure=True)),
    "accelerate": Loop("Accelerate, accumulation", "trainers", accelerate),
    "transformers": Loop("HF Trainer, accumulation", "trainers", transformers),
    "trl": Loop(
        "a subclass of HF Trainer, as TRL's", "trainers", lambda out: transformers(out, subclass=True)
    ),
    "keras_torch": Loop("Keras 3 on PyTorch", "keras-torch", keras),
    "keras_jax": Loop("Keras 3 on JAX", "keras-jax", keras),
    "keras_tensorflow": Loop("Keras 3 on TensorFlow", "keras-tensorflow", keras),
    "jax": Loop("JAX, optax", "jax", jax),
}


def main() -> None:
    out, names = Path(sys.argv[1]), sys.argv[2:]
    if "WORLD_SIZE" in os.environ:
        import torch

        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
    for name in names:
        (out / name).mkdir(parents=True, exist_ok=True)
        try:
            LOOPS[name].train(out / name)
        except Exception as error:
            if "WORLD_SIZE" in os.environ:
                raise  # the other rank waits
            import traceback

            traceback.print_exc()
            (out / name / "failed.json").write_text(json.dumps(f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
