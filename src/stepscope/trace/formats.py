"""The format of a file, found by its content, and its reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from stepscope.errors import TraceError
from stepscope.events import masked_crc32c
from stepscope.events.wire import FIXED32, FIXED64, read_value
from stepscope.events.wire import read_varint as varint
from stepscope.trace.blocks import Blocks
from stepscope.trace.draft import Draft

HEAD_BYTES = 1 << 16
SEARCH_BYTES = 16 << 20
"""Bytes of a JSON file of a directory that are searched for the first event: as much as one value of metadata
may have (``document.LARGEST_METADATA``). A file that the user names is searched to its end."""

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
EVENT_FILE = Format("step_stats", "step_stats")
PICKLE = Format("pickle", "pickles")
FLIGHT_RECORDER_JSON = Format("flight_recorder", "flight_recorder")
NSYS = Format("nsys", "nsys")
TFPROF = Format("tfprof", "context")
ROCPROF = Format("rocprof", "rocprof")
MEMORY_TIMELINE = Format("memory_timeline", "memory_timeline")

_JSON_START = re.compile(rb"^(?:\xef\xbb\xbf)?\s*[\[{]")
_EXECUTION_TRACE = re.compile(rb'"schema"\s*:\s*"[\d.]+[^"]*"')
_ARRAY_OF_OBJECTS = re.compile(rb"\[\s*\{")
_EMPTY_ARRAY = re.compile(rb"\[\s*(?:\]|$)")
_EVENTS = re.compile(rb'"traceEvents"\s*:')
_PHASE = re.compile(rb'"ph"\s*:\s*"[A-Za-z(){}]"')
"""The one key that each event of a Chrome trace has; the order of keys means nothing in JSON."""
_LONGEST_KEY = 64
"""Bytes of the end of one block in which one of these patterns may begin."""

_MEMORY_EVENTS = re.compile(rb"^\s*\[\s*\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]")
_MEMORY_SIZES = re.compile(rb"^\s*\[\s*\[\s*\d{3,}[\d\s,]*(?:$|\]\s*,\s*\[\s*\[\s*0\s*,)")
"""PyTorch's memory timeline: ``[time, action, bytes, category]``; or times, then sizes by category."""


def find_format(path: Path, *, most_bytes: int | None = SEARCH_BYTES) -> Format | None:
    """Return the format of a file, None if it is not a profile.

    Args:
        path: The file.
        most_bytes: Bytes that are searched if the head of a JSON file does not tell; None searches all.
    """
    with Blocks(path) as blocks:
        head = blocks.head(HEAD_BYTES)
    if not head:
        return None
    if head.startswith(b"SQLite format 3\0"):
        return NSYS
    if head[0] == 0x80 and len(head) > 1 and 2 <= head[1] <= 5:
        return PICKLE
    if _JSON_START.match(head):
        return _json_format(head, path, most_bytes)
    return _binary_format(head)


def require_format(path: Path) -> Format:
    """Return the format of a file that the user named.

    Raises:
        TraceError: No profile.
    """
    row = find_format(path, most_bytes=None)
    if row is not None:
        return row
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
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TraceError(
            "not a profile: found text in UTF-16, and JSON is UTF-8",
            hint="save it as UTF-8; PowerShell's > writes UTF-16",
            path=path,
        )
    raise TraceError(
        f"not a profile of a known format: it begins with {head[:16]!r}",
        hint="known formats are Kineto and Chrome JSON, XPlane, TensorFlow timelines, RunMetadata and event "
        "files, ONNX Runtime, ExecutionTrace, flight-recorder and memory-snapshot pickles, PyTorch's memory "
        "timelines, results of rocprof and rocprofv3, and Nsight Systems SQLite exports",
        path=path,
    )


def _json_format(head: bytes, path: Path, most_bytes: int | None) -> Format | None:
    if _EVENTS.search(head):
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
        if _EMPTY_ARRAY.match(start):
            return CHROME
        holds = _ARRAY_OF_OBJECTS.match(start) and _search(path, _PHASE, most_bytes)
        return CHROME if holds else None
    if re.search(rb'"(schemaVersion|deviceProperties|displayTimeUnit|otherData)"', head):
        return CHROME  # also if it lost its events: the reader says so
    return CHROME if _search(path, _EVENTS, most_bytes) else None


def _search(path: Path, pattern: re.Pattern[bytes], most_bytes: int | None) -> bool:
    """Return whether a pattern stands in the first bytes of a file; None for all of them."""
    end, read = b"", 0
    with Blocks(path) as blocks, closing(iter(blocks)) as parts:
        for block in parts:
            text = end + block
            if pattern.search(text):
                return True
            read += len(block)
            if most_bytes is not None and read >= most_bytes:
                return False
            end = text[-_LONGEST_KEY:]
    return False


def _binary_format(head: bytes) -> Format | None:
    from stepscope.trace.tfprof import is_profile

    if looks_like_event_file(head):
        return EVENT_FILE
    if is_profile(head):
        return TFPROF
    if _looks_like_xspace(head):
        return XPLANE
    if _looks_like_run_metadata(head):
        return STEP_STATS
    return None


# --- messages -----------------------------------------------------------------------------------------

Value = int | memoryview


def _fields(data: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Iterate over a message's fields: number, wire type, and value.

    Varints and fixed numbers come as unsigned integers, the rest as a view of the bytes.

    Raises:
        ValueError: Bytes that are not messages, or one that is cut short.
    """
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = read_value(data, at, key & 7, key)
        yield key >> 3, key & 7, int.from_bytes(value, "little") if key & 7 in (FIXED64, FIXED32) else value


def _first(data: memoryview, wanted: int) -> memoryview | None:
    """Return as much as there is of the first field, if it is a submessage of that number."""
    try:
        tag, at = varint(data, 0)
        length, at = varint(data, at)
    except ValueError:
        return None
    if tag != wanted << 3 | 2:
        return None
    return data[at : at + length]


def looks_like_event_file(head: bytes) -> bool:
    """Return whether the first record's length has the right checksum."""
    return len(head) >= 12 and masked_crc32c(head[:8]) == int.from_bytes(head[8:12], "little")


def _looks_like_xspace(head: bytes) -> bool:
    """Return whether the first field is an XPlane: an optional number, then a name that is text."""
    plane = _first(memoryview(head), 1)
    if plane is None:
        return False
    name = b""
    try:
        for number, kind, value in _fields(plane[:4096]):
            if number == 1 and kind == 0:
                continue
            if number == 2 and kind == 2 and isinstance(value, memoryview):
                name = bytes(value)
            break
    except ValueError:
        return False
    return 0 < len(name) < 256 and name.isascii() and name.decode().isprintable() and _plane_name(name)


def _plane_name(name: bytes) -> bool:
    return (
        name.startswith((b"/host:", b"/device:", b"/host", b"#Chip", b"/custom"))
        or b"Task Environment" in name
        or (b":" in name and b"/" in name)
    )


def _looks_like_run_metadata(head: bytes) -> bool:
    """Return whether the first fields are a StepStats, a DeviceStepStats and a device's name."""
    data: memoryview | None = memoryview(head)
    for _ in range(2):
        data = _first(data, 1) if data is not None else None
    name = _first(data, 1) if data is not None else None
    return name is not None and bytes(name[:200]).startswith(
        (b"/job:", b"/device:", b"/host:", b"/replica:", b"/")
    )
