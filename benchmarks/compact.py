"""Compact logs into Parquet: points per second, memory, size, and what opening costs before and after.

Ten files, or as many as the last word says, are compacted by the same command that a user types, every value
read back. What is printed for 10^9 points is the time per point of the largest log measured here, times 10^9:
event files are tasks of their own, so time is proportional to points and divided by processes.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILE_POINTS = 5_000_000
TAGS = 20
RECORD = f"""
import sys
import numpy as np
from stepscope.events import EventWriter
dice = np.random.default_rng(int(sys.argv[2]))
writer = EventWriter(sys.argv[1], clock=lambda: 1_700_000_000.0)
for step in range({FILE_POINTS // TAGS}):
    values = dice.normal(size={TAGS})
    writer.scalars([(f"tag{{at}}", float(values[at])) for at in range({TAGS})], step, 1.7e9 + step / 8)
writer.close()
"""
OPEN = """
import json, sys, time
import stepscope as ss
began = time.perf_counter()
with ss.open(sys.argv[1], cache=False) as log:
    points = sum(run.num_points() for run in log.runs())
    opened = time.perf_counter() - began
    began = time.perf_counter()
    found = log.runs()[0].columns("tag7")[0].value
    print(json.dumps([opened, time.perf_counter() - began, points, len(found)]))
"""


def main() -> int:
    """Measure and print."""
    counts = [int(word) for word in sys.argv[1:]] or [2, 8]
    for count in counts:
        with tempfile.TemporaryDirectory(prefix="stepscope-bench-") as folder:
            measure(Path(folder), count)
    return 0


def measure(folder: Path, count: int) -> None:
    """Record so many files, compact them, open both."""
    for number in range(count):
        place = folder / "runs" / f"r{number:03d}"
        subprocess.run([sys.executable, "-c", RECORD, str(place), str(number)], check=True)
        for path in place.iterdir():
            os.utime(path, (1_700_000_000, 1_700_000_000))  # it is not a run that is still written
    words = [
        sys.executable,
        "-m",
        "stepscope",
        "compact",
        str(folder / "runs"),
        str(folder / "out"),
        "--json",
    ]
    began = time.perf_counter()
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    took = time.perf_counter() - began
    found = json.loads(done.stdout)["done"]
    points = sum(each["points"] for each in found)
    before, after = (sum(each[name] for each in found) for name in ("read_bytes", "written_bytes"))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{points:,} points in {count} files, {os.cpu_count()} processes: {took:.1f} s, "
        f"{points / took / 1e6:.2f} million points/s, largest process {peak:,.0f} MiB"
    )
    print(f"  {before / points:.1f} bytes per point became {after / points:.1f}")
    for name in ("runs", "out"):
        opened, column, seen, size = json.loads(
            subprocess.run(
                [sys.executable, "-c", OPEN, str(folder / name)], check=True, capture_output=True, text=True
            ).stdout
        )
        assert seen == points
        print(f"  {name}: opened in {opened:.2f} s, one series of {size:,} points in {1e3 * column:.0f} ms")
    print(
        f"  10^9 points at this pace: {1e9 * took / points / 60:.0f} min with {os.cpu_count()} processes, "
        f"{1e9 * after / points / 1e9:.1f} GB"
    )
    shutil.rmtree(folder / "out")


if __name__ == "__main__":
    sys.exit(main())
