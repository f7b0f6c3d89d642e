"""What gradient statistics cost on the CPU and in JAX.

``python benchmarks/gradients.py [ledger|mlp|transformer|budget|budget-mlp|jax …]``. Compared are, on
the same model in the same process, turn by turn: the bare training step; the norm of every step; a sampled
step with all statistics and histograms of the gradients; and a hook on each parameter that makes a histogram
between least and most, as the popular tracker does (``register_hook`` + ``torch.histc``).

Times are CPU times with one thread of computation, so that other work on the machine counts as little as it
can. A case's turn stands between two of the bare step; what it takes more than these is taken for each turn,
and the median of the turns compared. Given are the time of the training thread, which is what a step gets
longer by, and that of the whole process, with the threads of ours that finish, encode and write, until all
is written; the tracker records nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import watch

ROUNDS = 11
STEPS = {"mlp": 6, "transformer": 2}
CHEAPER = 2.0
"""How many times cheaper than the tracker a sampled step has to be, at the least."""
LEDGER_STEP, LEDGER_SHARE = 0.01, 0.001
"""Seconds of a step, and the share of it that the ledger of what is watched may take."""
NORM = 1.1
"""What a step with the norm may take beside the bare one. A thread reads gradients at the speed of memory; of
a step that computes as little for each parameter as the perceptron's that is a twentieth."""


def mlp() -> tuple[nn.Module, torch.Tensor]:
    layers = [part for _ in range(50) for part in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(*layers), torch.randn(64, 256)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """About 30 million parameters: 9 layers of width 512, 4 times that inside."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 9, enable_nested_tensor=False), torch.randn(4, 32, 512)


class Tracker:
    """Histograms of gradients the usual way; on only where asked for."""

    def __init__(self, model: nn.Module) -> None:
        self.on = False
        for parameter in model.parameters():
            parameter.register_hook(self.see)

    def see(self, gradient: torch.Tensor) -> None:
        """Make a histogram."""
        if self.on:
            flat = gradient.detach().reshape(-1)
            flat.histc(64, flat.min().item(), flat.max().item())


Took = tuple[float, float]
"""Seconds of the training thread and of the process."""


def seconds(step: Callable[[], None], times: int, then: Callable[[], object] = int) -> Took:
    """Time steps; what is called then counts for the process alone."""
    begun, whole = time.thread_time(), time.process_time()
    for _ in range(times):
        step()
    thread = time.thread_time() - begun
    then()
    return thread / times, (time.process_time() - whole) / times


def training(model: nn.Module, x: torch.Tensor) -> tuple[torch.optim.Optimizer, Callable[[], None]]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return optimizer, step


def on_the_cpu(name: str, make: Callable[[], tuple[nn.Module, torch.Tensor]]) -> bool:
    torch.manual_seed(0)
    model, x = make()
    optimizer, step = training(model, x)
    size = sum(each.numel() for each in model.parameters())
    tracker, times = Tracker(model), STEPS[name]

    def attached(hook: ss.GradientHook) -> Took:
        with tempfile.TemporaryDirectory() as place, ss.Run(Path(place), hooks=[hook]) as run:
            watched = watch(model, optimizer, run)
            seconds(step, 2, run.flush)
            took = seconds(step, times, run.flush)
            watched.remove()
        return took

    everything = {"every_n_steps": 1, "histograms_every": 1, "max_overhead": None, "noise_scale": False}
    cases: dict[str, Callable[[], Took]] = {
        "norm": lambda: attached(ss.GradientHook(every_n_steps=10**6, dense_steps=0, histograms_every=0)),
        "gradients": lambda: attached(ss.GradientHook(of=["gradients"], **everything)),
        "all": lambda: attached(ss.GradientHook(**everything)),
        "tracker": lambda: tracked(tracker, step, times),
    }
    bare: list[float] = []
    more: dict[str, list[Took]] = {case: [] for case in cases}
    seconds(step, 2)
    for _ in range(ROUNDS):
        before = seconds(step, times)
        for case, run in cases.items():
            took, after = run(), seconds(step, times)
            bare.append(before[0])
            thread, process = (one - (b + a) / 2 for one, b, a in zip(took, before, after, strict=True))
            more[case].append((thread, process))
            before = after
    middle = statistics.median(bare)
    print(
        f"{name}: {size / 1e6:.1f} M parameters, {1e3 * middle:.2f} ms a bare step; median of {ROUNDS} turns"
    )
    extra: dict[str, Took] = {}
    for case, some in more.items():
        threads, processes = (sorted(each) for each in zip(*some, strict=True))
        thread, process = extra[case] = threads[ROUNDS // 2], processes[ROUNDS // 2]
        quarters = f"{1e3 * threads[ROUNDS // 4]:.2f} to {1e3 * threads[-1 - ROUNDS // 4]:.2f}"
        print(
            f"  {case:10} {1e3 * thread:+8.2f} ms on the training thread (quartiles {quarters}), "
            f"{1e3 * process:+8.2f} ms of the process; {1 + thread / middle:.3f} x the bare step"
        )
    ratio, whole = (extra["tracker"][at] / max(extra["gradients"][at], 1e-9) for at in (0, 1))
    norm = 1 + extra["norm"][0] / middle
    print(
        f"  sampled step, gradients with histograms: {ratio:.1f} x cheaper than the peer's (>= {CHEAPER:g})"
    )
    print(f"  the same with what our other threads do beside: {whole:.1f} x (>= {CHEAPER:g})")
    print(f"  norm of every step: {norm:.3f} x the bare step (<= {NORM})")
    return min(ratio, whole) >= CHEAPER and norm <= NORM


def tracked(tracker: Tracker, step: Callable[[], None], times: int) -> Took:
    tracker.on = True
    took = seconds(step, times)
    tracker.on = False
    return took


PROCESSES, PAIRS, BLOCK, SETTLE = 5, 14, 6, 4
"""Processes; pairs of blocks of steps with and without the hook, by chance the one or the other first; steps
of a block; and pairs in which the hook's budget settles."""


def each_of(steps: Iterable[int], step: Callable[[], None]) -> None:
    for _ in steps:
        step()


def small_transformer() -> tuple[nn.Module, torch.Tensor]:
    """About 3.2 million parameters, and 1,024 tokens."""
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), torch.randn(8, 128, 256)


def within_its_budget(what: str, name: str, most: float) -> bool:
    """Time ``GradientHook(1)`` as it is by default, its budget of 1 % included, beside the bare step.

    Twins differ by some 2 % by where they lie in memory. So one model is trained with and without the hook,
    in blocks of steps of which chance says which comes first, in several processes; medians are given.
    """
    command = [sys.executable, __file__, "--blocks", name]
    found = [json.loads(subprocess.check_output([*command, str(seed)])) for seed in range(PROCESSES)]
    wall, thread, process, bare = (sorted(each) for each in zip(*found, strict=True))
    middle = PROCESSES // 2
    print(f"GradientHook(1), budget of 1 %: {what}, {1e3 * bare[middle]:.1f} ms a bare step")
    for of, some in (("wall time", wall), ("training thread", thread), ("process", process)):
        print(f"  {some[middle]:.3f} x the {of} (processes {some[0]:.3f} to {some[-1]:.3f})")
    print(f"  of the training thread <= {most}")
    return thread[middle] <= most


def blocks(make: Callable[[], tuple[nn.Module, torch.Tensor]], seed: int) -> tuple[float, ...]:
    """Return what the hook's steps take beside bare ones (wall, thread, process), and a bare step."""
    torch.manual_seed(0)
    chance = random.Random(seed)
    model, x = make()
    optimizer, step = training(model, x)
    seconds(step, 2)
    ratios: list[list[float]] = [[], [], []]
    bare_walls: list[float] = []
    with tempfile.TemporaryDirectory() as place, ss.Run(Path(place), hooks=[ss.GradientHook(1)]) as run:
        watched = watch(model, optimizer, run)
        hooks = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks

        def bare() -> list[float]:
            kept = [dict(each) for each in hooks]
            for each in hooks:
                each.clear()
            took = clocks(lambda: each_of(range(BLOCK), step), int)
            for each, some in zip(hooks, kept, strict=True):
                each.update(some)
            return took

        def hooked(begin: int) -> list[float]:
            return clocks(lambda: each_of(run.steps(range(begin, begin + BLOCK)), step), run.flush)

        for pair in range(PAIRS):
            begin = (
                2 * pair * BLOCK
            )  # bare steps have their numbers too, so that the hook knows a step's time
            if chance.random() < 0.5:
                without, with_hook = bare(), hooked(begin + BLOCK)
            else:
                with_hook, without = hooked(begin), bare()
            if pair >= SETTLE:
                bare_walls.append(without[0] / BLOCK)
                for known, one, other in zip(ratios, with_hook, without, strict=True):
                    known.append(one / other)
        watched.remove()
    return (*(statistics.median(each) for each in ratios), statistics.median(bare_walls))


def clocks(steps: Callable[[], None], then: Callable[[], object]) -> list[float]:
    """Return seconds of wall, of this thread and of the process; the last with what is called then."""
    wall, thread, process = time.perf_counter(), time.thread_time(), time.process_time()
    steps()
    took = [time.perf_counter() - wall, time.thread_time() - thread]
    then()
    return [*took, time.process_time() - process]


def in_jax() -> bool:
    import jax
    import jax.numpy as jnp

    from stepscope.integrations.jax import measure

    keys = jax.random.split(jax.random.PRNGKey(0), 50)
    params = [jax.random.normal(key, (256, 256)) / 16 for key in keys]
    x = jnp.ones((256, 256))

    def loss(params, x):  # type: ignore[no-untyped-def]
        for each in params:
            x = jax.nn.relu(x @ each)
        return jnp.mean(x * x)

    def step(params, level):  # type: ignore[no-untyped-def]
        gradients = jax.grad(loss)(params, x)
        new = [each - 1e-4 * gradient for each, gradient in zip(params, gradients, strict=True)]
        return new, measure(level, gradients=gradients)

    jitted = jax.jit(step, static_argnames="level")
    levels = ("off", "norm", "full", "histograms")
    times: dict[str, list[float]] = {level: [] for level in levels}
    for level in levels:
        jax.block_until_ready(jitted(params, level))
    for _ in range(4 * ROUNDS):
        for level in levels:
            begun = time.process_time()
            jax.block_until_ready(jitted(params, level))
            times[level].append(time.process_time() - begun)
    ratios = {
        level: statistics.median(one / bare for one, bare in zip(times[level], times["off"], strict=True))
        for level in levels
    }
    print(f"JAX: 50 layers of 256 x 256, batch 256; median of {4 * ROUNDS} turns, and the least")
    for level in levels:
        middle, least = 1e3 * statistics.median(times[level]), min(times[level]) / min(times["off"])
        print(f"  {level:10} {middle:8.2f} ms  {ratios[level]:.3f} x bare, of the least {least:.3f} x")
    print(f"  statistics in every step: {ratios['full']:.3f} x the bare step (<= 1.06)")
    return ratios["full"] <= 1.06


def of_the_ledger() -> bool:
    """Time what the ledger does in each step, for 100 parameters: a thousandth of a step of 10 ms at most."""
    from stepscope.integrations.torch.ledger import ledger_of

    model, _ = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as directory, ss.Run(directory, hooks=[ss.GradientHook(1)]) as run:
        [part] = watch(model, optimizer, run).gradients
        ledger, steps = ledger_of(run), 2000

        def look() -> None:
            for step in range(steps):
                ledger._newcomers.update_begins(optimizer)
                part._silence.stepped(step)
                part._watched.moved(optimizer)
                part._note(step, True)
                part.look(step)

        took = min(timeit.repeat(look, timer=time.thread_time, number=1, repeat=9)) / steps
        part._silence.stepped(0)
    parameters = sum(1 for _ in model.parameters())
    print(f"ledger, {parameters} parameters: {took * 1e6:.2f} us a step, {took / LEDGER_STEP:.3%} of 10 ms")
    return took <= LEDGER_SHARE * LEDGER_STEP


PARTS: dict[str, Callable[[], bool]] = {
    "ledger": of_the_ledger,
    "mlp": lambda: on_the_cpu("mlp", mlp),
    "transformer": lambda: on_the_cpu("transformer", transformer),
    "budget": lambda: within_its_budget("transformer of 3.2 M parameters, 1,024 tokens", "budget", 1.02),
    "budget-mlp": lambda: within_its_budget(
        "MLP of 50 layers, 3.3 M parameters, batch of 64", "budget-mlp", 1.02
    ),
    "jax": in_jax,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--blocks", nargs=2, help=argparse.SUPPRESS)
    torch.set_num_threads(1)
    one = parser.parse_args().blocks
    if one:
        print(json.dumps(blocks({"budget": small_transformer, "budget-mlp": mlp}[one[0]], int(one[1]))))
        return 0
    good = [PARTS[part]() for part in parser.parse_args().parts or PARTS]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
