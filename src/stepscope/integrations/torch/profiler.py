"""Captures steps with ``torch.profiler`` into Kineto JSON, as TensorBoard, Perfetto and HTA read it too."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from isal import igzip

from stepscope.capture.backend import CaptureOptions, Export, Exported, resident_facts
from stepscope.capture.processes import ProcessSpans, processes, trace_events
from stepscope.errors import CaptureError
from stepscope.integrations.torch import snapshot
from stepscope.integrations.torch.modules import ModuleScopes
from stepscope.integrations.torch.values import Values


def cuda_in_use() -> bool:
    """Return whether the program uses a CUDA device, without initializing it."""
    cuda: Any = torch.cuda
    return bool(cuda.is_available() and cuda.is_initialized())


def memory_facts() -> dict[str, int]:
    """Return bytes by name: ``resident_bytes`` and, of the current device, the bytes of the allocator.

    The peak is the program's own: it is not reset here, because the program may be watching it.
    """
    facts = resident_facts()
    if cuda_in_use():
        facts["allocated_bytes"] = int(torch.cuda.memory_allocated())
        facts["reserved_bytes"] = int(torch.cuda.memory_reserved())
        facts["peak_allocated_bytes"] = int(torch.cuda.max_memory_allocated())
    return facts


_autograd: Any = torch.autograd  # the parts used here carry no types
LEVEL = 1
"""Level of gzip: a trace shrinks to a tenth at any level."""
_DEVICE_WORK = b'"kernel"'
_NO_DEVICE_WORK = (
    "the program uses a CUDA device, but no work on it was recorded: the driver may keep its counters from "
    "users (NVreg_RestrictProfilingToAdminUsers), or another tool may hold them"
)


def make_backend() -> TorchProfiler:
    """Return the backend."""
    return TorchProfiler()


class TorchProfiler:
    """One recording after the other."""

    name, format, ending = "torch", "kineto", ".pt.trace.json.gz"

    def __init__(self) -> None:
        self._profile: Any = None
        self._scopes: ModuleScopes | None = None
        self._values = Values()
        self._started = False
        self._snapshot = False
        self._wanted = CaptureOptions()
        self._began_ns = 0

    def start(self, wanted: CaptureOptions) -> None:
        """Begin to record, or with warm-up steps prepare to.

        Raises:
            CaptureError: Another recording is under way in this process.
        """
        if _autograd._profiler_enabled() or _autograd.profiler._is_profiler_enabled:
            raise CaptureError(
                "another profiler is already active in this process",
                hint="torch.profiler runs once at a time; remove one of the two",
            )
        self._wanted, self._began_ns = wanted, time.time_ns()
        self._profile = torch.profiler.profile(
            activities=activities(),
            record_shapes=wanted.record_shapes,
            profile_memory=wanted.show_memory,
            with_stack=wanted.with_stack,
            experimental_config=settings(trace_only=not wanted.with_stack),
        )
        self._started, self._values = False, Values()
        self._snapshot = wanted.memory_snapshot and cuda_in_use()
        if self._snapshot:
            snapshot.record_history(True)
        with quiet():
            prepare(self._profile)
            if not wanted.warmup_steps:
                self._begin()

    def _begin(self) -> None:
        wanted = self._wanted
        self._profile.start_trace()
        self._started = True
        if wanted.world_size > 1 and not (
            torch.distributed.is_available() and torch.distributed.is_initialized()
        ):
            facts = {"rank": wanted.rank, "world_size": wanted.world_size}
            self._profile.add_metadata_json("distributedInfo", json.dumps(facts))
        if wanted.modules and not wanted.with_stack:  # with stacks PyTorch records modules itself
            self._scopes = ModuleScopes()
            self._scopes.open()

    def mark(self, step: int) -> AbstractContextManager[Any]:
        """Return a context that records a step; the first ends the warm-up."""
        if self._profile is not None and not self._started:
            with quiet():
                self._begin()
        mark: AbstractContextManager[Any] = torch.profiler.record_function(f"ProfilerStep#{step}")
        return mark

    def span(self, name: str) -> AbstractContextManager[Any]:
        """Return a context that is recorded under a name."""
        span: AbstractContextManager[Any] = torch.profiler.record_function(name)
        return span

    def memory(self) -> dict[str, int]:
        """Return the memory in use, in bytes."""
        return memory_facts()

    def look(self) -> AbstractContextManager[Any]:
        """Return a context that follows the values of a step."""
        return self._values.step()

    def values(self) -> dict[str, Any]:
        """Return the calls whose work was needless; asked before ``stop``."""
        followed, self._values = self._values, Values()  # it refers to all calls of two steps
        facts = [one._asdict() for one in followed.facts()]
        return {"calls": followed.calls, "facts": facts, "stopped": followed.stopped}

    def settings(self) -> dict[str, str]:
        """Return what the calls of models told of them; asked before ``stop``."""
        return {} if self._scopes is None else self._scopes.settings()

    def stop(self) -> Export:
        """End recording; slow work is left to the export.

        A device is waited for, as the work of the last step would be missing otherwise.
        """
        profile, scopes = self._profile, self._scopes
        begun, self._profile, self._scopes = self._started, None, None
        if scopes is not None:
            scopes.close()
        if not begun:
            profile.start_trace()  # what was prepared can only be ended after a start
        synchronize()
        _autograd.profiler._run_on_profiler_stop()
        result = _autograd._disable_profiler() if _autograd._profiler_enabled() else None
        on_device, began = cuda_in_use(), self._began_ns
        with_snapshot, asked = self._snapshot, self._wanted.memory_snapshot
        notes: list[str] = []

        def export(path: Path) -> Exported:
            plain = path.with_name(f".{path.name.removesuffix('.gz')}")
            plain.touch()
            try:
                if result is None:  # an empty result cannot be saved: PyTorch would end the process
                    raise CaptureError(
                        "the recording was ended by another profiler in this process",
                        hint="do not run the other profiler while a step is captured",
                    )
                result.save(str(plain))
                if on_device and not contains(plain, _DEVICE_WORK):
                    notes.append(_NO_DEVICE_WORK)
                compress(plain, path, join(plain, processes.during(began)))
            finally:
                with contextlib.suppress(OSError):
                    plain.unlink()
                if scopes is not None:
                    scopes.forget()
            extra = {}
            if with_snapshot:
                place = path.with_name(path.name.removesuffix(self.ending) + snapshot.ENDING)
                extra["memory_snapshot"] = snapshot.dump(place).name
                snapshot.record_history(False)
            elif asked:
                notes.append("no snapshot of the allocator: the program uses no CUDA device")
            return Exported(path, notes=notes, extra=extra)

        return export

    def watch_out_of_memory(self, place: Callable[[], Path], listener: Callable[[Path], object]) -> bool:
        """Write a snapshot whenever the device is out of memory, until ``forget_out_of_memory``."""
        return snapshot.out_of_memory.watch(self, place, listener)

    def forget_out_of_memory(self) -> None:
        """Write no more snapshots."""
        snapshot.out_of_memory.forget(self)


class _WithoutInductor:
    """``torch``, without the one attribute."""

    def __getattr__(self, name: str) -> Any:
        if name == "_inductor":
            raise AttributeError(name)
        return getattr(torch, name)


def prepare(profile: Any) -> None:
    """Prepare a recording, but do not import the compiler for it.

    PyTorch asks the compiler for one setting, so the first recording of a program that compiles nothing would
    stop training for the seconds that this import takes. The same code is run on a ``torch`` that has no
    compiler.
    """
    original = type(profile).prepare_trace
    if "torch._inductor" in sys.modules or getattr(original, "__code__", None) is None:
        profile.prepare_trace()
        return
    seen = {**original.__globals__, "torch": _WithoutInductor()}
    FunctionType(original.__code__, seen)(profile)


def activities() -> list[Any]:
    """Return the activities that can be recorded here: the host, and a device that the program uses."""
    chosen = [torch.profiler.ProfilerActivity.CPU]
    if cuda_in_use():
        chosen.append(torch.profiler.ProfilerActivity.CUDA)
    return chosen


def settings(*, trace_only: bool) -> Any:
    """Return PyTorch's experimental settings, as far as this version knows them."""
    make: Any = torch._C._profiler._ExperimentalConfig
    wanted = {"trace_only": trace_only, "enable_cuda_sync_events": True}
    for known in range(len(wanted) + 1):  # the newest stand first
        with contextlib.suppress(TypeError):
            return make(**dict(list(wanted.items())[known:]))
    return None


def synchronize() -> None:
    """Wait for the device, if there is one in use."""
    if cuda_in_use():
        torch.cuda.synchronize()


def contains(path: Path, text: bytes) -> bool:
    """Return whether a file contains a text."""
    rest = b""
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            if text in rest + piece:
                return True
            rest = piece[-len(text) :]
    return False


Joined = tuple[int, bytes]
"""Text that is inserted into a file as it is written, and the number of bytes before it."""
_EVENTS = re.compile(rb'"traceEvents":\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds":\s*(\d+)')
_HEAD_BYTES = 1 << 16


def join(plain: Path, processes: list[ProcessSpans]) -> Joined:
    """Return the spans of other processes as part of a Kineto file; nothing if its header is unusual."""
    if not processes:
        return 0, b""
    with plain.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    events, base = _EVENTS.search(head), _BASE.search(head)
    if events is None or base is None:
        return 0, b""
    return events.end(), json.dumps(trace_events(processes, int(base[1])))[1:-1].encode() + b","


def compress(plain: Path, path: Path, joined: Joined = (0, b"")) -> None:
    """Compress a file, with something put into it; the interpreter's lock is released while it does."""
    packed: Any = igzip
    at, text = joined
    with plain.open("rb") as source, packed.open(path, "wb", compresslevel=LEVEL) as target:
        target.write(source.read(at) + text)
        shutil.copyfileobj(source, target, 1 << 20)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide PyTorch's advice to callers of its profiler from the user, who did not call it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
