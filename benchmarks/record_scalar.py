"""What logging a scalar costs, beside ``torch.utils.tensorboard.SummaryWriter.add_scalar``.

``python benchmarks/record_scalar.py [--points N] [--rounds N]``. Each tool runs in a process of its own, in
turns; the drop-in is ``stepscope.compat.SummaryWriter``.
Two loops: *tight*, one call after the other, and *paced*, 5 tags a step and 2 ms between steps in which the
interpreter is free, as while a device computes. Time in the caller's thread is what passes during the calls.
Total CPU is that of the whole process, every thread, from the first call until the file holds every point;
that it does is checked with TensorBoard's own reader.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

TAGS = ["train/loss", "train/accuracy", "train/learning_rate", "train/grad_norm", "train/tokens"]
PACE_S = 0.002
TOOLS = ("stepscope", "drop-in", "tensorboard")
Log = Callable[[str, float, int], object]


def main() -> None:
    """Run every tool in turns and print medians, ratios and the physical limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--points", type=int, default=100_000, help="calls of the tight loop")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tool", choices=TOOLS, help="measure one tool here and print JSON")
    arguments = parser.parse_args()
    if arguments.tool:
        print(json.dumps(measure(arguments.tool, arguments.points)))
        return
    found: dict[str, list[dict[str, float]]] = {tool: [] for tool in TOOLS}
    for _ in range(arguments.rounds):
        for tool in TOOLS:
            found[tool].append(in_a_process(tool, arguments.points))
    for what in found[TOOLS[0]][0]:
        *ours, theirs = (statistics.median(one[what] for one in found[tool]) for tool in TOOLS)
        each = [f"{tool} {us:.2f} us, ratio {theirs / us:.0f}" for tool, us in zip(TOOLS, ours, strict=False)]
        print(f"{what}: SummaryWriter {theirs:.1f} us; {'; '.join(each)}")
    print("physical limit:", ", ".join(f"{what} {ns:.0f} ns" for what, ns in limits().items()))


def in_a_process(tool: str, points: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--tool", tool, "--points", str(points)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


def measure(tool: str, points: int) -> dict[str, float]:
    """Return microseconds a point of one tool in this process."""
    paced_points = points // 20
    with tempfile.TemporaryDirectory() as directory:
        log, close = OPENERS[tool](directory)
        paced_wall = paced(log, paced_points)
        time.sleep(1.0)  # what waits in either tool's queue is written before the next loop begins
        total, wall, cpu = time.process_time(), time.perf_counter(), time.thread_time()
        for step in range(points):
            log("tight", 0.5, step)
        wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
        close()
        total = time.process_time() - total
        check(directory, {"tight": points, TAGS[0]: paced_points // len(TAGS)})
    return {
        "time in the caller's thread, paced": 1e6 * paced_wall / paced_points,
        "time in the caller's thread, tight": 1e6 * wall / points,
        "CPU of the caller's thread, tight": 1e6 * cpu / points,
        "total CPU to bytes on disk, tight": 1e6 * total / points,
    }


def paced(log: Log, points: int) -> float:
    """Log steps with a pause after each; return the seconds that passed in the calls."""
    seconds, now = 0.0, time.perf_counter
    for step in range(points // len(TAGS)):
        begun = now()
        for tag in TAGS:
            log(tag, 0.5, step)
        seconds += now() - begun
        time.sleep(PACE_S)
    return seconds


def stepscope(directory: str) -> tuple[Log, Callable[[], object]]:
    import stepscope

    run = stepscope.Run(directory)
    return run.scalar, run.close


def drop_in(directory: str) -> tuple[Log, Callable[[], object]]:
    from stepscope.compat import SummaryWriter

    writer = SummaryWriter(directory)
    return writer.add_scalar, writer.close


def tensorboard(directory: str) -> tuple[Log, Callable[[], object]]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(directory)
    return writer.add_scalar, writer.close


OPENERS: dict[str, Callable[[str], tuple[Log, Callable[[], object]]]] = {
    "stepscope": stepscope,
    "drop-in": drop_in,
    "tensorboard": tensorboard,
}


def check(directory: str, expected: dict[str, int]) -> None:
    """Read the file back with TensorBoard's reader and count."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    counts: dict[str, int] = {}
    for path in Path(directory).glob("*tfevents*"):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                counts[value.tag] = counts.get(value.tag, 0) + 1
    if found := {tag: counts.get(tag, 0) for tag in expected if counts.get(tag, 0) != expected[tag]}:
        sys.exit(f"points missing on disk: expected {expected}, found {found}")


def limits() -> dict[str, float]:
    """Return nanoseconds of what no recorder can do without."""
    names: dict[str, Any] = {"clock": time.perf_counter, "now": time.time, "append": deque(maxlen=9).append}
    cases = {
        "one perf_counter call": "clock()",
        "one time.time call": "now()",
        "one deque append": "append(1)",
        "one call of an empty method": "empty.call(1, 2, 3)",
    }
    names["empty"] = Empty()
    number = 200_000
    found = {
        what: 1e9 * min(timeit.repeat(code, globals=names, number=number, repeat=5)) / number
        for what, code in cases.items()
    }
    found["the same paced"] = 1e9 * paced(Empty().call, 5_000) / 5_000
    return found


class Empty:
    """The least that a method can do."""

    def call(self, tag: object, value: object, step: object) -> None:
        """Do nothing."""


if __name__ == "__main__":
    main()
