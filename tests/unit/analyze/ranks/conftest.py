"""A job whose ranks are simulated: own work, collectives that end together, clocks, and a planted cause."""

import json

import numpy as np
import pytest

from stepscope.trace.load import load_trace

STREAM, THREAD = 7, 100


class Simulated:
    """Profiles of the ranks of one data-parallel job, as PyTorch writes them.

    Each step loads data on the host, then computes and all-reduces ``buckets`` times. The host launches ahead
    of the device; a collective ends on all ranks when the last one has come and the transfer is done.
    """

    def __init__(self, ranks=4, steps=8, buckets=4, seed=0, noise=0.02):
        self.ranks, self.steps, self.buckets = ranks, steps, buckets
        self.random = np.random.default_rng(seed)
        shape = (steps, buckets, ranks)
        self.compute = 1000 * (1 + noise * self.random.standard_normal(shape))  # us
        self.load = 50 * (1 + noise * self.random.standard_normal((steps, ranks)))
        self.finish = np.zeros((steps, ranks))  # us; after the last collective of each step
        self.transfer = 100.0
        self.offset, self.drift = np.zeros(ranks), np.zeros(ranks)
        self.leave_out = ()
        self.world_size = ranks
        self.sequences = True
        self.host = None
        self.exit = 2.0  # us; how far apart ranks leave a collective

    def write(self, folder):
        events = [[] for _ in range(self.ranks)]
        ready = np.zeros(self.ranks)
        number, correlation = 0, 0
        for step in range(self.steps):
            begin = ready.copy()
            clock = ready + self.load[step]
            for rank in range(self.ranks):
                name, length = "enumerate(DataLoader)#__next__", self.load[step, rank]
                self._event(events[rank], rank, name, "user_annotation", begin[rank], length)
            for bucket in range(self.buckets):
                number += 1
                arrive = clock + self.compute[step, bucket]
                end = arrive.max() + self.transfer
                for rank in range(self.ranks):
                    correlation += 2
                    leaves = end + self.exit * self.random.random()
                    self._launch(events[rank], rank, clock[rank], correlation, "cudaLaunchKernel")
                    self._kernel(events[rank], rank, "gemm", clock[rank], arrive[rank], correlation)
                    self._launch(events[rank], rank, clock[rank] + 2, correlation + 1, "cudaLaunchKernelExC")
                    more = {
                        "Collective name": "allreduce", "Process Group Name": "0",
                        "Group size": self.world_size, "In msg nelems": 1_000_000,
                        "Out msg nelems": 1_000_000, "dtype": "Float",
                    }  # fmt: skip
                    if self.sequences:
                        more["Seq"] = number
                    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                    self._kernel(events[rank], rank, name, arrive[rank], leaves, correlation + 1, more)
                clock = np.full(self.ranks, end + self.exit)
            for rank in np.flatnonzero(self.finish[step]).tolist():
                name, length = "Optimizer.step#SGD.step", self.finish[step, rank]
                self._event(events[rank], rank, name, "user_annotation", clock[rank], length)
            ready = clock + self.finish[step]
            for rank in range(self.ranks):
                self._event(events[rank], rank, f"ProfilerStep#{step}", "user_annotation", begin[rank],
                            ready[rank] - begin[rank] - 1)  # fmt: skip
        self.step_us = float(ready.max()) / self.steps
        for rank in range(self.ranks):
            if rank in self.leave_out:
                continue
            content = {
                "traceEvents": events[rank],
                "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": self.world_size},
                "deviceProperties": [{"id": 0, "name": "simulated"}],
                "schemaVersion": 1,
            }
            if self.host is not None:
                content |= {"host_name": self.host, "baseTimeNanoseconds": 1_700_000_000_000_000_000}
            (folder / f"rank{rank}.json").write_text(json.dumps(content))
        return load_trace(folder, cache=False)

    def _event(self, events, rank, name, category, start, length, thread=THREAD, args=None):
        skewed = start + self.offset[rank] + self.drift[rank] * start
        events.append(
            {
                "ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread,
                "ts": round(1e6 + skewed, 3), "dur": round(length, 3), "args": args or {},
            }
        )  # fmt: skip

    def _launch(self, events, rank, at, correlation, name):
        args = {"correlation": correlation}
        self._event(events, rank, name, "cuda_runtime", at, 1, args=args)

    def _kernel(self, events, rank, name, start, end, correlation, more=None):
        args = {"device": 0, "stream": STREAM, "correlation": correlation} | (more or {})
        self._event(events, rank, name, "kernel", start, end - start, STREAM, args)
        events[-1]["pid"] = 0


@pytest.fixture
def simulated():
    return Simulated
