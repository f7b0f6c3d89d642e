"""Jobs with a planted cause, told from profiles of their ranks; healthy ones that are accused.

Each job has 4 to 16 ranks on nodes of two or four, whose clocks are off by up to a second and drift. A step
loads, then computes and exchanges in some buckets, within the node and then among all; a collective ends for
all when the last has come. One cause of random size begins somewhere: a slow device, a slow loader, slow
Python code on one rank, a link that slows one node's own exchange, a loader that is held up on changing
ranks, or none. The peer is the rank whose own collectives are shortest, as HTA's straggler call has it.

``python benchmarks/ranks_traces_seeded.py [FIRST_SEED] [JOBS]``: other seeds are jobs that no rule was tried
on. JOBS of each cause, and five times as many healthy ones.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepscope.job import load_ranks

Floats = npt.NDArray[np.float64]
CAUSES = ("device", "loader", "python", "link", "wandering", "none")
STREAM, THREAD, LAUNCH_US = 7, 100, 3.0
BOUND, ALARMS = 0.98, 0.02
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
TOLD = {"computing": "device", "data loading": "loader", "Python": "python"}


def main() -> int:
    """Tell the causes of all jobs, and say how many were right."""
    words = sys.argv[1:3]
    first, jobs = int([*words, "0"][0]), int(words[1]) if len(words) > 1 else 40
    right, peer, accused, healthy = Counter[str](), Counter[str](), 0, 0
    for number, cause in enumerate(CAUSES):
        for seed in range(first, first + jobs * (5 if cause == "none" else 1)):
            with tempfile.TemporaryDirectory() as folder:
                planted, shortest = write(cause, np.random.default_rng([number, seed]), Path(folder))
                told = verdict(Path(folder))
            right[cause] += told == (cause, planted)
            peer[cause] += cause in TOLD.values() and shortest == planted
            if cause == "none":
                healthy, accused = healthy + 1, accused + (told[0] != "none")
            if told != (cause, planted):
                print(f"  missed: {cause} {seed}, planted {planted}, told {told}")
    named = [cause for cause in CAUSES if cause != "none"]
    for cause in named:
        beside = f", shortest collectives: {peer[cause]}" if cause in TOLD.values() else ""
        print(f"{cause:<10} right {right[cause]:>3} of {jobs:>3}{beside}")
    share, false = sum(right[cause] for cause in named) / (jobs * len(named)), accused / healthy
    print(
        f"cause and rank first in {100 * share:.1f} % of {jobs * len(named)} jobs (bound {100 * BOUND:.0f} %)"
    )
    print(f"false alarms in {100 * false:.1f} % of {healthy} healthy jobs (bound {100 * ALARMS:.0f} %)")
    return int(share < BOUND or false > ALARMS)


def verdict(folder: Path) -> tuple[str, object]:
    """Return the cause that is told first, in the words of ``CAUSES``, and the rank or group."""
    found = load_ranks(folder, cache=False)
    if found.stragglers:
        rank = found.stragglers[0].rank
        causes = [row.cause for row in found.blame if row.rank == rank]
        return TOLD.get(causes[0], causes[0]), rank
    if found.slow_groups:
        return "link", found.slow_groups[0].group
    if found.shared is not None:
        return ("wandering" if found.shared.cause == "data loading" else found.shared.cause), None
    return "none", None


def write(cause: str, random: np.random.Generator, folder: Path) -> tuple[object, int]:
    """Write the ranks' profiles; return who is at fault, and whose collectives are shortest."""
    node = int(random.choice([2, 4]))
    ranks = node * int(random.choice([2, 3, 4]) if node == 4 or cause != "link" else random.choice([3, 4, 6]))
    if cause == "link" and ranks // node < 3:
        ranks = 3 * node
    steps, buckets = int(random.integers(12, 24)), int(random.integers(2, 5))
    noise = random.uniform(0.005, 0.03)
    compute = 1500 * random.lognormal(0, noise, (steps, buckets, ranks))
    load = 200 * random.lognormal(0, noise, (steps, ranks))
    python = np.full((steps, ranks), 40.0)
    inner = np.full((steps, buckets, ranks // node), 120.0)
    step_us = 200 + buckets * 1900
    worth, begin = step_us * random.uniform(0.1, 0.5), int(random.integers(0, steps // 3))
    rank = int(random.integers(ranks))
    planted: object = rank
    if cause == "device":
        compute[begin:, :, rank] *= 1 + worth / (1500 * buckets)
    elif cause == "loader":
        load[begin:, rank] += worth
    elif cause == "python":
        python[begin:, rank] += worth
    elif cause == "wandering":
        late = random.permutation(steps)[: max(4, round(steps * random.uniform(0.3, 0.6)))]
        load[late, random.permutation(np.arange(len(late)) % ranks)] += worth * 3
        planted = None
    elif cause == "link":
        slow = int(random.integers(ranks // node))
        inner[:, :, slow] *= random.uniform(2, 8)
        planted = f"node{slow}"
    else:
        planted = None
    return planted, simulate(random, folder, node, compute, load, python, inner)


def simulate(
    random: np.random.Generator, folder: Path, node: int, compute: Floats, load: Floats, python: Floats,
    inner: Floats,
) -> int:  # fmt: skip
    """Play a job and write what PyTorch's profiler would have recorded of it."""
    steps, buckets, ranks = compute.shape
    offset, drift = random.uniform(-1e5, 8e5, ranks), random.uniform(-5e-5, 5e-5, ranks)
    offset[0] = drift[0] = 0.0
    events: list[list[dict[str, object]]] = [[] for _ in range(ranks)]
    spent, number, correlation = np.zeros(ranks), Counter[str](), 0
    clock = np.zeros(ranks)

    def add(
        rank: int, name: str, category: str, start: float, end: float, thread: int = THREAD, **args: object
    ) -> None:
        skewed = 1e6 + start + offset[rank] + drift[rank] * start
        events[rank].append(
            {
                "ph": "X", "cat": category, "name": name, "pid": int(category != "kernel"), "tid": thread,
                "ts": round(skewed, 3), "dur": round((end - start) * (1 + drift[rank]), 3), "args": args,
            }
        )  # fmt: skip

    for step in range(steps):
        begun = clock.copy()
        for rank in range(ranks):
            loaded = clock[rank] + load[step, rank]
            add(
                rank,
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                "user_annotation",
                clock[rank],
                loaded,
            )
            clock[rank] = loaded + python[step, rank]
            add(rank, "train.py(41): augment", "python_function", loaded, clock[rank])
        host = clock.copy()
        for bucket in range(buckets):
            arrive = clock + compute[step, bucket]
            for rank in range(ranks):
                correlation += 1
                add(
                    rank,
                    "cudaLaunchKernel",
                    "cuda_runtime",
                    host[rank],
                    host[rank] + LAUNCH_US,
                    correlation=correlation,
                )
                add(rank, "gemm", "kernel", max(clock[rank], host[rank] + LAUNCH_US), arrive[rank], STREAM,
                    device=0, stream=STREAM, correlation=correlation)  # fmt: skip
                host[rank] += 2 * LAUNCH_US
            for group, members, transfer in [
                *(
                    (f"node{n}", list(range(n * node, n * node + node)), inner[step, bucket, n])
                    for n in range(ranks // node)
                ),
                ("all", list(range(ranks)), 150.0),
            ]:
                number[group] += 1
                end = arrive[members].max() + transfer * random.lognormal(0, 0.03)
                for rank in members:
                    correlation += 1
                    leaves = end + 2 * random.random()
                    add(
                        rank,
                        "cudaLaunchKernelExC",
                        "cuda_runtime",
                        host[rank],
                        host[rank] + LAUNCH_US,
                        correlation=correlation,
                    )
                    host[rank] += 2 * LAUNCH_US
                    add(rank, KERNEL, "kernel", arrive[rank], leaves, STREAM, device=0, stream=STREAM,
                        correlation=correlation, Seq=number[group], dtype="Float",
                        **{"Collective name": "allreduce", "Process Group Name": group,
                           "Group size": len(members), "In msg nelems": 1_000_000,
                           "Out msg nelems": 1_000_000})  # fmt: skip
                    spent[rank] += leaves - arrive[rank]
                arrive[members] = end + 2
            clock = arrive
        clock = np.maximum(clock, host)
        for rank in range(ranks):
            add(rank, f"ProfilerStep#{step}", "user_annotation", begun[rank], clock[rank] - 0.5)
    for rank in range(ranks):
        document = {
            "traceEvents": events[rank], "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
            "deviceProperties": [{"id": 0, "name": "simulated"}],
        }  # fmt: skip
        (folder / f"rank{rank}.json").write_text(json.dumps(document))
    return int(spent.argmin())


if __name__ == "__main__":
    sys.exit(main())
