"""A trace's columns in one mapped file, beside the trace or in the user's cache directory.

Why not Parquet: importing a Parquet reader costs 0.1 s (pyarrow) to 0.4 s (polars), more than reading most
profiles from their JSON, and columns must then be decompressed. Mapped, uncompressed columns are there in a
millisecond, pages that a question does not touch are never read, and several processes share them.
``trace.frame().write_parquet()`` gives Parquet to whoever wants it.

Layout: magic, u32 version, u64 header bytes, UTF-8 JSON header, arrays at multiples of 64 bytes. A cache that
does not fit its trace (size, modification time and a sample of the content) or this version is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import tempfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace.model import COLUMNS, Device, Lane, ProcessGroup, Source, Trace
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import TABLES

MAGIC = b"SSTRACE\0"
VERSION = 5
"""Raised whenever an importer gives other columns for the same file."""
SUFFIX = ".stepscope-trace"
_HEAD = struct.Struct("<8sIQ")
_ALIGN = 64
_SAMPLE = 4096
_LARGEST_FACT = 65536


def load_cached(path: Path) -> Trace | None:
    """Return the trace from its cache, None where there is no valid one.

    Its sources are where the profile lies now: it may have been copied, or be called by another name.
    """
    for place in places(path):
        try:
            trace = read(place, identity(path))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if trace is not None:
            return replace(trace, sources=tuple(replace(each, path=str(path)) for each in trace.sources))
    return None


def store(path: Path, trace: Trace) -> None:
    """Write the cache of a trace; where it cannot be written, nothing happens."""
    with contextlib.suppress(OSError):
        expected = identity(path)
        for place in places(path):
            try:
                write(place, trace, expected, mode=path.stat().st_mode)
            except OSError:
                continue
            return


def places(path: Path) -> list[Path]:
    """Return where a cache may lie: beside the trace, then in the user's cache directory."""
    resolved = path.resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    digest = hashlib.sha256(str(resolved).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    try:
        home = [Path(base).expanduser() / "stepscope" / "traces" / (digest + SUFFIX)]
    except RuntimeError:  # no home directory
        home = []
    return [resolved.with_name(f".{resolved.name}{SUFFIX}"), *home]


def identity(path: Path) -> dict[str, int]:
    """Return what tells one version of a file from another."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        sample = zlib.crc32(file.read(_SAMPLE))
        if status.st_size > _SAMPLE:
            file.seek(max(_SAMPLE, status.st_size - _SAMPLE))
            sample = zlib.crc32(file.read(_SAMPLE), sample)
    return {"bytes": status.st_size, "modified_ns": status.st_mtime_ns, "sample": sample}


def write(place: Path, trace: Trace, expected: dict[str, int], *, mode: int = 0o644) -> None:
    """Write a trace's columns to a file, atomically.

    Args:
        place: The file.
        trace: The trace.
        expected: Identity of the profile that it was read from.
        mode: Permissions; whoever may read the profile may read its columns, nobody else.

    Raises:
        OSError: The place cannot be written.
    """
    arrays = {f"column.{name}": getattr(trace, name) for name in COLUMNS}
    for table in TABLES:
        for name, column in getattr(trace, table).columns().items():
            arrays[f"{table}.{name}"] = column
    for name, strings in _string_tables(trace).items():
        arrays[f"{name}.data"], arrays[f"{name}.ends"] = strings.data, strings.ends
    for name in ("scopes", "stacks"):
        paths = getattr(trace, name)
        arrays[f"{name}.parent"], arrays[f"{name}.name"] = paths.parent, paths.name
    spans, at = {}, 0
    for name, array in arrays.items():
        spans[name] = [array.dtype.str, len(array), at]
        at += -(-array.nbytes // _ALIGN) * _ALIGN
    header = json.dumps({"identity": expected, "facts": _facts(trace), "arrays": spans}, default=str).encode()
    begin = -(-(_HEAD.size + len(header)) // _ALIGN) * _ALIGN
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=".stepscope-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_HEAD.pack(MAGIC, VERSION, len(header)) + header)
            file.write(bytes(begin - _HEAD.size - len(header)))
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).data)
                file.write(bytes(-array.nbytes % _ALIGN))
            os.fchmod(file.fileno(), mode & 0o666)
        Path(temporary).replace(place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(place: Path, expected: dict[str, int]) -> Trace | None:
    """Map a cache file; None where it is of another version of the trace or of Stepscope.

    Raises:
        OSError: No such file.
        ValueError: A damaged file.
        KeyError: Likewise.
    """
    with place.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        magic, version, size = _HEAD.unpack(head)
        if magic != MAGIC or version != VERSION or sys.byteorder != "little":
            return None
        header = json.loads(file.read(size))
    if header["identity"] != expected:
        return None
    raw = np.memmap(place, np.uint8, "r")
    begin = -(-(_HEAD.size + size) // _ALIGN) * _ALIGN
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, (dtype, count, at) in header["arrays"].items():
        kind = np.dtype(dtype)
        # A plain view: a memmap object would be copied wherever numpy makes a new array of its class.
        arrays[name] = np.frombuffer(raw, kind, count, begin + at) if count else np.zeros(0, kind)
    return _trace(arrays, header["facts"])


def _string_tables(trace: Trace) -> dict[str, Strings]:
    """Return the distinct string tables of a trace: paths may have one of their own."""
    tables = {"strings": trace.strings}
    for name in ("scopes", "stacks"):
        strings = getattr(trace, name).strings
        if strings is not trace.strings:
            tables[f"{name}.strings"] = strings
    return tables


_FACTS = ("format", "origin_ns", "clock", "resolution_ns", "not_recorded", "dropped", "notes")


def _facts(trace: Trace) -> dict[str, Any]:
    facts = {name: getattr(trace, name) for name in _FACTS}
    facts["recorded"] = sorted(trace.recorded)
    facts["sources"] = [{**asdict(source), "facts": _small(source.facts)} for source in trace.sources]
    for name in ("lanes", "devices", "process_groups"):
        facts[name] = [asdict(each) for each in getattr(trace, name)]
    return facts


def _small(facts: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is large; a recorder may have put whole environments there."""
    return {key: value for key, value in facts.items() if len(str(value)) <= _LARGEST_FACT}


def _trace(arrays: dict[str, npt.NDArray[Any]], facts: dict[str, Any]) -> Trace:
    strings = Strings(arrays["strings.data"], arrays["strings.ends"])
    paths: dict[str, Any] = {}
    for name in ("scopes", "stacks"):
        own = f"{name}.strings.ends" in arrays
        names = Strings(arrays[f"{name}.strings.data"], arrays[f"{name}.strings.ends"]) if own else strings
        paths[name] = Paths(arrays[f"{name}.parent"], arrays[f"{name}.name"], names)
    tables: dict[str, Any] = {
        table: kind(**{name: arrays[f"{table}.{name}"] for name in kind.empty().columns()})
        for table, kind in TABLES.items()
    }
    groups = [{**group, "ranks": tuple(group["ranks"])} for group in facts["process_groups"]]
    columns: dict[str, Any] = {name: arrays[f"column.{name}"] for name in COLUMNS}
    trace = Trace(
        **columns,
        **{name: facts[name] for name in _FACTS if name != "notes"},
        **paths,
        **tables,
        strings=strings,
        notes=tuple(facts["notes"]),
        recorded=frozenset(facts["recorded"]),
        sources=tuple(Source(**source) for source in facts["sources"]),
        lanes=tuple(Lane(**lane) for lane in facts["lanes"]),
        devices=tuple(Device(**device) for device in facts["devices"]),
        process_groups=tuple(ProcessGroup(**group) for group in groups),
    )
    check(trace)
    return trace


def check(trace: Trace) -> None:
    """Check that every number points into its table: loops without bounds checks run over these columns.

    Raises:
        ValueError: One does not; the file was not written by this module.
    """
    rows = len(trace)
    limits = {
        "name": len(trace.strings), "lane": len(trace.lanes), "parent": rows, "launch": rows, "forward": rows,
        "scope": len(trace.scopes), "stack": len(trace.stacks),
    }  # fmt: skip
    columns = [(getattr(trace, name), limit) for name, limit in limits.items()]
    for name in TABLES:
        table = getattr(trace, name)
        for field, values in table.columns().items():
            if field in ("row", "source", "target"):
                columns.append((values, rows))
            elif field in table.names:
                columns.append((values, len(trace.strings)))
    for paths in (trace.scopes, trace.stacks):
        columns += [(paths.parent, len(paths)), (paths.name, len(paths.strings))]
        if (paths.parent >= np.arange(len(paths))).any():
            raise ValueError("a path's parent does not precede it")
    if any(len(getattr(trace, name)) != rows for name in COLUMNS) or (trace.parent >= np.arange(rows)).any():
        raise ValueError("columns of different lengths, or a parent that does not precede its child")
    if any(len(values) and (values.min() < -1 or values.max() >= limit) for values, limit in columns):
        raise ValueError("a number points outside its table")
