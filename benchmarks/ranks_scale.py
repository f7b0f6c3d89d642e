"""The telemetry of RANKS ranks of STEPS steps with six stages: how long to the verdict, in how much memory.

One rank's forward takes longer from half of the steps on. The time is that of ``load_ranks`` in a process of
its own, reading included; the peer is polars reading the same numbers from one Parquet file and giving the
mean of each stage by rank, which names nobody. The files are read twice, so that no more than the table of
all stages is in memory at once.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from logs import START
from rank_files import made

from stepscope.events.framing import frame
from stepscope.events.telemetry import FACTS, FOLDER, ROWS, Name, TelemetryRow, encoded, encoded_facts

RANKS, STEPS = (int(word) for word in (sys.argv[2:4] or (1000, 10_000)))
STAGES = ["copy", "forward", "backward", "optimizer"]
TYPICAL_S = np.array([1.0, 1.0, 20.0, 40.0, 5.0]) / 1e3
SLOW, VARIANTS, STEPS_PER_RECORD = 7, 8, 10
BOUND_S, BOUND_GIB = 5.0, 0.5
"""Processor time, which the load of the machine changes little, and peak memory of the whole process."""


def main() -> int:
    """Measure both, each in a process of its own."""
    folder = made(f"ranks-staged-{RANKS}x{STEPS}", write)
    size = sum(path.stat().st_size for path in (folder / "job" / FOLDER).iterdir())
    print(f"{RANKS:,} ranks x {STEPS:,} steps, {size / RANKS / STEPS:.1f} bytes a step and rank")
    results = {}
    for what in ("verdict", "means"):
        done = subprocess.run(
            [sys.executable, __file__, what, str(RANKS), str(STEPS)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        seconds, processor, peak, said = done.stdout.strip().split(maxsplit=3)
        results[what] = float(processor), float(peak)
        print(
            f"{what:<8} {float(seconds):>6.1f} s, {float(processor):.1f} s of a processor, "
            f"peak {float(peak):.2f} GiB: {said}"
        )
    took, peak = results["verdict"]
    print(f"polars' means take {results['means'][0] / took:.2f} of its processor time")
    print(f"bounds: {BOUND_S} s of a processor, {BOUND_GIB} GiB")
    return int(took > BOUND_S or peak > BOUND_GIB)


def measured(what: str) -> None:
    """Print seconds, those of a processor, peak memory in GiB, and what was found."""
    folder = made(f"ranks-staged-{RANKS}x{STEPS}", write)
    begun, before = time.perf_counter(), time.process_time()
    said = {"verdict": verdict, "means": means}[what](folder)
    seconds, processor = time.perf_counter() - begun, time.process_time() - before
    print(seconds, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, said)


def verdict(folder: Path) -> str:
    """Return who is slow and since when."""
    from stepscope.job import load_ranks

    found = load_ranks(folder / "job").frontier
    assert found is not None
    return ", ".join(
        f"rank {stage.leader} in {stage.stage} since {stage.since}"
        for stage in found.stages
        if stage.label == "persistent"
    )


def means(folder: Path) -> str:
    """Return the rank with the longest mean step."""
    import polars as pl

    table = pl.scan_parquet(folder / "job.parquet").group_by("rank").mean().collect()
    return f"rank {table.sort(table.columns[2])['rank'][-1]} has the longest mean"


def write(directory: Path) -> None:
    """Write the ranks' files, and one table with the same numbers."""
    import polars as pl

    folder = directory / "job" / FOLDER
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    columns = []
    for rank in range(RANKS):
        if rank < VARIANTS or rank == SLOW:
            taken = TYPICAL_S * random.lognormal(0, 0.02, (STEPS, len(TYPICAL_S)))
            if rank == SLOW:
                taken[STEPS // 2 :, 2] += 0.02
            total = taken.sum(axis=1)
            columns.append((taken, total))
    longest = np.max([total for _, total in columns], axis=0)
    bodies = []
    for taken, total in columns:
        waited = taken.copy()
        waited[:, 3] += longest - total  # the others wait in backward
        bodies.append((records(waited), waited))
    tables = []
    for rank in range(RANKS):
        body, waited = bodies[rank if rank < VARIANTS else rank % (VARIANTS - 1)]
        facts = encoded_facts(FACTS,
            rank=rank, world_size=RANKS, attempt=1, host=f"node{rank // 8}", stages=STAGES,
            stage_order=[1, 2, 3, 4], started=START,
        )  # fmt: skip
        name = Name("rank", rank, RANKS, 1, 0, f"node{rank // 8}", 4000 + rank, 0)
        (folder / str(name)).write_bytes(frame(facts) + body)
        tables.append(
            pl.DataFrame(waited.astype(np.float32), schema=["data", *STAGES]).with_columns(rank=pl.lit(rank))
        )
    pl.concat(tables).write_parquet(directory / "job.parquet")


def records(taken: np.ndarray) -> bytes:
    """Return the records of a rank's steps."""
    parts = []
    for begin in range(0, len(taken), STEPS_PER_RECORD):
        rows = []
        for step in range(begin, min(begin + STEPS_PER_RECORD, len(taken))):
            seconds = float(taken[step].sum()) + 0.001
            spent = (0.001, *taken[step, 1:].tolist())
            row = TelemetryRow(START + step * 0.07, seconds, float(taken[step, 0]), ended=True, spent=spent)
            rows.append((step, row))
        parts.append(frame(encoded(ROWS, rows, (3.1e9, 6e10), len(STAGES))))
    return b"".join(parts)


if __name__ == "__main__":
    if sys.argv[1:]:
        measured(sys.argv[1])
    else:
        sys.exit(main())
