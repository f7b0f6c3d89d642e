"""Records the step times of ``tests/data/step_times``: pairs of groups of short runs, on a noisy machine.

Each session has twenty runs of a program and twenty of the same program with one more multiplication a step,
34 instead of 33: 3 % more work. They run one after the other in a random order. Each is a process of its own,
whose arrays begin at a random place. The recording is of a machine with two processors, on which some ten to
thirty other processes ran meanwhile.

    python tests/data/scripts/record_step_times.py FILE.npz SESSIONS
"""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import numpy as np

import stepscope as ss
from stepscope import store

UNITS = {"a": 33, "b": 34}
RUNS, STEPS, SIDE = 20, 80, 112


def train(where: str, units: int, seed: int) -> None:
    """Run the program and record it."""
    sizes = np.random.default_rng(seed).integers(1, 1 << 14, 64)
    held = [bytearray(int(size)) for size in sizes]
    normal = np.random.default_rng(0)
    weights = (normal.normal(size=(SIDE, SIDE)) * 0.1).astype(np.float32)
    data = normal.normal(size=(SIDE, SIDE)).astype(np.float32)
    with ss.Run(where) as run:
        for _ in run.steps(range(STEPS)):
            for _ in range(units):
                hidden = np.tanh(data @ weights)
            run.scalar("train/loss", float(hidden[0, 0]))
    del held


def recorded(where: str, units: int, seed: int) -> np.ndarray:
    """Return the step times of one run in another process."""
    child = os.fork()
    if not child:
        try:
            train(where, units, seed)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with store.open(where, cache=False) as log:
        [series] = log.runs()[0].find("speed/step_time_ms")
        times = series.value[: len(series)].copy()
    shutil.rmtree(where)
    return times


def main(file: str, sessions: int) -> None:
    """Record sessions and write microseconds: u4[session, side, run, step]."""
    place = tempfile.mkdtemp()
    train(f"{place}/first", 1, 0)  # loads what the others then have
    order = random.Random(0)
    times = np.zeros((sessions, 2, RUNS, STEPS), np.uint32)
    for session in range(sessions):
        sides = [0, 1] * RUNS
        order.shuffle(sides)
        count = [0, 0]
        for side in sides:
            ms = recorded(f"{place}/run", UNITS["ab"[side]], order.getrandbits(32))
            times[session, side, count[side]] = np.rint(1e3 * ms)
            count[side] += 1
    write(Path(file), times)


def write(file: Path, times: np.ndarray) -> None:
    """Write the times, compressed."""
    import lzma

    file.write_bytes(lzma.compress(times.tobytes(), preset=9))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
