"""Products, convolutions and attention by the shapes of their inputs: time, work, rate and bound of each.

A row is an operator with one set of shapes in one number format. The work of a call is that of
:mod:`stepscope.analyze.flops`; in XLA programs, that of the instruction. Its time is the device's if work
was launched by it, else the host's. Its bound:

- ``launch``: the device had run dry when most of the calls were handed over, and is done with a call sooner
  than the host, so that faster arithmetic or memory gains nothing
- ``memory``, ``compute``: the lower roof of the device at the row's operations per byte
  (:mod:`stepscope.analyze.roofline`), if the device's peak is known
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope import text
from stepscope.analyze.flops import OperatorWork, calls_of, operator_work
from stepscope.analyze.groups import Groups
from stepscope.analyze.peaks import PeakRates
from stepscope.analyze.roofline import (
    StepRoof,
    call_times,
    formats_of,
    require_work,
    roof_of,
    step_roofs,
    used_peak,
    utilisation,
)
from stepscope.attribute.spans import Ints
from stepscope.attribute.windows import windows
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace


@dataclass(frozen=True, slots=True)
class ShapeRow:
    """All calls of one operator with the same shapes in one number format; None if it is not known."""

    name: str
    kind: str
    """``product``, ``convolution``, ``attention`` or ``fused``: an XLA instruction that holds several."""
    shapes: str
    """As recorded: of the inputs, of XLA instructions also of the result."""
    number_format: str
    calls: int
    total_ns: int
    """Time of all calls: the device's, else the host's."""
    on_device: bool
    share_ratio: float | None
    """Share of the time of all such work."""
    flops: int
    """Of one call, as all those below but the rates."""
    bytes: int | None
    flops_per_second: float | None
    bytes_per_second: float | None
    intensity: float | None
    """Operations per byte."""
    attainable_flops_per_second: float | None
    efficiency_ratio: float | None
    bound: str | None
    """``compute``, ``memory`` or ``launch``."""


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Rows with most time first."""

    rows: tuple[ShapeRow, ...]
    peak: PeakRates | None
    utilisation_ratio: float | None
    """Model FLOPs utilisation: operations of all steps over their time and the device's peak; None if the
    peak or part of the work is not known."""
    steps: tuple[StepRoof, ...]
    counted_ratio: float | None
    """Share of the device's time that this work has; the rest has no operations that are counted."""
    notes: tuple[str, ...]

    @property
    def text(self) -> str:
        """A table, the numbers first and the shapes last."""
        return "\n".join([*self._head(), "", *self._lines()]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON types."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "peak": None if self.peak is None else asdict(self.peak),
            "utilisation_ratio": self.utilisation_ratio,
            "counted_ratio": self.counted_ratio,
            "notes": list(self.notes),
        }

    def _head(self) -> Iterator[str]:
        yield "products, convolutions and attention by shapes"
        if self.utilisation_ratio is not None and self.counted_ratio is not None:
            counted = f"the work below takes {text.share(self.counted_ratio)} of the device's time"
            yield f"model FLOPs utilisation: at least {text.share(self.utilisation_ratio)}; {counted}"
        for note in self.notes:
            yield f"note: {note}"

    def _lines(self) -> Iterator[str]:
        heads = ["time", "share", "calls", "a call", "FLOPs", "achieved", "of roof", "FLOP/B", "bound"]
        names = [f"{row.name}  {row.shapes}  {row.number_format}".rstrip() for row in self.rows]
        rows = [[*_cells(row), name] for row, name in zip(self.rows, names, strict=True)]
        yield from text.table_lines([[*heads, "what"], *rows])


def shape_table(trace: Trace) -> ShapeTable:
    """Return the work of products, convolutions and attention by the shapes of their inputs.

    Raises:
        EmptyTraceError: Neither shapes nor operations were recorded, or none of an operator that is counted.
    """
    work = require_work(trace, operator_work(trace))
    peak, notes = used_peak(trace)
    formats = formats_of(trace, work)
    of_format = np.array(formats)
    time, on_device = call_times(trace, work)
    dry = _found_dry(trace, work)
    handed = np.where(trace.kind[work.rows] == Kind.HOST_OP, trace.duration_ns[work.rows], 0)
    shapes = _shapes(trace, work)
    kinds = sorted(set(formats))
    names = _names(trace, work)
    keys = np.stack([names, shapes, np.array([kinds.index(one) for one in formats])])
    groups = Groups.by(np.unique(keys, axis=1, return_inverse=True)[1].ravel())
    first = np.array([int(np.flatnonzero(groups.of == g)[0]) for g in range(len(groups))])
    total, calls, flops = groups.sum(time), groups.count(), groups.sum(work.flops)
    moved, unknown = groups.sum(np.maximum(work.bytes, 0)), groups.sum((work.bytes < 0).astype(np.int64))
    host, whole, waited = groups.sum(handed), int(time.sum()), groups.sum(dry.astype(np.int64))
    if work.unknown:
        notes.append(
            "left out, so utilisation is not known: what was recorded does not tell the work of "
            + calls_of(work.unknown)
        )
    rows = []
    for g in np.lexsort((-flops, -total)).tolist():
        at = int(first[g])
        name, seconds = trace.strings[int(names[at])], int(total[g]) * 1e-9
        moved_bytes = None if unknown[g] else int(moved[g])
        rate = int(flops[g]) / seconds if seconds else None
        roof = roof_of(peak, formats[at], flops=int(flops[g]), moved=moved_bytes, rate=rate)
        launches = on_device[at] and 2 * waited[g] > calls[g] and 0 < total[g] < host[g]
        rows.append(
            ShapeRow(
                name=name,
                kind=_kind(name),
                shapes=_readable(trace.strings[int(shapes[at])]),
                number_format=formats[at],
                calls=int(calls[g]),
                total_ns=int(total[g]),
                on_device=bool(on_device[at]),
                share_ratio=int(total[g]) / whole if whole else None,
                flops=round(int(flops[g]) / int(calls[g])),
                bytes=None if moved_bytes is None else round(moved_bytes / int(calls[g])),
                flops_per_second=rate,
                bytes_per_second=moved_bytes / seconds if moved_bytes is not None and seconds else None,
                intensity=roof.intensity,
                attainable_flops_per_second=roof.attainable,
                efficiency_ratio=roof.efficiency,
                bound="launch" if launches else roof.bound,
            )
        )
    device, every = int(trace.duration_ns[trace.device_work()].sum()), windows(trace)
    inside = trace.step[work.rows] >= 0 if every.marked else np.ones(len(work.rows), bool)
    wall = int((every.end_ns - every.start_ns).sum())
    return ShapeTable(
        rows=tuple(rows),
        peak=peak,
        utilisation_ratio=utilisation(work, of_format, inside, wall, peak),
        steps=step_roofs(trace, work, of_format, peak),
        counted_ratio=float(time[on_device].sum() / device) if device else None,
        notes=tuple(notes),
    )


def _kind(name: str) -> str:
    plain = name.lower()
    for kind, marks in (
        ("attention", ("attention", "fmha", "sdpa")),
        ("convolution", ("conv",)),
        ("fused", ("fusion",)),
    ):
        if any(mark in plain for mark in marks):
            return kind
    return "product"


def _names(trace: Trace, work: OperatorWork) -> Ints:
    """Return the name of each call: of an XLA instruction its program's and its own."""
    own: Ints = trace.name.copy()
    own[trace.instructions.row] = trace.instructions.label
    names: Ints = own[work.rows]
    return names


def _shapes(trace: Trace, work: OperatorWork) -> Ints:
    of_row = np.full(len(trace), -1, np.int32)
    of_row[trace.operators.row] = trace.operators.shapes
    of_row[trace.instructions.row] = trace.instructions.shapes
    shapes: Ints = of_row[work.rows]
    return shapes


def _found_dry(trace: Trace, work: OperatorWork) -> npt.NDArray[np.bool_]:
    """Return whether the device had run dry when each call submitted its first work."""
    device = trace.device_work()
    device = device[trace.launch[device] >= 0]
    order = np.lexsort((trace.start_ns[device], trace.device[device], trace.rank[device]))
    device = device[order]
    place = trace.rank[device].astype(np.int64) << 16 | trace.device[device]
    dry = np.ones(len(device), bool)
    for one in distinct(place).tolist():
        mine = np.flatnonzero(place == one)
        busy = np.maximum.accumulate(trace.end_ns[device[mine]])
        dry[mine[1:]] = busy[:-1] <= trace.start_ns[trace.launch[device[mine[1:]]]]
    counted = np.zeros(len(trace), bool)
    counted[work.rows] = True
    owner = trace.nearest(counted)[trace.launch[device]]
    is_dry = np.zeros(len(trace), bool)
    known = np.flatnonzero(owner >= 0)[::-1]  # the first one is written last
    is_dry[owner[known]] = dry[known]
    return np.asarray(is_dry[work.rows])


def _readable(text: str) -> str:
    """Return recorded shapes on one line, without inputs that have none."""
    if not text.startswith("["):
        return text
    try:
        shapes = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return " ".join(text.split())
    return " ".join(f"[{','.join(map(str, shape))}]" for shape in shapes if shape)


def _cells(row: ShapeRow) -> list[str]:
    def shown(value: float | None, text: Any) -> str:
        return "-" if value is None else str(text(value))

    return [
        text.time(row.total_ns),
        shown(row.share_ratio, text.share),
        text.quantity(row.calls),
        text.time(row.total_ns / row.calls),
        text.flops(row.flops),
        shown(row.flops_per_second, text.flop_rate),
        shown(row.efficiency_ratio, text.share),
        shown(row.intensity, lambda value: f"{value:.1f}"),
        row.bound or "-",
    ]
