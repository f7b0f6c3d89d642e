"""SystemHook: records the state of the machine beside the training."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

from stepscope.child import processors
from stepscope.errors import RecordError
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import seconds, word
from stepscope.record.hooks.functions import text_value
from stepscope.record.problems import pass_on
from stepscope.record.protocol import Hook

if TYPE_CHECKING:
    from stepscope.record.run import Run

DEVICES = "system/gpus"
MAX_FAILURES = 3
_SHORTEST_SECS = 0.5
_JOIN_SECS = 1.0


class SystemHook(Hook):
    """Records processors, memory, disks, network and GPUs every few seconds, on a separate thread.

    Readings that a machine lacks are not recorded. The tags begin with ``system/``:
    ``process``, ``children``, ``container``, ``host``, ``disk``, ``network``, ``fabric``, and ``gpu0`` … by
    the numbers of ``nvidia-smi``.

    Args:
        every_secs: Seconds between two readings.
        gpus: "visible" for those that this process may use, "all" for all GPUs of the machine.

    Raises:
        UsageError: An argument is out of range.
    """

    def __init__(self, every_secs: float = 5.0, *, gpus: Literal["visible", "all"] = "visible") -> None:
        self._every = seconds("every_secs", every_secs)
        self._all_gpus = word("gpus", gpus, "visible", "all", hint="gpus='all'") == "all"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, run: Run) -> None:
        """Start the thread, which finds the available readings."""
        self._stop.clear()
        self._thread = threading.Thread(
            target=watch,
            args=(weakref.ref(run), run.log_dir, self._every, self._stop.wait, self._all_gpus),
            name="stepscope-system",
            daemon=True,
        )
        self._thread.start()

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Take a last reading and end the thread; a driver that hangs is not waited for."""
        thread, self._thread = self._thread, None
        self._stop.set()
        if thread is not None:
            thread.join(deadline.left(_JOIN_SECS))


def watch(
    reference: weakref.ref[Run],
    directory: str,
    every_secs: float,
    wait: Callable[[float], bool],
    all_gpus: bool,
) -> None:
    """Read and record until told to stop or until the run has ended.

    Args:
        reference: The run, which may be gone.
        directory: The run's.
        every_secs: Seconds between two readings.
        wait: Waits so many seconds; returns early, and True, if it is time to stop.
        all_gpus: Also read the GPUs that this process may not use.
    """
    run = reference()
    if run is None:
        return
    readers, names = sources(directory, all_gpus=all_gpus)
    if names:
        describe(run, names)
    sampler, now = Sampler(readers), run.clock.steady()
    sampler.sample(run)
    last = False
    while not last:
        del run
        last = wait(every_secs)
        run = reference()
        if run is None or not run.recording:
            return
        since, now = now, run.clock.steady()
        if not last or now - since >= _SHORTEST_SECS:
            sampler.sample(run)


class ReadingSource(Protocol):
    """A source of readings."""

    def read(self, now: float) -> dict[str, float]:
        """Return the available readings by tag.

        Args:
            now: Steady time in seconds, for rates.
        """


def sources(directory: str, *, all_gpus: bool = False) -> tuple[list[ReadingSource], dict[str, str]]:
    """Return the sources of this machine, and the name of each GPU by group of tags.

    Args:
        directory: The run's.
        all_gpus: Also read the GPUs that this process may not use.
    """
    from stepscope.record.gpus import amd, nvidia
    from stepscope.record.machine import Children, Container, Cpu, Disk, HostMemory, Network, Process

    container = Container() if sys.platform == "linux" else None

    def cpus() -> float:
        return min(float(processors()), (container and container.cpus) or float("inf"))

    sources_: list[ReadingSource] = [
        Process(cpus),
        Children(),
        Cpu(),
        HostMemory(),
        Disk(directory),
        Network(),
    ]
    if container is not None:
        sources_.append(container)
    names: dict[str, str] = {}
    for gpus in (nvidia(every=all_gpus), amd(every=all_gpus)):
        if gpus is not None:
            sources_.append(gpus)
            names |= gpus.names()
    return sources_, names


class Sampler:
    """Reads sources, and gives up on those that fail again and again.

    Args:
        sources: The sources.
    """

    def __init__(self, sources: list[ReadingSource]) -> None:
        self._sources = [(source, 0) for source in sources]

    def sample(self, run: Run) -> None:
        """Read every source and record its readings."""
        working: list[tuple[ReadingSource, int]] = []
        for source, failures in self._sources:
            try:
                run.record(source.read(run.clock.steady()), background=True)
            except BaseException as error:  # noqa: BLE001  whatever a driver's or a kernel's odd answer brings about
                pass_on(error)
                failures += 1
                if failures == MAX_FAILURES:
                    give_up(run, source, error)
                    continue
            else:
                failures = 0
            working.append((source, failures))
        self._sources = working


def give_up(run: Run, source: ReadingSource, error: BaseException) -> None:
    """Report that a source is no longer read."""
    message = f"SystemHook: reading {type(source).__name__} raised {type(error).__name__}: {error}"
    refusal = RecordError(message, hint="it is not read any more; the rest goes on")
    run.report("hook", refusal, points=0, later=True)


def describe(run: Run, names: dict[str, str]) -> None:
    """Record which GPU is which."""
    lines = "\n".join(
        ["| GPU | name |", "|---|---|", *(f"| {key} | {name} |" for key, name in names.items())]
    )
    run.event(lambda: [text_value(DEVICES, lines)], nbytes=len(lines), tag=DEVICES, background=True)
