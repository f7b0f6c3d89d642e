"""SQLite exports of Nsight Systems, with the columns that nsys 2024 writes."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

THREAD = 0x0100_0000_0000_0000 | 4711 << 24 | 4712
TABLES: dict[str, tuple[str, list[tuple[Any, ...]]]] = {
    "StringIds": ("id, value", [
        (1, "gemm_kernel(float)"), (2, "gemm"), (3, "cudaLaunchKernel_v7000"), (4, "iteration 3"),
        (5, "ncclDevKernel_AllReduce_Sum_f32"), (6, "dataloader"),
    ]),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start, end, deviceId, streamId, correlationId, demangledName, shortName, gridX, gridY, gridZ, "
        "blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory",
        [(500, 900, 0, 7, 21, 1, 2, 4, 2, 1, 128, 1, 1, 32, 16, 32),
         (950, 990, 0, 7, 22, 5, 5, 1, 1, 1, 1, 1, 1, 8, 0, 0)],
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start, end, deviceId, streamId, correlationId, bytes, copyKind", [(300, 350, 0, 7, 20, 64, 1)]
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start, end, globalTid, correlationId, nameId", [(200, 220, THREAD, 21, 3)]
    ),
    "NVTX_EVENTS": ("start, end, eventType, globalTid, text, textId", [
        (100, 800, 59, THREAD, None, 4), (110, 120, 59, THREAD, "dataloader", None),
        (130, None, 34, THREAD, "mark", None),
    ]),
    "TARGET_INFO_GPU": (
        "id, name, totalMemory, smCount, computeMajor, computeMinor", [(0, "NVIDIA H100", 80, 132, 9, 0)]
    ),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs", [(1_700_000_000_000_000_000,)]),
}  # fmt: skip
"""A row or more in each table that is read: its columns, and the rows."""


def export(path: Path, tables: Mapping[str, tuple[str, list[tuple[Any, ...]]]]) -> Path:
    """Write tables as a database, in pages as small as can be."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma page_size = 512")
        for name, (columns, rows) in tables.items():
            database.execute(f"create table {name} ({columns})")
            for row in rows:
                database.execute(f"insert into {name} values ({', '.join('?' * len(row))})", row)
        database.commit()
    return path
