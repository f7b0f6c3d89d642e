"""The format of a file, found by its content, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from stepscope.errors import TraceError
from stepscope.trace.blocks import Blocks
from stepscope.trace.draft import Draft

HEAD_BYTES = 1 << 16

Reader = Callable[[Path], list[Draft]]


@dataclass(frozen=True, slots=True)
class Format:
    """A family of files that begin alike."""

    name: str
    module: str
    """Module of this package whose ``read(path)`` returns drafts: one per rank or step in the file."""

    def read(self, path: Path) -> list[Draft]:
        """Read a file of this format.

        Raises:
            TraceError: A damaged file, or one that only begins like a profile.
        """
        reader: Reader = import_module(f"stepscope.trace.{self.module}").read
        return reader(path)


CHROME = Format("chrome", "chrome_file")
EXECUTION_TRACE = Format("execution_trace", "execution_trace")
XPLANE = Format("xplane", "xplane")
STEP_STATS = Format("step_stats", "step_stats")
EVENT_FILE = Format("step_stats", "event_file")
PICKLE = Format("pickle", "pickles")
FLIGHT_RECORDER_JSON = Format("flight_recorder", "flight_recorder")
NSYS = Format("nsys", "nsys")
TFPROF = Format("tfprof", "context")
ROCPROF = Format("rocprof", "rocprof")
MEMORY_TIMELINE = Format("memory_timeline", "memory_timeline")

_JSON_START = re.compile(rb"^(?:\xef\xbb\xbf)?\s*[\[{]")
_EXECUTION_TRACE = re.compile(rb'"schema"\s*:\s*"[\d.]+[^"]*"')


_MEMORY_EVENTS = re.compile(rb"^\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]")
_MEMORY_SIZES = re.compile(rb"^\s*\[\s*\[\s*\d{3,}[\d\s,]*(?:$|\]\s*,\s*\[\s*\[\s*0\s*,)")
"""PyTorch's memory timeline: ``[time, action, bytes, category]``; or times, then sizes by category."""


def find_format(path: Path) -> Format | None:
    """Return the format of a file, None if it is not a profile."""
    with Blocks(path) as blocks:
        head = blocks.head(HEAD_BYTES)
    if not head:
        return None
    if head.startswith(b"SQLite format 3\0"):
        return NSYS
    if head[0] == 0x80 and len(head) > 1 and 2 <= head[1] <= 5:
        return PICKLE
    if _JSON_START.match(head):
        return _json_format(head)
    return _binary_format(head)


def require_format(path: Path) -> Format:
    """Return the format of a file that the user named.

    Raises:
        TraceError: No profile.
    """
    found = find_format(path)
    if found is not None:
        return found
    with Blocks(path) as blocks:
        head = blocks.head(64)
    if not head:
        raise TraceError(
            "the profile is empty: 0 bytes", hint="check that the profiler was stopped", path=path
        )
    if head.startswith(b"PK\x03\x04"):
        raise TraceError(
            "not a profile: found a zip archive, such as torch.save() writes",
            hint="unpack it, or pass the trace",
            path=path,
        )
    raise TraceError(
        f"not a profile of a known format: it begins with {head[:16]!r}",
        hint="known formats are Kineto and Chrome JSON, XPlane, TensorFlow timelines, RunMetadata and event "
        "files, ExecutionTrace, flight-recorder and memory-snapshot pickles, PyTorch's memory "
        "timelines, results of rocprof and rocprofv3, and Nsight Systems SQLite exports",
        path=path,
    )


def _json_format(head: bytes) -> Format | None:
    if b'"traceEvents"' in head:
        return CHROME
    if b'"rocprofiler-sdk-tool"' in head:
        return ROCPROF
    if _MEMORY_EVENTS.match(head) or _MEMORY_SIZES.match(head):
        return MEMORY_TIMELINE
    if _EXECUTION_TRACE.search(head[:4096]) and b'"nodes"' in head:
        return EXECUTION_TRACE
    if (b'"pg_config"' in head and b'"entries"' in head) or b'"pg_status"' in head:
        return FLIGHT_RECORDER_JSON
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"[":
        return (
            CHROME
            if re.match(rb'\[\s*(\{\s*"(ph|name|cat|pid|tid|ts|args|id|dur|s|bp)"|\]|$)', start)
            else None
        )
    # Metadata may fill more than the head before the events begin.
    return (
        CHROME if re.search(rb'"(schemaVersion|deviceProperties|displayTimeUnit|otherData)"', head) else None
    )


def _binary_format(head: bytes) -> Format | None:
    from stepscope.trace.tfprof import is_profile
    from stepscope.trace.wire import looks_like_event_file, looks_like_run_metadata, looks_like_xspace

    if looks_like_event_file(head):
        return EVENT_FILE
    if is_profile(head):
        return TFPROF
    if looks_like_xspace(head):
        return XPLANE
    if looks_like_run_metadata(head):
        return STEP_STATS
    return None
