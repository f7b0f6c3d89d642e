"""Measure what each program gains by its mend, without the product.

This set tests the rules with programs that they were not written for. Whoever wrote it knew what the product
is for and had read no source, test, document or planted program of it; the programs were written and measured
before the product first ran on them. Each mistake is one that people report: `programs.toml` names the place.
A program that the rules miss stays in the set as it is. A program that is made after a look at the rules
belongs in another set.

Each program has one function, `training(mended)`. It prepares what it needs and then yields the loss after
each training step, without end. Where `mended` is false, it makes its mistake at the line (or lines) with the
comment `# cause`; where it is true, it does the same work without the mistake. Some mistakes are switches of
the process, so one process runs one training.

    nice -n 19 python benchmarks/unseen_programs/measure.py            # all programs
    python benchmarks/unseen_programs/measure.py recommender --write   # one, and keep its numbers

A run takes the number of steps in the table, on one processor; the first 6 do not count, and of the rest the
median does. A step is timed by its use of the processor, so that other work on the machine does not count.
Slow and mended runs alternate, three of each; the median of their ratios is the gain. All losses must agree.
It needs Python 3.11, PyTorch, JAX, scikit-learn and Pillow.
"""

import argparse
import importlib
import itertools
import math
import multiprocessing
import os
import re
import statistics
import time
import warnings
from multiprocessing.pool import Pool
from pathlib import Path

import tomllib

HERE = Path(__file__).parent
TABLE = HERE / "programs.toml"
WARM, REPETITIONS = 6, 3


def run(name: str, mended: bool, steps: int) -> tuple[float, list[float]]:
    """Train in this process; give the median step in milliseconds and the losses."""
    warnings.simplefilter("ignore")
    losses, times = [], []
    training = importlib.import_module(name).training(mended)
    before = time.process_time()
    for loss in itertools.islice(training, steps):
        times.append(time.process_time() - before)
        losses.append(loss)
        before = time.process_time()
    return 1000 * statistics.median(times[WARM:]), losses


def cause_line(name: str) -> int:
    """Give the number of the line that makes the mistake; the first, where the mistake has two."""
    lines = (HERE / f"{name}.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith("# cause"))


def measure(program: dict, processes: Pool) -> dict:
    name, tolerance = program["name"], program["tolerance"]
    slow, mended, ratios = [], [], []
    for _ in range(REPETITIONS):
        slow_ms, slow_losses = processes.apply(run, (name, False, program["steps"]))
        mended_ms, mended_losses = processes.apply(run, (name, True, program["steps"]))
        for step, (one, other) in enumerate(zip(slow_losses, mended_losses, strict=True), 1):
            if not math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance):
                raise SystemExit(f"{name}: the losses of step {step} differ: {one} and {other}")
        slow.append(slow_ms)
        mended.append(mended_ms)
        ratios.append(slow_ms / mended_ms)
    return {
        "line": cause_line(name),
        "slow_ms": round(statistics.median(slow), 1),
        "mended_ms": round(statistics.median(mended), 1),
        "gain": round(statistics.median(ratios), 2),
        "gains": [round(ratio, 2) for ratio in sorted(ratios)],
    }


def write(name: str, numbers: dict) -> None:
    """Put the numbers into the program's part of the table."""
    parts = re.split(r"(?m)^(?=\[\[program\]\])", TABLE.read_text())
    for index, part in enumerate(parts):
        if f'name = "{name}"\n' in part:
            for key, value in numbers.items():
                part = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", part)
            parts[index] = part
    TABLE.write_text("".join(parts))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("names", nargs="*", help="programs (all, if none is named)")
    arguments.add_argument("--write", action="store_true", help="write the numbers into programs.toml")
    chosen = arguments.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jax", "PIL.Image", "sklearn.metrics", "torch"])
    processes = context.Pool(1, maxtasksperchild=1)
    programs = tomllib.loads(TABLE.read_text())["program"]
    for program in programs:
        if not chosen.names or program["name"] in chosen.names:
            numbers = measure(program, processes)
            print(f"{program['name']:24}", *(f"{key} {value}" for key, value in numbers.items()), flush=True)
            if chosen.write:
                write(program["name"], numbers)


if __name__ == "__main__":
    main()
