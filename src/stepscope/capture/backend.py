"""Backends of captures: the interface between a hook and the profiler of a framework.

A backend has two methods, ``start`` and ``stop``. It is asked on the training thread, so both are quick:
whatever takes long goes into the ``Export`` that ``stop`` returns, which runs on a thread of its own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from stepscope.errors import CaptureError
from stepscope.record.memory import resident_bytes


@dataclass(frozen=True)
class CaptureOptions:
    """The options of a recording.

    Attributes:
        show_dataflow: Which operator made another's input, if that is optional.
        show_memory: Allocations.
        record_shapes: Shapes of operators' inputs.
        with_stack: Python stacks.
        modules: A scope for each module.
        sample_stacks: Sample the stack of the training thread every millisecond.
        values: Follow the values of two more steps.
        rank: Number of this process.
        world_size: Number of processes.
        warmup_steps: Steps between ``start`` and the first ``mark``, whose events need not be kept.
        memory_snapshot: Also a snapshot of the device's allocator, if there is one.
    """

    show_dataflow: bool = True
    show_memory: bool = False
    record_shapes: bool = False
    with_stack: bool = False
    modules: bool = True
    sample_stacks: bool = True
    values: bool = True
    rank: int = 0
    world_size: int = 1
    warmup_steps: int = 0
    memory_snapshot: bool = False


@dataclass
class Exported:
    """The files that an export wrote.

    Attributes:
        path: The profile: a file, or a directory that one opens as a whole.
        dropped: Events that were not kept, by reason.
        notes: Notes for the reader.
        extra: Further facts, JSON.
    """

    path: Path
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


Export = Callable[[Path], Exported]
"""Writes the captured events to the path that was claimed for it, off the training thread."""


class Backend(Protocol):
    """A profiler of a framework.

    Attributes:
        name: As the page shows it, "torch".
        format: Of the file, "kineto".
        ending: Of the file's name, ".pt.trace.json.gz".

    One whose recordings are independent of each other has an attribute ``overlaps`` that is true: a capture
    then begins although earlier ones are still being written, and exactly at the step at which it is due.
    """

    name: str
    format: str
    ending: str

    def start(self, wanted: CaptureOptions) -> None:
        """Begin to record.

        Raises:
            CaptureError: It cannot, for instance because another profiler is running.
        """

    def stop(self) -> Export:
        """End recording and return the writer of the file; called after every ``start`` that succeeded."""


def mark(backend: Backend, step: int) -> AbstractContextManager[Any]:
    """Return a context that marks a step in the recording; a backend without one marks nothing."""
    make: Callable[[int], AbstractContextManager[Any]] | None = getattr(backend, "mark", None)
    return nullcontext() if make is None else make(step)


def settings(backend: Backend) -> dict[str, str]:
    """Return settings of the program that showed while it recorded; asked before it stops."""
    read: Callable[[], dict[str, str]] | None = getattr(backend, "settings", None)
    return {} if read is None else read()


LOADING = "data_loading"
"""Name of the time in which a step waits for its data, known to the readers of all formats."""


VALUE = "stepscope value "
"""Beginning of the mark of a call whose values are followed; its number comes after it."""
FOLLOWED = "stepscope followed values"
"""Name of the mark of the step in which these calls lie."""
OWN = "stepscope values"
"""Name of the mark of what following them does itself."""
LOOKS = 2
"""Steps in which values are followed: what is the same in the next step is seen in two."""
SAME_INPUTS = "called with the same inputs again"
"""Name of the mark in the scope of a model that is called like the last time."""


def loading(backend: Backend) -> AbstractContextManager[Any]:
    """Return a context that records a wait for data; a backend without one records nothing."""
    make: Callable[[str], AbstractContextManager[Any]] | None = getattr(backend, "span", None)
    return nullcontext() if make is None else make(LOADING)


def look(backend: Backend) -> AbstractContextManager[Any] | None:
    """Return a context that follows the values of a step; None from a backend that cannot."""
    make: Callable[[], AbstractContextManager[Any]] | None = getattr(backend, "look", None)
    return None if make is None else make()


def values(backend: Backend) -> dict[str, Any]:
    """Return what the values of the steps told; asked before it stops."""
    read: Callable[[], dict[str, Any]] | None = getattr(backend, "values", None)
    return {} if read is None else read()


def memory_facts(backend: Backend) -> dict[str, int]:
    """Return the memory in use, in bytes, as far as the backend knows."""
    read: Callable[[], dict[str, int]] | None = getattr(backend, "memory", None)
    return {} if read is None else read()


_HOMES = {
    "torch": "stepscope.integrations.torch.profiler",
    "jax": "stepscope.integrations.jax.profiler",
    "tensorflow": "stepscope.integrations.tensorflow.profiler",
    "python": "stepscope.integrations.python.profiler",
}
_WORKERS = {"torch.utils.data": "stepscope.integrations.torch.workers"}
"""Libraries whose worker processes leave spans for a capture, by the imports of the program."""
_ORDER = ("torch", "jax", "tensorflow")
NAMES = tuple(_HOMES)


def choose(name: str | Backend | None, modules: dict[str, Any] | None = None) -> Backend:
    """Return a backend by its name; by default that of the framework that the program has imported.

    Keras is asked for its own backend. If no framework was imported, plain Python is recorded.

    Raises:
        CaptureError: There is no such backend, or its library is not installed.
    """
    if name is not None and not isinstance(name, str):
        return name
    chosen = framework(sys.modules if modules is None else modules) if name is None else name
    if chosen not in _HOMES:
        raise CaptureError(
            f"no profiler backend {chosen!r}: expected {', '.join(NAMES)}",
            hint="ProfilerHook(backend='torch')",
        )
    make: Callable[[], Backend] = import_module(_HOMES[chosen]).make_backend
    return make()


def framework(modules: dict[str, Any]) -> str:
    """Return the framework whose profiler sees most of this program, judging by its imports."""
    keras = modules.get("keras")
    if keras is not None:
        config = getattr(keras, "config", None)
        used = config.backend() if config is not None and hasattr(config, "backend") else ""
        if used in _ORDER:
            return str(used)
    for name in _ORDER:
        if getattr(modules.get(name), "__version__", None) is not None:
            return name
    return "python"


def watch_workers() -> Callable[[], None]:
    """Make new worker processes leave spans; return the function that ends this. Never raises."""
    watched: list[Any] = []
    for library, home in _WORKERS.items():
        if library in sys.modules:
            with suppress(Exception):  # a profile without workers is still one
                module = import_module(home)
                module.watch()
                watched.append(module)

    def forget() -> None:
        while watched:
            watched.pop().forget()

    return forget


def resident_facts() -> dict[str, int]:
    """Return the resident set of this process as ``resident_bytes``; empty if the system does not tell."""
    resident = resident_bytes()
    return {} if math.isnan(resident) else {"resident_bytes": int(resident)}
