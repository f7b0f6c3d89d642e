"""The kernel table: device work by name."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from stepscope.analyze.groups import Floats, Groups, PerStep
from stepscope.analyze.idle import launching_operators
from stepscope.attribute.device import no_device_work
from stepscope.attribute.spans import Ints
from stepscope.trace.model import Kind, Trace

TENSOR_CORE = re.compile(
    r"[hsci](?:884|1688|8816|16816|1688)|hmma|imma|gmma|utcmma|tensorop|xmma|nvjet|cutlass\w*sm(?:90|100)"
)
"""Names of NVIDIA kernels that use tensor cores, after the lists of XProf and NVIDIA's pyprof. A name can
lie."""


@dataclass(frozen=True, slots=True)
class KernelStats:
    """All device work of one name; ratios 0 to 1, None if not recorded."""

    name: str
    kind: str
    calls: int
    total_ns: int
    share_ratio: float
    """Of the sum over all device work."""
    mean_ns: float
    min_ns: int
    max_ns: int
    per_step: PerStep
    operators: tuple[str, ...]
    """The operators that launched most of its time, at most three; empty if launches were not recorded."""
    bytes: int | None
    occupancy_ratio: float | None
    """Weighted by duration."""
    blocks_per_multiprocessor: float | None
    """Weighted by duration; below 1 the grid is too small for the device."""
    tensor_core: bool
    """Whether the name is one of kernels that use tensor cores."""


def kernel_table(trace: Trace, *, rank: int | None = None) -> tuple[KernelStats, ...]:
    """Sum device work by name and kind, most time first.

    Args:
        trace: Of any number of ranks.
        rank: Only this one.

    Raises:
        EmptyTraceError: No work of a device was recorded.
    """
    rows = trace.device_work()
    if rank is not None:
        rows = rows[trace.rank[rows] == rank]
    if not len(rows):
        raise no_device_work(trace, "which kernels ran")
    time = trace.duration_ns[rows]
    groups = Groups.by(trace.name[rows].astype(np.int64) << 4 | trace.kind[rows])
    total, count = groups.sum(time), groups.count()
    least, most = groups.least(time), groups.most(time)
    steps = groups.per_step(trace, rows, time)
    operators = operators_of(trace, rows, groups, time)
    moved, measured = _bytes(trace, rows, groups)
    occupancy, blocks = _launch_shape(trace, rows, groups)
    whole = max(1, int(total.sum()))
    texts = trace.strings
    table = [
        KernelStats(
            name=texts[int(groups.key[g]) >> 4],
            kind=Kind(int(groups.key[g]) & 15).name.lower(),
            calls=int(count[g]),
            total_ns=int(total[g]),
            share_ratio=float(total[g] / whole),
            mean_ns=float(total[g] / count[g]),
            min_ns=int(least[g]),
            max_ns=int(most[g]),
            per_step=steps[g],
            operators=operators[g],
            bytes=int(moved[g]) if measured[g] else None,
            occupancy_ratio=known(occupancy[g]),
            blocks_per_multiprocessor=known(blocks[g]),
            tensor_core=bool(TENSOR_CORE.search(texts[int(groups.key[g]) >> 4])),
        )
        for g in np.argsort(-total, kind="stable").tolist()
    ]
    return tuple(table)


def known(value: float) -> float | None:
    """Return a number, None for NaN."""
    return None if np.isnan(value) else float(value)


def operators_of(trace: Trace, rows: Ints, groups: Groups, time: Ints) -> list[tuple[str, ...]]:
    """Return for each group the names of the operators that launched most of its time."""
    operator = launching_operators(trace, rows)
    known = operator >= 0
    names: list[tuple[str, ...]] = [()] * len(groups)
    if not known.any():
        return names
    pairs = Groups.by_pair(groups.of[known], trace.name[operator[known]])
    order = np.lexsort((-pairs.sum(time[known]), pairs.key >> 32))
    which, name = (pairs.key[order] >> 32).tolist(), (pairs.key[order] & 0xFFFFFFFF).tolist()
    for group, number in zip(which, name, strict=True):
        if len(names[group]) < 3:
            names[group] = (*names[group], trace.strings[number])
    return names


def _bytes(trace: Trace, rows: Ints, groups: Groups) -> tuple[Ints, Ints]:
    known = trace.bytes[rows] >= 0
    moved = np.bincount(groups.of[known], weights=trace.bytes[rows[known]], minlength=len(groups))
    return moved, np.bincount(groups.of[known], minlength=len(groups))


def _launch_shape(trace: Trace, rows: Ints, groups: Groups) -> tuple[Floats, Floats]:
    """Return each group's occupancy and blocks per multiprocessor, weighted by duration; NaN = unknown."""
    table = trace.kernels
    place = np.full(len(trace), -1, np.int64)
    place[rows] = groups.of
    of = place[table.row]
    out = []
    for column in (table.occupancy, table.blocks_per_sm):
        known = (of >= 0) & ~np.isnan(column)
        weight = trace.duration_ns[table.row[known]].astype(np.float64)
        value = np.bincount(of[known], weights=column[known] * weight, minlength=len(groups))
        whole = np.bincount(of[known], weights=weight, minlength=len(groups))
        out.append(np.divide(value, whole, out=np.full(len(groups), np.nan), where=whole > 0))
    return out[0], out[1]
