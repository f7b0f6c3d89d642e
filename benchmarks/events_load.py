"""Read event files to columns: against TensorBoard's Rust data server, and against what the machine can do.

In a running process, every point kept and both checksums of every record checked; the files are in the page
cache. Ours and the peer in turn, the best of some runs of each.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from load_logs import data_server, line
from logs import SMALL, logs

from stepscope.events import EventFile
from stepscope.events.columns import BLOCK_BYTES
from stepscope.events.source import EventSource, aligned
from stepscope.kernels import records

RUNS = 5
GOAL = 4


def main() -> int:
    """Measure and print; the exit code says whether the ratio was reached."""
    runs, tags, steps = SMALL
    directory = logs(*SMALL)
    paths = sorted(directory.rglob("*tfevents*"))
    points, threads = runs * tags * steps, min(len(os.sched_getaffinity(0)), len(paths))
    one, many, read, check, server = [], [], [], [], []
    for _ in range(RUNS):
        one.append(seconds(load, paths, 1, points))
        many.append(seconds(load, paths, threads, points))
        read.append(seconds(read_bytes, paths, 1))
        check.append(seconds(check_bytes, paths, 1))
        server.append(data_server(directory, runs * tags, steps)["whole"])
    print(f"{points:,} points in {len(paths)} files, checksums by {records.choose()}")
    good = line(f"{threads} threads", min(many), "Rust data server, its process", min(server), GOAL)
    print(
        f"  {threads} threads: {points / min(many) / 1e6:.0f} M points/s; one: {points / min(one) / 1e6:.0f}"
    )
    print(
        f"  limit: one thread {min(one):.3f} s, of which reading the bytes {min(read):.3f} s "
        f"and their checksums {min(check):.3f} s"
    )
    return 0 if good else 1


def seconds(task: object, paths: list[Path], threads: int, expected: int | None = None) -> float:
    """Return how long a task takes on every file."""
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        done = list(pool.map(task, paths) if threads > 1 else map(task, paths))
        took = time.perf_counter() - began
    assert expected is None or sum(map(len, done)) == expected
    return took


class Loaded(list):
    """The columns of a file, as long as it has points."""

    def __len__(self) -> int:
        return sum(len(columns) for columns in self)


def load(path: Path) -> Loaded:
    return Loaded(EventFile(path).read().scalars)


def read_bytes(path: Path) -> None:
    buffer = aligned(BLOCK_BYTES)
    with EventSource(path) as source:
        for at in range(0, source.size, BLOCK_BYTES):
            source.block(buffer, at, min(source.size, at + BLOCK_BYTES))


def check_bytes(path: Path) -> None:
    records.checksum(path.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
