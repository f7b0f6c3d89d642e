"""Files of a job of many ranks: RANKS ranks of STEPS steps, as each rank writes them and as event files.

Ours are what ``record/telemetry.py`` writes: a record a second of ten steps, with step time, data wait, loss
and memory. The event files hold the same facts as five scalars a step, as a writer per rank leaves them in a
directory of its own. Kept in ``.cache/benchmarks`` between runs.
"""

from __future__ import annotations

import shutil
from math import sin
from pathlib import Path

from logs import CACHE, START

from stepscope.events import EventWriter
from stepscope.events.framing import frame
from stepscope.events.telemetry import END, FACTS, FOLDER, ROWS, Name, TelemetryRow, encoded, encoded_facts

SECONDS_PER_STEP = 0.1
STEPS_PER_RECORD = 10
VARIANTS = 8
TAGS = ("speed/step_time_ms", "speed/data_wait_ms", "train/loss", "system/rss_bytes", "system/device_bytes")


def telemetry(ranks: int, steps: int) -> Path:
    """Return a log directory with one run whose ranks have written those files, made on first use."""
    return made(f"ranks-{ranks}x{steps}", lambda folder: write_telemetry(folder, ranks, steps))


def event_files(ranks: int, steps: int) -> Path:
    """Return a log directory with an event file per rank, each in a directory of its own."""
    return made(f"rank-events-{ranks}x{steps}", lambda folder: write_events(folder, ranks, steps))


def made(name: str, write) -> Path:  # type: ignore[no-untyped-def]
    directory = CACHE / name
    if not directory.exists():
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        print(f"writing {directory.relative_to(CACHE.parent.parent)}", flush=True)
        write(partial)
        partial.rename(directory)
    return directory


def values(rank: int, step: int) -> tuple[float, float, float]:
    """Return step time and data wait in seconds, and loss."""
    seconds = SECONDS_PER_STEP * (1 + 0.02 * sin(step * 0.37 + rank))
    return seconds, 0.1 * seconds, 2.0 / (1 + step * 0.001)


def write_telemetry(directory: Path, ranks: int, steps: int) -> None:
    """Write every rank's file; the steps are those of ``VARIANTS`` ranks, over and over."""
    folder = directory / "job" / FOLDER
    folder.mkdir(parents=True)
    writer = EventWriter(directory / "job", clock=lambda: START)
    writer.scalar("train/loss", 2.0, 0, START)
    writer.close()
    bodies = [records(rank, steps) for rank in range(VARIANTS)]
    end = frame(encoded_facts(END, status="finished", reason=None))
    for rank in range(ranks):
        place = {"rank": rank, "world_size": ranks, "role": "worker" if rank else "chief", "attempt": 1}
        facts = frame(encoded_facts(FACTS, **place, host=f"node{rank // 8}", started=START))
        name = Name("rank", rank, ranks, 1, 0, f"node{rank // 8}", 4000 + rank, 0)
        (folder / str(name)).write_bytes(facts + bodies[rank % VARIANTS] + end)


def records(rank: int, steps: int) -> bytes:
    """Return the records of a rank's steps."""
    parts = []
    for begin in range(0, steps, STEPS_PER_RECORD):
        rows = []
        for step in range(begin, min(begin + STEPS_PER_RECORD, steps)):
            seconds, waited, loss = values(rank, step)
            wall = START + step * SECONDS_PER_STEP
            rows.append((step, TelemetryRow(wall, seconds, waited, loss, has_loss=True, ended=True)))
        parts.append(frame(encoded(ROWS, rows, (3.1e9, 6e10))))
    return b"".join(parts)


def write_events(directory: Path, ranks: int, steps: int) -> None:
    """Write one rank's event file and link the others to it, so that it lies in memory for every reader."""
    first = directory / "rank0000"
    writer = EventWriter(first, clock=lambda: START)
    for step in range(steps):
        seconds, waited, loss = values(0, step)
        wall = START + step * SECONDS_PER_STEP
        for tag, value in zip(TAGS, (1e3 * seconds, 1e3 * waited, loss, 3.1e9, 6e10), strict=True):
            writer.scalar(tag, value, step, wall)
    writer.close()
    for rank in range(1, ranks):
        folder = directory / f"rank{rank:04d}"
        folder.mkdir()
        (folder / writer.path.name).hardlink_to(writer.path)
