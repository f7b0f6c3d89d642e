"""What a step costs the training thread, as the run says and as a clock outside says.

``python benchmarks/step_cost.py [--steps N] [--rounds N] [--work MS]``. A step logs ten scalars into a run
with ``StepCounterHook``, ``SystemHook`` and rank telemetry. The same loop without a run is its peer. Loops
take turns in one process. Between its calls a step sleeps, as a thread does that waits for a device.

- *outside*: time of the loop less that of its sleeps, with a run less without, by step.
- *the run itself*: its series ``stepscope/overhead_us_per_step``.
- *sleeps longer by*: what a sleep takes longer with a run, where the thread finds the interpreter taken by
  the threads that write. The training thread cannot tell that from a late wake-up, so no run counts it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import stepscope as ss

TAGS = [f"train/metric_{number}" for number in range(10)]
LIMIT_US = 50.0


class Cost(NamedTuple):
    """Microseconds by step: of the loop less its sleeps, of a sleep, and what the run says."""

    loop: float
    sleep: float
    said: float = float("nan")


def main() -> None:
    """Run the loops in turns and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=float, default=1.0, help="milliseconds that a step sleeps")
    parser.add_argument("--values", choices=VALUES, help="only this kind of value")
    arguments = parser.parse_args()
    for kind in [arguments.values] if arguments.values else VALUES:
        try:
            value = VALUES[kind]()
        except ImportError:
            print(f"{kind}: not installed, not measured")
            continue
        report(kind, value, arguments)


def report(kind: str, value: Any, arguments: argparse.Namespace) -> None:
    """Measure with one kind of value and print."""
    seconds = arguments.work / 1e3
    bare, full = [], []
    for _ in range(arguments.rounds):
        bare.append(loop(range(arguments.steps), nothing, seconds))
        full.append(with_run(arguments.steps, value, seconds))
    outside = statistics.median(a.loop - b.loop for a, b in zip(full, bare, strict=True))
    said = statistics.median(one.said for one in full)
    longer = statistics.median(a.sleep - b.sleep for a, b in zip(full, bare, strict=True))
    print(f"{kind}: outside {outside:.1f} us, the run itself {said:.1f} us a step,", end=" ")
    print(
        f"ratio {said / outside:.2f} (limit {LIMIT_US:.0f} us, 0.8 to 1.2); sleeps longer by {longer:.0f} us"
    )


def with_run(steps: int, value: Any, seconds: float) -> Cost:
    """Measure a loop that records."""
    with tempfile.TemporaryDirectory() as directory:
        hooks = [ss.StepCounterHook(), ss.SystemHook()]
        with ss.Run(directory, rank=0, world_size=2, hooks=hooks) as run:
            log = run.scalar

            def record() -> None:
                for tag in TAGS:
                    log(tag, value)

            found = loop(run.steps(range(steps)), record, seconds)
        with ss.open(directory) as logs:
            said = logs.runs()[0].series("stepscope/overhead_us_per_step")["value"].mean()
    return Cost(found.loop, found.sleep, said)


def nothing() -> None:
    for _ in TAGS:
        pass


def loop(items: Iterable[Any], record: Callable[[], object], seconds: float) -> Cost:
    """Run a loop; return what it and its sleeps took, by step."""
    now, sleep, slept, steps = time.perf_counter, time.sleep, 0.0, 0
    begun = now()
    for _ in items:
        before = now()
        sleep(seconds)
        slept += now() - before
        record()
        steps += 1
    return Cost(1e6 * (now() - begun - slept) / steps, 1e6 * slept / steps)


def a_tensor() -> Any:
    import torch

    return torch.tensor(0.5)


def a_numpy_scalar() -> Any:
    import numpy as np

    return np.float32(0.5)


VALUES: dict[str, Callable[[], Any]] = {
    "Python floats": lambda: 0.5,
    "numpy scalars": a_numpy_scalar,
    "torch scalars on the CPU": a_tensor,
}

if __name__ == "__main__":
    main()
