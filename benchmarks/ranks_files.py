"""Profiles of many ranks to who waits for whom, file by file: time and memory by number of ranks, and Ray.

``python benchmarks/ranks_files.py [RANKS] [EVENTS] [--ray]``: a quarter, a half and all of RANKS (1,000) with
EVENTS (100,000) each, one of which computes longer, as gzipped files of a few megabytes together. The
coordinator is a process of its own whose peak memory is taken, without that of its workers. The time must
grow no faster than the number of ranks, and the memory with ranks times collectives alone. The peer is the
first quarter read whole, as one trace. ``--ray`` compares one worker of a Ray cluster that is started here
with two.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLLECTIVES, STEPS, SLOW = 200, 20, 3
MOST_BYTES, BOUND, LINEAR = 2 << 30, 1.7, 1.25
STARTS = 5
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ASK = """
import json, resource, sys, time
from stepscope.job import load_ranks
folder, how = sys.argv[1], json.loads(sys.argv[2])
begun = time.perf_counter()
if how:
    found = load_ranks(folder, cache=False, **how)
else:
    from stepscope.analyze.ranks.job import job_of
    from stepscope.trace import load_trace
    found = job_of(load_trace(folder, cache=False))
seconds = time.perf_counter() - begun
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
                  [each.rank for each in found.stragglers], len(found.ranks)]))
"""


def main() -> int:
    """Measure, and return 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("ranks", type=int, nargs="?", default=1000)
    parser.add_argument("events", type=int, nargs="?", default=100_000)
    parser.add_argument("--ray", action="store_true")
    arguments = parser.parse_args()
    sizes = [arguments.ranks // 4, arguments.ranks // 2, arguments.ranks]
    print(f"load {Path('/proc/loadavg').read_text().split()[0]}")
    right, per_rank = True, []
    with tempfile.TemporaryDirectory() as base:
        for ranks in sizes:
            folder = Path(base) / str(ranks)
            size = write(folder, ranks, arguments.events)
            seconds, peak, named, read = asked(folder, {"processes": os.cpu_count() or 1})
            per_rank.append(seconds / ranks)
            right &= named == [SLOW] and read == ranks and peak < MOST_BYTES
            what = f"{ranks:>5} ranks x {arguments.events:,} events, {size >> 20:,} MiB"
            print(f"{what}: {seconds:.1f} s, coordinator {peak / 2**30:.2f} GiB, slow rank {named}")
        last = Path(base) / str(sizes[-1])
        whole, peak, _, _ = asked(Path(base) / str(sizes[0]), {})
        print(f"{sizes[0]:>5} ranks read whole: {whole:.1f} s, {peak / 2**30:.2f} GiB")
        grows = per_rank[-1] / per_rank[0]
        print(f"a rank takes {grows:.2f} x as long among all as among a quarter (bound {LINEAR})")
        right &= grows < LINEAR
        if arguments.ray:
            one, two = (on_ray(last, count) for count in (1, 2))
            print(f"Ray: one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} x (bound {BOUND})")
            right &= one / two >= BOUND
    return int(not right)


def asked(folder: Path, how: dict[str, object]) -> tuple[float, int, list[int], int]:
    """Return seconds, peak memory of the process that asks, who is named, and how many ranks were read."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(folder), json.dumps(how)], check=True, capture_output=True, text=True
    )
    seconds, peak, named, read = json.loads(done.stdout)
    return seconds, peak, named, read


def waited() -> None:
    """Keep a worker for as long as it takes to start the others."""
    time.sleep(0.5)


def on_ray(folder: Path, workers: int) -> float:
    """Return the seconds that a cluster of so many workers takes, its start left out."""
    import ray

    from stepscope.job import load_ranks

    for left in reversed(range(STARTS)):
        try:
            ray.init(
                address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False,
                object_store_memory=200 << 20,
            )  # fmt: skip
            break
        except Exception as error:
            # Ray gives its own processes 30 s to start, which a busy machine may need.
            if not left or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
    try:
        ray.get([ray.remote(waited).remote() for _ in range(workers)])  # they are there
        begun = time.perf_counter()
        load_ranks(folder, cache=False, ray=True)
        return time.perf_counter() - begun
    finally:
        ray.shutdown()


def write(folder: Path, ranks: int, events: int) -> int:
    """Write the profiles, and return how large they are together."""
    folder.mkdir()
    random = np.random.default_rng(0)
    usual = 1000 * (1 + 0.01 * random.standard_normal((8, COLLECTIVES)))
    arrive_last = np.maximum(usual.max(axis=0), 1400.0)
    size = 0
    bodies = {
        own: body(usual[own] if own < 8 else np.full(COLLECTIVES, 1400.0), arrive_last, events)
        for own in range(9)
    }
    for rank in range(ranks):
        head = json.dumps(
            {
                "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "simulated"}],
                "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
            }
        )[:-1]  # fmt: skip
        path = folder / f"rank{rank}.json.gz"
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(
                head.encode() + b', "traceEvents": [' + bodies[8 if rank == SLOW else rank % 8] + b"]}"
            )
        size += path.stat().st_size
    return size


def body(own: np.ndarray, last: np.ndarray, events: int) -> bytes:
    """Return the events of a rank: kernels that fill its own work, then the collective, step by step."""
    kernels = max(1, events // COLLECTIVES - 2)
    clock, found = 1e6, []
    for number in range(COLLECTIVES):
        if number % (COLLECTIVES // STEPS) == 0:
            begun = clock
        each = own[number] / kernels
        found += [
            event(f"gemm{at % 20}", clock + at * each, each * 0.98, device=0, stream=7)
            for at in range(kernels)
        ]
        more = {
            "Collective name": "allreduce", "Process Group Name": "0", "Seq": number, "dtype": "Float",
            "In msg nelems": 1_000_000, "Out msg nelems": 1_000_000,
        }  # fmt: skip
        length = last[number] - own[number] + 100
        found.append(event(KERNEL, clock + own[number], length, device=0, stream=7, **more))
        clock += last[number] + 100 + 2
        if (number + 1) % (COLLECTIVES // STEPS) == 0:
            step = number // (COLLECTIVES // STEPS)
            found.append(
                {
                    **event(f"ProfilerStep#{step}", begun, clock - begun - 1),
                    "cat": "user_annotation",
                    "pid": 1,
                }
            )
    return json.dumps(found)[1:-1].encode()


def event(name: str, start: float, length: float, **args: object) -> dict[str, object]:
    """Return one event of a device."""
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": round(start, 3),
        "dur": round(length, 3), "args": args,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
