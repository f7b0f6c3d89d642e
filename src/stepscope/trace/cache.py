"""A trace's columns in one file in the user's cache directory, never beside the trace.

The folder of a trace is often read-only, shared or synchronised to other machines. The cache has one file per
path of a profile. Files unused for 30 days, and the least recently used beyond 10 GiB, are deleted when
another is written.

Why not Parquet: importing a Parquet reader costs 0.1 s (pyarrow) to 0.4 s (polars), more than reading most
profiles from their JSON, and columns must then be decompressed. ``trace.frame().write_parquet()`` gives
Parquet to whoever wants it.

Layout: magic, u32 version, u64 header bytes, u32 checksum of the header, UTF-8 JSON header, then the columns
as :mod:`stepscope.files` has them. The file is read whole, not mapped: a mapped file that somebody cuts short
kills the process. A cache that does not fit its trace (size, modification time and a sample of the content)
or this version, or is damaged, is not used.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import struct
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.files import Blob, BlobError, BlobWriter, Place, cache_home, prune_files, without_waiting
from stepscope.trace.model import COLUMNS, Device, Lane, ProcessGroup, Source, Trace
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import TABLES

MAGIC = b"SSTRACE\0"
VERSION = 12
"""Version; raised whenever an importer produces different columns for the same file."""
_HEAD = struct.Struct("<8sIQI")
_SAMPLE = 4096
_LARGEST_FACT = 65536


def load_cached(path: Path) -> Trace | None:
    """Return the trace from its cache, None if there is no valid one.

    Its sources are the profile's present paths: it may be called by another name.
    """
    if (place := place_of(path)) is None:
        return None
    try:
        trace = read(place, identity(path))
    except (OSError, ValueError, KeyError, TypeError, BlobError):
        return None
    if trace is None:
        return None
    with contextlib.suppress(OSError):  # a cache that may only be read
        os.utime(place)  # marks it as used
    return replace(trace, sources=tuple(replace(source, path=str(path)) for source in trace.sources))


def store(path: Path, trace: Trace) -> None:
    """Write the cache of a trace, and delete those unused for long; if that cannot be, nothing happens."""
    if (place := place_of(path)) is None:
        return
    with contextlib.suppress(OSError):
        expected = identity(path)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write(place, trace, expected)
        prune_files(place.parent, place)


def place_of(path: Path) -> Path | None:
    """Return the path of a trace's cache, None if the user has no directory for caches."""
    home = cache_home()
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return home / "traces" / f"{name}.columns" if home else None


def identity(path: Path) -> dict[str, int]:
    """Return a stamp that distinguishes versions of a file.

    Raises:
        OSError: It cannot be read, or is not a regular file.
    """
    with open(path, "rb", opener=without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        sample = zlib.crc32(file.read(_SAMPLE))
        if status.st_size > _SAMPLE:
            file.seek(max(_SAMPLE, status.st_size - _SAMPLE))
            sample = zlib.crc32(file.read(_SAMPLE), sample)
    return {"bytes": status.st_size, "modified_ns": status.st_mtime_ns, "sample": sample}


def write(place: Path, trace: Trace, expected: dict[str, int]) -> None:
    """Write a trace's columns to a file, atomically.

    Args:
        place: The file.
        trace: The trace.
        expected: Identity of the profile that it was read from.

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
    blob = BlobWriter()
    spans = {name: msgspec.structs.astuple(blob.add(array)) for name, array in arrays.items()}
    header = json.dumps({"identity": expected, "facts": _facts(trace), "arrays": spans}, default=str).encode()
    head = _HEAD.pack(MAGIC, VERSION, len(header), zlib.crc32(header))
    blob.write(place, head + header)


def read(place: Path, expected: dict[str, int]) -> Trace | None:
    """Read a cache file; None if it is of another version of the trace or of Stepscope.

    Raises:
        OSError: No such file.
        ValueError: A damaged file.
        KeyError: Likewise.
        BlobError: Likewise.
    """
    content = place.read_bytes()
    if len(content) < _HEAD.size:
        return None
    magic, version, size, checksum = _HEAD.unpack_from(content)
    if magic != MAGIC or version != VERSION or sys.byteorder != "little":
        return None
    text = content[_HEAD.size : _HEAD.size + size]
    if len(text) != size or zlib.crc32(text) != checksum:
        raise ValueError(f"{place}: the header is not what was written")
    header = json.loads(text)
    if header["identity"] != expected:
        return None
    blob = Blob(place, content, head_bytes=_HEAD.size + size)
    return _trace(
        {name: blob.column(Place(*span)) for name, span in header["arrays"].items()}, header["facts"]
    )


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
    facts["sources"] = [{**_values(source), "facts": _small(source.facts)} for source in trace.sources]
    for name in ("lanes", "devices", "process_groups"):
        facts[name] = [_values(table) for table in getattr(trace, name)]
    return facts


def _values(row: Lane | Device | ProcessGroup | Source) -> dict[str, Any]:
    """Return the fields of a row as they are; ``asdict`` would copy each of them."""
    return {name: getattr(row, name) for name in row.__dataclass_fields__}


def _small(facts: dict[str, Any]) -> dict[str, Any]:
    """Leave out large values; a recorder may have put whole environments there."""
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
