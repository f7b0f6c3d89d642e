"""A recorded step of eight ranks to who waits for whom, beside HTA's breakdown and straggler calls.

``python benchmarks/ranks_traces.py [DIR] [--hta PYTHON] [--rounds N]``. Ours is ``load_ranks``: clocks,
waits, blame, what-if. HTA's are ``TraceAnalysis``, ``get_temporal_breakdown`` and
``get_potential_stragglers``; it needs an environment of its own, which ``--hta`` or ``STEPSCOPE_HTA_PYTHON``
names. Every measurement is a process of its own and reads the files, no cache; times without imports are
beside those of whole processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from profiles import shared

OURS = """
import sys, time
import importlib, numpy.ma, pkgutil
import stepscope.analyze.ranks, stepscope.attribute.sampled, stepscope.analyze.parameter_server
import stepscope.trace.chrome_file, stepscope.trace.load, stepscope.trace.ranks
for each in pkgutil.iter_modules(stepscope.analyze.ranks.__path__, "stepscope.analyze.ranks."):
    importlib.import_module(each.name)
from stepscope.job import load_ranks
start = time.perf_counter()
found = load_ranks(sys.argv[1])
print(time.perf_counter() - start)
worst = max({blame.rank for blame in found.blame},
    key=lambda rank: sum(blame.wait_caused_ns for blame in found.blame if blame.rank == rank))
print("rank", worst)
"""
HTA = """
import logging, sys, time
from hta.trace_analysis import TraceAnalysis
logging.disable(logging.CRITICAL)
start = time.perf_counter()
found = TraceAnalysis(trace_dir=sys.argv[1])
found.get_temporal_breakdown(visualize=False)
ranks = found.get_potential_stragglers()
print(time.perf_counter() - start)
print("ranks", *ranks)
"""
BOUND = 5


def main() -> int:
    """Measure both several times and print medians and ratios; return 1 where the bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?", default=shared("traces/dlrm_8xv100"))
    parser.add_argument("--hta", default=os.environ.get("STEPSCOPE_HTA_PYTHON", ""))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if arguments.folder is None:
        parser.error("the recordings of eight ranks are not here: name a folder of traces")
    readers = {"stepscope": (sys.executable, OURS)}
    if arguments.hta:
        readers["HTA"] = (arguments.hta, HTA)
    else:
        print("HTA: not measured, give --hta or STEPSCOPE_HTA_PYTHON")
    medians = {name: median(reader, arguments) for name, reader in readers.items()}
    for name, (alone, process, said) in medians.items():
        print(f"{name:<10} {alone:.3f} s without imports, {process:.3f} s as a process: {said}")
    if "HTA" not in medians:
        return 0
    ratio, of_processes = (
        theirs / ours for theirs, ours in zip(medians["HTA"][:2], medians["stepscope"][:2], strict=True)
    )
    print(f"HTA takes {ratio:.1f} x ours without imports, {of_processes:.1f} x as a process (bound {BOUND})")
    return int(ratio < BOUND)


def median(reader: tuple[str, str], arguments: argparse.Namespace) -> tuple[float, float, str]:
    """Return seconds without imports and of the whole process, medians, and what was found."""
    results = [measured(*reader, arguments.folder) for _ in range(arguments.rounds)]
    alone, process = (statistics.median(each[number] for each in results) for number in (0, 1))
    return alone, process, results[0][2]


def measured(python: str, program: str, recorded: Path) -> tuple[float, float, str]:
    """Run one reader on a fresh copy of the files, so that no cache beside them answers.

    Both may keep their bytecode, as an installed package does.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        for path in traces(recorded):
            shutil.copy(path, folder)
        begun = time.perf_counter()
        done = subprocess.run(
            [python, "-c", program, folder], capture_output=True, text=True, check=True, env=environment
        )
        process = time.perf_counter() - begun
    seconds, said = done.stdout.strip().splitlines()[-2:]
    return float(seconds), process, said


def traces(folder: Path) -> Sequence[Path]:
    """Return the ranks' files."""
    return sorted(folder.glob("[!.]*.json*"))


if __name__ == "__main__":
    sys.exit(main())
