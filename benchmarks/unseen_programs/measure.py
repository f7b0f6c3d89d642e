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
    python benchmarks/unseen_programs/measure.py --set second          # the programs in the folder `second`

A run takes the number of steps in the table, on one processor; the first 6 do not count, and of the rest the
median does, or the mean if the table says so, because the mistake is made once an epoch. A step is timed by
its use of the processor, so that other work on the machine does not count, or by the wall clock if the table
says so, because a program has other processes. A slow and a mended training take turns of six steps, in a
process each; of three such pairs, the median of their ratios is the gain. Where the wall clock counts, one of
them runs first. All losses must agree. If the table says `legitimate`, no mistake is known: the twin is a
smaller model with other losses, and the line is the costliest.

The programs in `second` make other mistakes. Whoever wrote them had read the guides, the names of the rules
and the figures of the first set, and no source, test or design document.
It needs Python 3.11, PyTorch, JAX, optax, Keras, pandas, tokenizers, scikit-learn and Pillow.
"""

import argparse
import importlib
import itertools
import math
import multiprocessing
import os
import re
import statistics
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing.context import BaseContext
from pathlib import Path

import tomllib

HERE = Path(__file__).parent
WARM, REPETITIONS = 6, 3
BLOCK = 6
"""Steps of one training before it is the other's turn: what else the machine does then slows both of them."""


class Training:
    """One training in this process, run some steps at a time."""

    def __init__(self, folder: Path, program: dict, mended: bool) -> None:
        warnings.simplefilter("ignore")
        sys.path.insert(0, str(folder))
        self.steps = importlib.import_module(program["name"]).training(mended)
        self.now = time.perf_counter if program.get("clock") == "wall" else time.process_time

    def run(self, count: int) -> list[tuple[float, float]]:
        """Run so many steps; give the milliseconds and the loss of each."""
        done, before = [], self.now()
        for loss in itertools.islice(self.steps, count):
            done.append((1000 * (self.now() - before), loss))
            before = self.now()
        return done


def begin(folder: Path, program: dict, mended: bool) -> None:
    global training
    training = Training(folder, program, mended)


def run(count: int) -> list[tuple[float, float]]:
    return training.run(count)


def cause_line(path: Path) -> int:
    """Give the number of the line that makes the mistake, or costs most; the first, where there are two."""
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(("# cause", "# costliest")))


def pair(context: BaseContext, folder: Path, program: dict) -> list[list[tuple[float, float]]]:
    """Run the slow and the mended training in a process each, some steps of one, then some of the other.

    Threads and processes of one would go on while it is the other's turn: where they count, one runs first.
    """
    turns = [WARM, *[BLOCK] * math.ceil((program["steps"] - WARM) / BLOCK)]
    turns = [sum(turns)] if program.get("clock") == "wall" else turns
    done: list[list[tuple[float, float]]] = [[], []]
    with ExitStack() as stack:
        processes: dict[int, ProcessPoolExecutor] = {}
        for count, mended in itertools.product(turns, (False, True)):
            if mended not in processes:
                if len(turns) == 1:
                    stack.close()
                given = (folder, program, mended)
                one = ProcessPoolExecutor(1, mp_context=context, initializer=begin, initargs=given)
                processes[mended] = stack.enter_context(one)
            done[mended] += processes[mended].submit(run, count).result()
    return done


def measure(folder: Path, program: dict, context: BaseContext) -> dict:
    name, tolerance = program["name"], program["tolerance"]
    middles, ratios, spreads = [], [], []
    for _ in range(REPETITIONS):
        slow, mended = pair(context, folder, program)
        for step, ((_, one), (_, other)) in enumerate(zip(slow, mended, strict=True), 1):
            agree = math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
            if not agree and not program.get("legitimate"):
                raise SystemExit(f"{name}: the losses of step {step} differ: {one} and {other}")
        times = [[time_ms for time_ms, _ in steps[WARM:]] for steps in (slow, mended)]
        average = statistics.mean if program.get("average") == "mean" else statistics.median
        middles.append([average(one) for one in times])
        ratios.append(middles[-1][0] / middles[-1][1])
        quarters = [statistics.quantiles(one, n=4) for one in times]
        spreads.append([(high - low) / median for low, median, high in quarters])
    slow_ms, mended_ms = (statistics.median(one) for one in zip(*middles, strict=True))
    return {
        "line": cause_line(folder / program["file"]),
        "slow_ms": round(slow_ms, 1),
        "mended_ms": round(mended_ms, 1),
        "gain": round(statistics.median(ratios), 2),
        "gains": [round(ratio, 2) for ratio in sorted(ratios)],
        "spread": [round(statistics.median(one), 2) for one in zip(*spreads, strict=True)],
    }


def write(table: Path, name: str, numbers: dict) -> None:
    """Put the numbers into the program's part of the table."""
    parts = re.split(r"(?m)^(?=\[\[program\]\])", table.read_text())
    for index, part in enumerate(parts):
        if f'name = "{name}"\n' in part:
            for key, value in numbers.items():
                part = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", part)
            parts[index] = part
    table.write_text("".join(parts))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("names", nargs="*", help="programs (all, if none is named)")
    arguments.add_argument("--write", action="store_true", help="write the numbers into programs.toml")
    arguments.add_argument("--set", default=".", help="the folder with the programs and their table")
    chosen = arguments.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["jax", "PIL.Image", "sklearn.metrics", "torch"])
    folder = HERE / chosen.set
    table = folder / "programs.toml"
    for program in tomllib.loads(table.read_text())["program"]:
        if not chosen.names or program["name"] in chosen.names:
            numbers = measure(folder, program, context)
            print(f"{program['name']:24}", *(f"{key} {value}" for key, value in numbers.items()), flush=True)
            if chosen.write:
                write(table, program["name"], numbers)


if __name__ == "__main__":
    main()
