"""Scalar event files to load: RUNS runs of TAGS tags of STEPS steps, a point per event, as training does it.

Kept in ``.cache/benchmarks`` between runs. The bytes are those that any TensorBoard writer produces; the
values are a sine with noise from a fixed seed.
"""

from __future__ import annotations

import random
import shutil
from math import sin
from pathlib import Path

from stepscope.events import EventWriter

CACHE = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks"
SMALL = (20, 10, 10_000)
"""Runs, tags, steps: 2 M points, 102 MB."""
LARGE = (50, 20, 10_000)
"""Runs, tags, steps: 10 M points, 511 MB."""
START = 1.7e9
SECONDS_PER_STEP = 0.1


def logs(runs: int, tags: int, steps: int) -> Path:
    """Return a directory with those logs, written on first use."""
    directory = CACHE / f"logs-{runs}x{tags}x{steps}"
    if not directory.exists():
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        print(
            f"writing {runs * tags * steps:,} points to {directory.relative_to(CACHE.parent.parent)}",
            flush=True,
        )
        for run in range(runs):
            write_run(partial / f"run{run:03d}", tags, steps, random.Random(run))
        partial.rename(directory)
    return directory


def write_run(directory: Path, tags: int, steps: int, noise: random.Random) -> None:
    """Write one run, tags in turn at every step."""
    names = [f"train/metric_{tag}" for tag in range(tags)]
    writer = EventWriter(directory, clock=lambda: START)
    for step in range(steps):
        wall = START + step * SECONDS_PER_STEP
        for tag, name in enumerate(names):
            writer.scalar(name, sin(step * 0.001 * (tag + 1)) + noise.random() * 0.1, step, wall)
    writer.close()
