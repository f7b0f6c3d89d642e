"""How many regressions ``stepscope check`` finds, and how many it invents, beside a threshold on the median.

The step times were recorded on a busy machine (``tests/data/step_times``): in each of 100 sessions twenty
runs of a program and twenty of one that does 3 % more work a step took turns.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepscope.analyze.regression import regression, undisturbed

FILE = Path(__file__).resolve().parents[1] / "tests" / "data" / "step_times" / "busy.u4.xz"
RUNS, STEPS = 20, 80
"""Runs of a program in a session, and steps of a run."""
ALIKE = 300
"""Pairs of five runs of one program that are compared."""
THRESHOLD = 1.05
Times = NDArray[np.float64]
Pair = tuple[Times, Times]


def recorded() -> Times:
    """Return step times in ms: f8[session, program, run, step]; the second program does 3 % more."""
    return np.frombuffer(lzma.decompress(FILE.read_bytes()), np.uint32).reshape(-1, 2, RUNS, STEPS) / 1e3


def alike(times: Times) -> Iterator[Pair]:
    """Yield pairs of five runs of one program, which took turns."""
    for session in times:
        for program in session:
            yield from ((program[first::4], program[first + 2 :: 4]) for first in (0, 1))


def pairs() -> tuple[list[Pair], list[Pair]]:
    """Return pairs whose second side does 3 % more work a step, and pairs of one program."""
    times = recorded()
    return [(session[0], session[1]) for session in times], list(islice(alike(times), ALIKE))


def verdict(pair: Pair) -> str:
    """Return the verdict of the check ``steps``."""
    before, after = ([undisturbed(run) for run in side] for side in pair)
    return regression(before, after, disturbed=True).verdict


def exceeds(pair: Pair) -> bool:
    """Return whether the median of the runs' median steps grew by more than the threshold."""
    before, after = (float(np.median(np.median(side, axis=1))) for side in pair)
    return after > THRESHOLD * before


def main() -> None:
    """Print the table."""
    slower, equal = pairs()
    of_slower, of_equal = ([verdict(pair) for pair in side] for side in (slower, equal))
    print("| | stepscope check | threshold of 5 % on the median |\n|---|---|---|")
    found, plain = of_slower.count("worse"), sum(map(exceeds, slower))
    print(f"| found, of {len(slower)} pairs 3 % slower | {found} | {plain} |")
    print(f"| passed, of the same | {of_slower.count('not worse')} | {len(slower) - plain} |")
    alarms, plain = of_equal.count("worse"), sum(map(exceeds, equal))
    print(f"| called a regression, of {len(equal)} pairs of one program | {alarms} | {plain} |")


if __name__ == "__main__":
    main()
