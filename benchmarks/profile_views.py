"""Any view of a trace of a million events, printed, once it is loaded; beside pandas grouping the events.

The peer answers less: sums by name and step of two columns, without tree, shares, spread or text.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import VIEWS, view
from stepscope.trace.draft import Draft
from stepscope.trace.model import Kind, Lane, Trace
from stepscope.trace.names import Paths, Strings
from stepscope.trace.structure import build

STEPS, PER_STEP = 5, 40_000
LIMIT_S = 0.3


def trace() -> Trace:
    """Build 200,000 times three nested operators, a launch and its kernel, in modules and Python stacks."""
    rng = np.random.default_rng(0)
    count = STEPS * PER_STEP
    base = rng.integers(0, 60, count)
    at = np.arange(count) * 1100
    number = np.arange(count)
    columns = [
        (base, Kind.HOST_OP, 0, at, 1000, -1),
        (60 + base, Kind.HOST_OP, 0, at + 50, 900, -1),
        (120 + base, Kind.HOST_OP, 0, at + 100, 800, -1),
        (np.full(count, 800), Kind.RUNTIME_CALL, 0, at + 200, 300, number),
        (300 + base * 7 % 500, Kind.KERNEL, 1, at + 5000, 700, number),
        (801 + np.arange(STEPS), Kind.STEP, 0, at[::PER_STEP], PER_STEP * 1100, -1),
    ]
    name, kind, lane, start, duration, correlation = (
        np.concatenate([np.broadcast_to(row[i], len(row[0])) for row in columns]).astype(np.int64)
        for i in range(6)
    )
    names = [f"aten::op{i}" for i in range(300)] + [f"void kernel_{i}<float, {i}>(int)" for i in range(500)]
    names += ["cudaLaunchKernel", *(f"ProfilerStep#{i}" for i in range(STEPS))]
    strings = Strings.of(names)
    paths = Paths(
        np.array([-1, *((i - 1) // 6 for i in range(1, 200))], np.int32),
        np.arange(200, dtype=np.int32),
        strings,
    )
    place = np.where(kind == Kind.HOST_OP, name % 200, -1).astype(np.int32)
    return build(
        Draft(
            format="kineto", path="made", strings=strings,
            lanes=[Lane(0, "python", "main"), Lane(0, "GPU 0", "stream 7", device=0, stream=7)],
            name=name.astype(np.int32), kind=kind.astype(np.uint8), lane=lane.astype(np.int32),
            start_ns=start, duration_ns=duration, correlation=correlation,
            scope=place, scopes=paths, stack=place, stacks=paths,
            step_number=np.where(kind == Kind.STEP, name - 801, -1),
        )
    )  # fmt: skip


def best(work: Callable[[], object], *, rounds: int = 5) -> float:
    """Return the shortest of some runs in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    """Print each view's time; fail where one exceeds the limit."""
    made = trace()
    frame = pd.DataFrame(
        {"name": made.name, "step": made.step, "self": made.self_ns, "duration": made.duration_ns}
    )
    peer = best(lambda: frame.groupby(["name", "step"])[["self", "duration"]].sum())
    print(f"{len(made):,} events; pandas groups them by name and step in {peer:.3f} s")
    slow = []
    for name in VIEWS:
        spent = best(lambda name=name: view(name, made, ViewOptions(order_by="micros")).text)  # type: ignore[misc]
        print(f"{name:<8}{spent:.3f} s  limit {LIMIT_S} s  {spent / peer:.2f} x pandas' grouping")
        slow += [name] if spent > LIMIT_S else []
    return len(slow) > 0


if __name__ == "__main__":
    sys.exit(main())
