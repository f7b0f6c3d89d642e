"""What HealthHook costs the training, a step, measured from outside.

``python benchmarks/health_cost.py [--steps N] [--rounds N]``. One loop, three ways, in turns, each in a
process of its own: bare; recorded (loss, learning rate, gradient norm before and after clipping, and 4 series
of 20 layers every 50 steps); and recorded with ``HealthHook``. A step computes about 1 ms: matrix products,
which let go of the interpreter, and plain Python, which does not and so feels other threads.

With ``--facts`` it is what the facts of 20 and of 200 series take, alone.

With ``--pairs N`` it is one process instead, in which blocks of steps with and without the hook take turns by
chance, N of each, so that where things lie in memory is the same for both: what a step of the training thread
takes longer.

First comes what tells most on a busy machine: the CPU time that judging takes, by the clock of the thread
that judges, over the steps, with all calls of the hook counted; nothing else of it runs at a step. Then what
the loop and the process took with the hook less what they took without it, by the clock of the wall, of the
training thread and of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from typing import Any

import numpy as np

WAYS = ("bare", "recorded", "health")
LAYERS, EVERY = 20, 50


def main() -> None:
    """Run the three ways in turns and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=WAYS, help="measure one way here and print JSON")
    parser.add_argument("--pairs", type=int, help="blocks of 2,000 steps in one process, so many pairs")
    parser.add_argument("--facts", action="store_true", help="measure facts of 20 and of 200 series alone")
    arguments = parser.parse_args()
    if arguments.facts:
        facts()
        return
    if arguments.pairs:
        in_pairs(arguments.pairs)
        return
    if arguments.way:
        print(json.dumps(measure(arguments.way, arguments.steps)))
        return
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--way", way, "--steps", str(arguments.steps)]
            # Threads of a matrix library would fight over the cores with what is measured.
            alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
            answer = done.stdout
            found[way].append(json.loads(answer.splitlines()[-1]))
    judging = sorted(one["judging_us"] for one in found["health"])
    print(
        f"judging, on the writer's thread: {statistics.median(judging):.1f} us a step, the least of "
        f"{len(judging)} rounds {judging[0]:.1f} (<= 10)"
    )
    for what in ("wall_us", "thread_us", "cpu_us"):
        middle = {way: statistics.median(one[what] for one in found[way]) for way in WAYS}
        pairs = [h[what] - r[what] for h, r in zip(found["health"], found["recorded"], strict=True)]
        print(
            f"{what} a step: bare {middle['bare']:.1f}, recorded {middle['recorded']:.1f}, with HealthHook "
            f"{middle['health']:.1f}; the hook {statistics.median(pairs):+.1f} (rounds "
            f"{', '.join(f'{pair:+.1f}' for pair in pairs)})"
        )


def measure(way: str, steps: int) -> dict[str, float]:
    """Return microseconds a step of one way: wall, CPU of training thread and process, and of judging."""
    import stepscope as ss

    with tempfile.TemporaryDirectory() as directory:
        hooks = [ss.HealthHook()] if way == "health" else []
        spent = [clocked(hook) for hook in hooks]
        with nullcontext() if way == "bare" else ss.Run(directory, hooks=hooks) as run:  # type: ignore[attr-defined]
            rng = np.random.default_rng(0)
            noise = (1 + 0.05 * rng.normal(size=steps)).tolist()
            numbers = range(steps) if run is None else run.steps(range(steps))
            matrix = rng.normal(size=(160, 160))
            wall, cpu, thread = time.perf_counter(), time.process_time(), time.thread_time()
            for step in numbers:
                work(matrix)
                if run is not None:
                    log(run, step, noise[step], steps)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            thread = time.thread_time() - thread
            if hooks:
                assert not [each for each in hooks[0].findings if each.rule != "step-outliers"]
    took = {
        "wall_us": wall,
        "thread_us": thread,
        "cpu_us": cpu,
        "judging_us": sum(sum(each) for each in spent),
    }
    return {what: 1e6 * seconds / steps for what, seconds in took.items()}


def facts(steps: int = 10_000, portion: int = 100) -> None:
    """Print what facts cost a step, by the clock of the thread, if points come in portions.

    The compiled pass and the same source as plain Python take turns on the same points.
    """
    from importlib.util import module_from_spec, spec_from_file_location
    from pathlib import Path

    from stepscope.health.facts import CHANCE, Facts
    from stepscope.kernels import facts as kernel

    source = spec_from_file_location("facts_as_python", Path(kernel.__file__ or "").with_name("facts.py"))
    assert source is not None
    assert source.loader is not None
    plain = module_from_spec(source)
    source.loader.exec_module(plain)
    values, numbers = np.random.default_rng(0).normal(size=steps), np.arange(steps)
    walls = numbers * 0.01

    def took(make: Any, count: int, steps: int) -> tuple[float, list[Any]]:
        every = [make() for _ in range(count)]
        begun = time.thread_time()
        for first in range(0, steps, portion):
            rows = slice(first, first + portion)
            for each in every:
                each.take(numbers[rows], values[rows], walls[rows])
        return 1e6 * (time.thread_time() - begun) / steps, every

    for count, most in ((20, 10), (200, 25)):
        rounds = [(took(Facts, count, steps), took(plain.FactPass, count, steps // 20)[0]) for _ in range(5)]
        compiled = min(one for (one, _), _ in rounds)
        ratio = statistics.median(slow / one for (one, _), slow in rounds)
        every = rounds[0][0][1]
        begun = time.thread_time()
        for each in every[:20]:
            each.changes(CHANCE / count)
        changes = (time.thread_time() - begun) / 20
        print(
            f"{count} series: {compiled:.1f} us a step (<= {most}), {ratio:.0f} times faster than as Python; "
            f"changes of one {1e3 * changes:.1f} ms"
        )


BLOCK = 2_000
"""Steps of a block: about a second, in which the hook judges once."""


def in_pairs(pairs: int) -> None:
    """Print what the hook adds to a step, by blocks with and without it."""
    import stepscope as ss

    with tempfile.TemporaryDirectory() as directory:
        hook = ss.HealthHook()
        calls = {name: getattr(hook, name) for name in ("_take", "look")}
        run = ss.Run(directory, hooks=[hook])
        rng = np.random.default_rng(0)
        matrix, steps = rng.normal(size=(160, 160)), BLOCK * (2 * pairs + 2)
        noise = (1 + 0.05 * rng.normal(size=steps)).tolist()

        def block(first: int, *, judged: bool) -> list[float]:
            for name, call in calls.items():
                setattr(hook, name, call if judged else lambda *_, **__: None)
            wall, thread = time.perf_counter(), time.thread_time()
            for step in run.steps(range(first, first + BLOCK)):
                work(matrix)
                log(run, step, noise[step], steps)
            took = [time.perf_counter() - wall, time.thread_time() - thread]
            run.flush()
            return [1e6 * seconds / BLOCK for seconds in took]

        block(0, judged=True)
        block(BLOCK, judged=False)
        added: list[tuple[float, float]] = []
        bare: list[float] = []
        for pair in range(1, pairs + 1):
            found = {}
            for place, judged in enumerate(rng.permutation([True, False]).tolist()):
                found[judged] = block(BLOCK * (2 * pair + place), judged=judged)
            added.append((found[True][0] - found[False][0], found[True][1] - found[False][1]))
            bare.append(found[False][0])
        run.close()
    print(f"a step of {statistics.median(bare):.0f} us, recorded; the hook adds (median of {pairs} pairs):")
    for at, what in enumerate(("of the wall", "of the training thread")):
        every = sorted(one[at] for one in added)
        middle = every[len(every) // 4], every[-len(every) // 4 - 1]
        print(
            f"  {statistics.median(every):+.1f} us {what} (half of them {middle[0]:+.1f} to {middle[1]:+.1f})"
        )


def clocked(hook: Any) -> list[float]:
    """Have a hook's calls on other threads timed; return where their CPU seconds are put."""
    spent: list[float] = []
    for name in ("_take", "look"):
        call = getattr(hook, name)

        def timed(*arguments: Any, call: Any = call, **more: Any) -> Any:
            begun = time.thread_time()
            try:
                return call(*arguments, **more)
            finally:
                spent.append(time.thread_time() - begun)

        setattr(hook, name, timed)
    return spent


def work(matrix: Any) -> int:
    """Compute for about a millisecond."""
    matrix @ matrix
    return sum(range(20_000))


def log(run: Any, step: int, noise: float, steps: int) -> None:
    """Record what a training records."""
    run.scalar("train/loss", 3.0 * noise * 0.1 ** (step / steps))
    run.scalar("train/learning_rate", 1e-3)
    run.scalar("gradients/norm", noise)
    run.scalar("gradients/clipped_norm", noise)
    if step % EVERY == 0:
        for layer in range(LAYERS):
            run.scalar(f"gradients/layer{layer}/norm", noise)
            run.scalar(f"updates/layer{layer}/weight_ratio", 1e-3 * noise)
            run.scalar(f"weights/layer{layer}/norm", 10.0 + noise)
            run.scalar(f"activations/layer{layer}/fraction_of_zero_values", 0.5)


if __name__ == "__main__":
    main()
