"""Captures steps of plain Python as a timeline of frames, from samples of the training thread's stack.

The capture samples the stack every millisecond or so (``capture.sampler``). Frames in successive samples
become one event, so the file shows when each function ran, to an interval; anything shorter may be missing.
The file is JSON in the shape of PyTorch's, which Perfetto, chrome://tracing and ``stepscope profile`` read.
The samples themselves, with the lines that ran, lie beside it as they do beside every profile.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isal import igzip

from stepscope.capture.backend import CaptureOptions, Export, Exported, resident_facts
from stepscope.capture.processes import processes, trace_events
from stepscope.capture.sampler import StackSampler

Sample = tuple[int, Sequence[str]]
"""When a stack was taken, and its frames, outermost first."""
Note = tuple[str, int, int]
"""A step or a span: its name, begin and end."""


def make_backend() -> PythonProfiler:
    """Return the backend."""
    return PythonProfiler()


class PythonProfiler:
    """One sampling after the other."""

    name, format, ending = "python", "kineto", ".trace.json.gz"

    def __init__(self) -> None:
        self._sampler: StackSampler | None = None
        self._notes: list[Note] = []
        self._began = self._base = 0
        self._rank = (0, 1)

    def start(self, wanted: CaptureOptions) -> None:
        """Begin to note steps of this thread."""
        self._sampler, self._notes, self._rank = None, [], (wanted.rank, wanted.world_size)
        self._base, self._began = time.time_ns(), time.perf_counter_ns()

    def use(self, sampler: StackSampler) -> None:
        """Take the frames from a sampler of this thread, whose clock is ``time.perf_counter_ns``."""
        self._sampler = sampler

    @contextmanager
    def mark(self, step: int) -> Iterator[None]:
        """Note when a step began and ended."""
        with self.span(f"ProfilerStep#{step}"):
            yield

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Note when something with a name began and ended."""
        begun = time.perf_counter_ns()
        try:
            yield
        finally:
            self._notes.append((name, begun - self._began, time.perf_counter_ns() - self._began))

    def memory(self) -> dict[str, int]:
        """Return the resident set, in bytes."""
        return resident_facts()

    def stop(self) -> Export:
        """End the capture; the file is made later."""
        sampler, notes, began, base = self._sampler, self._notes, self._began, self._base
        (rank, world_size), thread = self._rank, threading.get_native_id()
        self._sampler = None

        def export(path: Path) -> Exported:
            taken = () if sampler is None else sampler.functions()
            samples = [(at - began, [shown(frame) for frame in frames]) for at, frames in taken]
            events = [note_event(*note, thread) for note in sorted(notes, key=lambda note: note[1:])]
            events += frame_events(samples, thread, [ns for _, *ends in notes for ns in ends])
            events += trace_events(processes.during(base), base)
            document = {
                "schemaVersion": 1,
                "deviceProperties": [],
                "distributedInfo": {"rank": rank, "world_size": world_size},
                "baseTimeNanoseconds": base,
                "traceEvents": events,
            }
            packed: Any = igzip
            with packed.open(path, "wt", compresslevel=1, encoding="utf-8") as file:
                json.dump(document, file)
            every = "" if sampler is None else f"sampled every {1e3 * sampler.interval_s:.3g} ms"
            return Exported(path, notes=[every] if every else [])

        return export


def frame_events(samples: Iterable[Sample], thread: int, borders: Iterable[int] = ()) -> list[dict[str, Any]]:
    """Join successive samples into one event per call, callers before what they call.

    A sample stands for the time since the one before. If a border lies in between, the time before it is
    that of the sample before, so that no call reaches over a border: the same stack in two steps is two
    calls. Between two borders with no sample nothing is known.

    Args:
        samples: In order of time, ns.
        thread: Number of the thread.
        borders: Times, ns, at which steps and spans begin and end.

    Returns:
        Complete events.
    """
    left = sorted(set(borders))
    open_frames: list[tuple[str, int]] = []
    calls: list[tuple[int, int, str, int]] = []
    before: int | None = None

    def close(depth: int, at: int) -> None:
        while len(open_frames) > depth:
            name, begun = open_frames.pop()
            if at > begun:
                calls.append((begun, len(open_frames), name, at))

    for taken, frames in samples:
        begun = taken if before is None else before
        passed = [at for at in left if at < taken]
        left = left[len(passed) :]
        if passed:
            close(0, max(passed[0], begun))
            begun = max(passed[-1], begun)
        same = 0
        while same < min(len(frames), len(open_frames)) and frames[same] == open_frames[same][0]:
            same += 1
        close(same, begun)
        open_frames += [(frame, begun) for frame in frames[same:]]
        before = taken
    if before is not None:
        close(0, before)
    return [_event(name, "python_function", begun, ended, thread) for begun, _, name, ended in sorted(calls)]


def shown(frame: str) -> str:
    """Return the name of a frame, its file relative to the program's directory."""
    return frame.removeprefix(os.getcwd() + os.sep)  # noqa: PTH109  frames have plain text


def note_event(name: str, begun: int, ended: int, thread: int) -> dict[str, Any]:
    """Return the event of a step, or of another thing with a name; times in ns."""
    return _event(name, "user_annotation", begun, ended, thread)


def _event(name: str, category: str, begun: int, ended: int, thread: int) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": os.getpid(), "tid": thread,
        "ts": begun / 1000, "dur": (ended - begun) / 1000,
    }  # fmt: skip
