"""The device that is measured: a CUDA GPU, this machine's processor, or the processor as if it were a GPU.

Without a GPU every check runs at a small size, so a mistake in it shows without one. Nothing that is measured
there decides a claim. In the third case stand-ins take the place of ``torch.cuda``, so the lines that a GPU
alone would run do run.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock


class HostEvent:
    """A moment on the host, with the methods of ``torch.cuda.Event``."""

    def __init__(self) -> None:
        self.at = 0.0

    def record(self) -> None:
        """Note the moment."""
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Do nothing: the host has passed it."""

    def query(self) -> bool:
        """Return True: the host has passed it."""
        return True

    def elapsed_time(self, other: HostEvent) -> float:
        """Return the milliseconds until another moment."""
        return 1e3 * (other.at - self.at)


class Device:
    """A place where tensors live, and its clock.

    Args:
        kind: "cuda", "cpu", or "fake", which is the processor with stand-ins for ``torch.cuda``.
        small: Measure at a small size.
        secs: Seconds that the check may take.
    """

    def __init__(self, kind: str, *, small: bool, secs: float) -> None:
        self.kind, self.small, self.secs = kind, small, secs
        self.begun = time.perf_counter()

    @property
    def place(self) -> str:
        """The name by which PyTorch knows the place of tensors."""
        return "cuda" if self.decides else "cpu"

    @property
    def is_gpu(self) -> bool:
        """Whether the lines for a GPU run."""
        return self.kind != "cpu"

    @property
    def decides(self) -> bool:
        """Whether figures decide claims."""
        return self.kind == "cuda"

    @functools.cached_property
    def name(self) -> str:
        """The card's name."""
        import torch

        return str(torch.cuda.get_device_name())

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.secs - (time.perf_counter() - self.begun)

    def size(self, large: int, small: int) -> int:
        """Return a number that depends on whether sizes are small."""
        return small if self.small else large

    def synchronize(self) -> None:
        """Wait until the device has done everything."""
        if self.is_gpu:
            import torch

            torch.cuda.synchronize()

    def event(self) -> Any:
        """Return an event that can be timed."""
        import torch

        return torch.cuda.Event(enable_timing=True) if self.is_gpu else HostEvent()

    def seconds(self, call: Callable[[], object], times: int = 1) -> float:
        """Return the seconds of one call, the device's work included."""
        self.synchronize()
        begun = time.perf_counter()
        for _ in range(times):
            call()
        self.synchronize()
        return (time.perf_counter() - begun) / times

    def paired(
        self, plain: Callable[[], object], other: Callable[[], object], *, secs: float, steps: int
    ) -> tuple[list[float], list[float]]:
        """Return the seconds of a call in blocks that take turns, in the order ABBA, for some seconds."""
        first: list[float] = []
        second: list[float] = []
        end = time.perf_counter() + secs
        self.seconds(plain), self.seconds(other)
        while len(first) < 4 or time.perf_counter() < end:
            order = ((plain, first), (other, second))
            for call, times in order if len(first) % 2 == 0 else order[::-1]:
                times.append(self.seconds(call, steps))
        return first, second


def stand_ins() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which ``torch.cuda`` answers without a GPU, on the processor."""
    import torch

    nothing: dict[str, Any] = dict.fromkeys(
        ("synchronize", "empty_cache", "reset_peak_memory_stats"), lambda *_: None
    )
    stream = SimpleNamespace(wait_stream=lambda other: None)
    replaced = nothing | {
        "Event": lambda enable_timing=False: HostEvent(),
        "get_device_name": lambda *_: "stand-in",
        "max_memory_allocated": lambda *_: SNAPSHOT_PEAK,
        "mem_get_info": lambda *_: (1 << 20, 1 << 21),
        "Stream": lambda: stream,
        "current_stream": lambda *_: stream,
        "stream": contextlib.nullcontext,
        "graph": contextlib.nullcontext,
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None),
    }
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.multiple(torch.cuda, **replaced))
    memory = {"_record_memory_history": lambda **_: None, "_dump_snapshot": made_snapshot}
    stack.enter_context(mock.patch.multiple(torch.cuda.memory, **memory))
    return stack


SNAPSHOT_PEAK = 4096 + 8192 + 65536


def made_snapshot(path: str) -> None:
    """Write a snapshot of the allocator with four allocations, of which one is freed."""
    address = 1 << 20
    history: list[dict[str, Any]] = []

    def event(action: str, size: int, at: int) -> None:
        history.append({
            "action": action, "addr": at, "size": size, "stream": 0, "time_us": len(history),
            "frames": [{"filename": "train.py", "line": 1 + len(history), "name": "step"}],
        })  # fmt: skip

    event("segment_alloc", 1 << 20, address)
    for number, size in enumerate((4096, 8192, 65536)):
        event("alloc", size, address + (number << 17))
    event("free_requested", 65536, address + (2 << 17))
    event("free_completed", 65536, address + (2 << 17))
    event("alloc", 1024, address + (3 << 17))
    blocks = [{"size": size, "requested_size": size, "state": "active_allocated", "address": address}
              for size in (4096, 8192, 1024)]  # fmt: skip
    segment = {
        "device": 0, "address": address, "total_size": 1 << 20, "allocated_size": 13312, "active_size": 13312,
        "stream": 0, "segment_type": "large", "blocks": blocks,
    }  # fmt: skip
    Path(path).write_bytes(pickle.dumps({"segments": [segment], "device_traces": [history]}))


def ratio(plain: Sequence[float], other: Sequence[float]) -> float:
    """Return the median of other over plain, by pair."""
    return statistics.median(one / two for one, two in zip(other, plain, strict=True))


def spread(plain: Sequence[float], other: Sequence[float]) -> list[float]:
    """Return the quartiles of other over plain, by pair."""
    found = sorted(one / two for one, two in zip(other, plain, strict=True))
    return [round(found[len(found) // 4], 4), round(found[-1 - len(found) // 4], 4)]
