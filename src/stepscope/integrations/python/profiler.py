"""Captures steps of plain Python by sampling, through pyinstrument, as a timeline of frames.

The stack is sampled every millisecond. Frames in successive samples become one event, so the file shows when
each function ran, to a millisecond; anything shorter may be missing. The file is JSON in the shape of
PyTorch's, which Perfetto, chrome://tracing and ``stepscope profile`` read.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isal import igzip

from stepscope.capture.backend import CaptureOptions, Export, Exported, resident_facts
from stepscope.capture.processes import processes, trace_events
from stepscope.errors import CaptureError

INTERVAL_SECS = 0.001
_SEPARATOR, _ATTRIBUTES = "\x00", "\x01"
Sample = tuple[Sequence[str], float]
"""A stack, outermost frame first, and the seconds it stands for."""


def make_backend() -> PythonProfiler:
    """Return the backend.

    Raises:
        CaptureError: pyinstrument is not installed.
    """
    try:
        from pyinstrument import Profiler
    except ImportError:
        raise CaptureError(
            "no framework was imported, and pyinstrument, which records plain Python, is not installed",
            hint="pip install pyinstrument",
        ) from None
    return PythonProfiler(Profiler)


class PythonProfiler:
    """One sampling after the other.

    Args:
        make: Makes pyinstrument's profiler.
    """

    name, format, ending = "python", "kineto", ".trace.json.gz"
    samples = True
    """Its profiles already consist of samples of the stack."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._profiler: Any = None
        self._began = 0.0
        self._steps: list[tuple[int, float, float]] = []
        self._spans: list[tuple[str, float, float]] = []
        self._rank = (0, 1)

    def start(self, wanted: CaptureOptions) -> None:
        """Begin to sample this thread.

        Raises:
            CaptureError: Another profiler is set on this thread.
        """
        if sys.getprofile() is not None:
            raise CaptureError(
                "another profiler is already active on this thread (sys.setprofile)",
                hint="coverage, cProfile and debuggers use it; remove one of the two",
            )
        self._steps, self._spans, self._rank = [], [], (wanted.rank, wanted.world_size)
        self._profiler = self._make(interval=INTERVAL_SECS, async_mode="disabled")
        self._began = time.perf_counter()
        self._profiler.start()

    @contextmanager
    def mark(self, step: int) -> Iterator[None]:
        """Note when a step began and ended."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._steps.append((step, begun - self._began, time.perf_counter() - self._began))

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Note when something with a name began and ended."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self._spans.append((name, begun - self._began, time.perf_counter() - self._began))

    def memory(self) -> dict[str, int]:
        """Return the resident set, in bytes."""
        return resident_facts()

    def stop(self) -> Export:
        """End sampling; the file is made later."""
        session = self._profiler.stop()
        self._profiler = None
        steps, spans, (rank, world_size) = self._steps, self._spans, self._rank
        thread = threading.get_native_id()

        def export(path: Path) -> Exported:
            base = int(session.start_time * 1e9)
            events = frame_events(session.frame_records, thread, [begun for _, begun, _ in steps])
            named = [(f"ProfilerStep#{number}", begun, ended) for number, begun, ended in steps]
            events += [note_event(*each, thread) for each in named + spans]
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
            return Exported(path, notes=[f"sampled every {1e3 * INTERVAL_SECS:g} ms"])

        return export


def frame_events(
    samples: Iterable[Sample], thread: int, borders: Sequence[float] = ()
) -> list[dict[str, Any]]:
    """Join successive samples into one event per call, callers before what they call.

    Args:
        samples: In order of time.
        thread: Number of the thread.
        borders: Seconds since the start, ascending, at which a continuing call counts as a new one: the same
            stack in two steps is two calls.

    Returns:
        Complete events, times in µs since the first sample's start.
    """
    open_frames: list[tuple[str, float]] = []
    calls: list[tuple[float, int, str, float]] = []
    now, passed = 0.0, 0

    def close(depth: int) -> None:
        while len(open_frames) > depth:
            name, begun = open_frames.pop()
            calls.append((begun, len(open_frames), name, now))

    for stack, seconds in samples:
        frames = [name for frame in stack if (name := frame_name(frame))]
        same = 0
        while same < min(len(frames), len(open_frames)) and frames[same] == open_frames[same][0]:
            same += 1
        begun = now
        if passed < len(borders) and borders[passed] < now + seconds / 2:
            # Most of the sample lies behind the border: so does what it saw begin.
            begun, passed, same = max(now, borders[passed]), passed + 1, 0
        close(same)
        open_frames += [(frame, begun) for frame in frames[same:]]
        now += seconds
    close(0)
    return [_event(name, "python_function", begun, ended, thread) for begun, _, name, ended in sorted(calls)]


def frame_name(frame: str) -> str:
    """Return ``file.py(12): function`` of pyinstrument's text for a frame; "" for its own marks."""
    parts = frame.split(_ATTRIBUTES)[0].split(_SEPARATOR)
    if len(parts) < 3 or not parts[2].isdecimal() or parts[0].startswith("[") or parts[1] == "<thread>":
        return ""
    if parts[1] == "<built-in>":
        return f"<built-in>: {parts[0]}"
    return f"{os.path.relpath(parts[1]) if _is_ours(parts[1]) else parts[1]}({parts[2]}): {parts[0]}"


def _is_ours(file: str) -> bool:
    return file.startswith(os.getcwd() + os.sep)  # noqa: PTH109  frames have plain text


def note_event(name: str, begun: float, ended: float, thread: int) -> dict[str, Any]:
    """Return the event of a step, or of another thing with a name."""
    # On a lane of its own: its clock is not the sampler's, so it does not nest with the frames exactly.
    return _event(name, "user_annotation", begun, ended, thread + 1)


def _event(name: str, category: str, begun: float, ended: float, thread: int) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": os.getpid(), "tid": thread,
        "ts": round(1e9 * begun) / 1000, "dur": (round(1e9 * ended) - round(1e9 * begun)) / 1000,
    }  # fmt: skip
