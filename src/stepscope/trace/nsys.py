"""Nsight Systems exports (``nsys export --type sqlite``): kernels, copies, runtime calls and NVTX ranges.

Columns differ between versions of nsys; missing columns count as not recorded.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace import communication
from stepscope.trace.chrome import order_lanes
from stepscope.trace.draft import Draft, Rows
from stepscope.trace.kineto import LOADING, STEP
from stepscope.trace.model import Device, Kind, Lane

_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_REASONS = dict.fromkeys(
    ("backward", "modules", "stacks", "shapes", "flops", "memory", "counters"),
    "an Nsight Systems export holds no operators; emit NVTX ranges with torch.autograd.profiler.emit_nvtx, "
    "or record with torch.profiler",
) | {"steps": "push an NVTX range 'ProfilerStep#N' or 'step N' around each step"}
_NVTX_STEP = re.compile(r"^(?:ProfilerStep#|step[ _#:=]*|iteration[ _#:=]*)(\d+)$", re.IGNORECASE)
_RANGES = (59, 60, 70, 71)  # push/pop and start/end ranges, and their domain-less spellings


class _Rows(Rows):
    """The same of tables' rows, and the numbers of steps by row."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: dict[int, int] = {}

    def add_row(self, name: str, kind: Kind, lane: Lane, row: dict[str, Any], *, cuda: bool = True) -> int:
        """Add an event; return its row. Those of CUDA have a correlation, and copies a size."""
        start, end = row["start"], row["end"]
        correlation = int(row.get("correlationId") or -1) if cuda else -1
        size = int(row["bytes"] or 0) if "bytes" in row else -1
        duration = 0 if end is None else end - start
        return self.add(name, kind, lane, start, duration, correlation=correlation, size=size)


def read(path: Path) -> list[Draft]:
    """Read an export: one draft, or one of each process if several ran steps or devices.

    Raises:
        TraceError: A SQLite file that is not an export of Nsight Systems, or a damaged one.
        EmptyTraceError: No event in it.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            return _drafts(database, path)
    except sqlite3.DatabaseError as error:
        raise TraceError(f"the SQLite file is damaged: {error}", hint="export it again", path=path) from error


def _drafts(database: sqlite3.Connection, path: Path) -> list[Draft]:
    tables = {
        # A view would run what somebody put into it, which may have no end.
        name
        for (name,) in database.execute("select name from sqlite_master where type = 'table'")
    }
    if not tables & {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "OSRT_API"}:
        raise TraceError(
            "a SQLite file, but not an export of Nsight Systems: found tables "
            + (", ".join(sorted(tables)[:6]) or "none"),
            hint="make one with: nsys export --type sqlite report.nsys-rep",
            path=path,
        )
    texts = dict(database.execute("select id, value from StringIds")) if "StringIds" in tables else {}
    spans, lost = {}, 0
    for table in _TABLES:
        if table in tables:
            every = _select(database, table)
            timed = [
                row
                for row in every
                if isinstance(row.get("start"), int) and isinstance(row.get("end"), int | None)
            ]
            lost += len(every) - len(timed)
            spans[table] = timed
    processes = _rank_processes(spans, texts)
    ranked = [_Rows() for _ in processes or (0,)]
    place = {process: rank for rank, process in enumerate(processes)}
    for table, timed in spans.items():
        # What is of no rank, such as a worker that loads data, stays visible beside the first.
        of_rank: dict[int, list[dict[str, Any]]] = {}
        for row in timed:
            of_rank.setdefault(place.get(_process(row), 0), []).append(row)
        for rank, rows in of_rank.items():
            _TABLES[table](ranked[rank], rows, texts)
    if not any(process.rows for process in ranked):
        raise EmptyTraceError("the export holds no events", hint="profile with --trace=cuda,nvtx", path=path)
    epoch, devices = _epoch(database, tables), _devices(database, tables)
    origin = min(first for process in ranked if (first := process.first_ns) is not None)
    drafts = [
        _draft(process, path, rank, (epoch, origin), devices, several=len(processes) > 1)
        for rank, process in enumerate(ranked)
    ]
    drafts[0].drop("events_without_time", lost)
    drafts[0].file_bytes = path.stat().st_size
    if processes:
        drafts[0].notes.append(
            f"{len(processes)} processes ran {'steps' if _steps(spans, texts) else 'devices'}: each is shown "
            "as a rank, in the order of their devices, because the export does not say ranks"
        )
    return drafts


def _rank_processes(tables: dict[str, list[dict[str, Any]]], texts: dict[int, str]) -> list[int]:
    """Return the processes that are ranks, by device; none if there is but one or work has no process."""
    work = [row for table in _DEVICE_TABLES for row in tables.get(table, ())]
    if any(row.get("globalPid") is None for row in work):
        return []
    device: dict[int, int] = {}
    for row in work:
        process, number = _process(row), int(row.get("deviceId") or 0)
        device[process] = min(device.get(process, number), number)
    processes = _steps(tables, texts) or set(device)
    return (
        sorted(processes, key=lambda one: (device.get(one, len(device)), one)) if len(processes) > 1 else []
    )


def _steps(tables: dict[str, list[dict[str, Any]]], texts: dict[int, str]) -> set[int]:
    """Return the processes that marked steps."""
    return {
        _process(row)
        for row in tables.get("NVTX_EVENTS", ())
        if _is_range(row) and _step_of(_range_name(row, texts))
    }


def _draft(
    rows: _Rows, path: Path, rank: int, times: tuple[int, int], devices: list[Device], *, several: bool
) -> Draft:
    epoch, origin = times
    used = {lane.device for lane in rows.lanes}
    draft = rows.draft(
        origin,
        format="nsys",
        path=str(path),
        rank=rank,
        rank_known=several,
        origin_ns=epoch + origin,
        clock="unix" if epoch else "relative",
        devices=[replace(device, rank=rank) for device in devices if not several or device.index in used],
        not_recorded=dict(_REASONS),
        step_number=np.full(len(rows.rows), -1, np.int64),
    )
    draft.step_number[list(rows.steps)] = list(rows.steps.values())  # type: ignore[index]
    order_lanes(draft)
    return draft


def _select(database: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    cursor = database.execute(f"select * from {table}")  # noqa: S608 - one of our own table names
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _process(row: dict[str, Any]) -> int:
    """Return the identity of a process: its machine's id and its own."""
    return int(row.get("globalTid") or row.get("globalPid") or 0) >> 24


def _device_lane(row: dict[str, Any]) -> Lane:
    device, stream = int(row.get("deviceId") or 0), int(row.get("streamId") or 0)
    return Lane(rank=0, process=f"GPU {device}", thread=f"stream {stream}", device=device, stream=stream)


def _host_lane(row: dict[str, Any]) -> Lane:
    # A global thread id packs the process id into bits 24 to 47 and the thread id into the lowest 24.
    code = int(row.get("globalTid") or 0)
    return Lane(rank=0, process=f"process {code >> 24 & 0xFFFFFF}", thread=f"thread {code & 0xFFFFFF}")


def _kernels(rows: _Rows, kernels: list[dict[str, Any]], texts: dict[int, str]) -> None:
    for row in kernels:
        name = texts.get(row.get("demangledName") or row.get("shortName") or -1, "kernel")
        kind = Kind.COLLECTIVE if communication.communicates(name) else Kind.KERNEL
        lane = _device_lane(row)
        place = rows.add_row(name, kind, lane, row)
        grid, block = (
            int(np.prod([int(row.get(f"{what}{axis}") or 0) for axis in "XYZ"])) for what in ("grid", "block")
        )
        shared = int(row.get("staticSharedMemory") or 0) + int(row.get("dynamicSharedMemory") or 0)
        registers = int(row.get("registersPerThread") or -1)
        rows.kernels.append((place, lane.stream, grid, block, registers, shared))


def _copies(rows: _Rows, copies: list[dict[str, Any]], texts: dict[int, str]) -> None:
    for row in copies:
        name = f"Memcpy {_COPY_KINDS.get(int(row.get('copyKind') or 0), '')}".strip()
        rows.add_row(name, Kind.MEMCPY, _device_lane(row), row)


def _sets(rows: _Rows, sets: list[dict[str, Any]], texts: dict[int, str]) -> None:
    for row in sets:
        rows.add_row("Memset", Kind.MEMSET, _device_lane(row), row)


def _calls(rows: _Rows, calls: list[dict[str, Any]], texts: dict[int, str]) -> None:
    for row in calls:
        name = re.sub(r"_v\d+$", "", texts.get(row.get("nameId") or -1, "runtime call"))
        rows.add_row(name, Kind.RUNTIME_CALL, _host_lane(row), row)


def _ranges(rows: _Rows, ranges: list[dict[str, Any]], texts: dict[int, str]) -> None:
    for row in ranges:
        if not _is_range(row):
            continue
        name = _range_name(row, texts)
        kind, step = Kind.ANNOTATION, _step_of(name)
        if step:
            kind = Kind.STEP
        elif LOADING.match(name):
            kind = Kind.DATA_LOADING
        place = rows.add_row(name, kind, _host_lane(row), row, cuda=False)
        if step:
            rows.steps[place] = int(step[1])


def _is_range(row: dict[str, Any]) -> bool:
    return row.get("end") is not None and row.get("eventType", 59) in _RANGES


def _range_name(row: dict[str, Any], texts: dict[int, str]) -> str:
    return str(row.get("text") or texts.get(row.get("textId") or -1, "range"))


def _step_of(name: str) -> re.Match[str] | None:
    return STEP.match(name) or _NVTX_STEP.match(name)


def _system(rows: _Rows, calls: list[dict[str, Any]], texts: dict[int, str]) -> None:
    """Add calls of the operating system that a thread was in: waiting, reading, sleeping."""
    for row in calls:
        name = texts.get(row.get("nameId") or -1, "system call")
        rows.add_row(name, Kind.OTHER, _host_lane(row), row, cuda=False)


_DEVICE_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
)  # fmt: skip
_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": _kernels, "CUPTI_ACTIVITY_KIND_MEMCPY": _copies,
    "CUPTI_ACTIVITY_KIND_MEMSET": _sets, "CUPTI_ACTIVITY_KIND_RUNTIME": _calls, "NVTX_EVENTS": _ranges,
    "OSRT_API": _system,
}  # fmt: skip


def _epoch(database: sqlite3.Connection, tables: set[str]) -> int:
    if "TARGET_INFO_SESSION_START_TIME" not in tables:
        return 0
    row = next(iter(_select(database, "TARGET_INFO_SESSION_START_TIME")), {})
    return int(row.get("utcEpochNs") or 0)


def _devices(database: sqlite3.Connection, tables: set[str]) -> list[Device]:
    if "TARGET_INFO_GPU" not in tables:
        return []
    return [
        Device(
            rank=0,
            index=int(row.get("id") or 0),
            name=str(row.get("name") or ""),
            memory_bytes=int(row.get("totalMemory") or 0),
            multiprocessors=int(row.get("smCount") or 0),
            capability=f"{row['computeMajor']}.{row.get('computeMinor', 0)}"
            if row.get("computeMajor")
            else "",
        )
        for row in _select(database, "TARGET_INFO_GPU")
    ]
