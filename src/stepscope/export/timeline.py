"""Any trace as Chrome trace JSON, for https://ui.perfetto.dev and chrome://tracing.

Format: the "Trace Event Format" of Chrome, in the object form. Events are ``X`` with microseconds since the
trace's zero to three decimals, so nanoseconds survive; launches and forward-to-backward links are flows
(``s``/``f``), memory and counters ``C``, marks ``i``, names of rows ``M``. Categories and the arguments
``stream``, ``device`` and ``correlation`` are spelled as PyTorch's profiler spells them, which other tools
read too.

Viewers drop an event that overlaps another of its row in part, so a lane with such events is written as
several rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stepscope import lazy
from stepscope.export.layout import RowLayout, layout
from stepscope.export.lines import LineTexts, counter_lines, quoted
from stepscope.export.scrub import scrub, scrub_texts
from stepscope.files import replacing
from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints
from stepscope.version import __version__

with lazy.needs("stepscope[frames]"):
    import polars as pl

_CHUNK = 200_000
_COMPRESSION = 1
_GZIP = 31
"""zlib's word for a gzip header around the widest window."""


def write_timeline(trace: Trace, path: str | os.PathLike[str], *, scrubbed: bool = True) -> int:
    """Write a trace for viewers.

    Args:
        trace: Of any number of ranks; each rank's processes and devices are processes of the viewer.
        path: Compressed if the name ends in ``.gz``.
        scrubbed: Remove secrets, environment dumps and user names in paths.

    Returns:
        Number of events of kinds ``X``, ``C`` and ``i`` written; flows and names of rows are not counted.

    Raises:
        OSError: The file cannot be written.
    """
    place = layout(trace)
    with replacing(path, gzipped=str(path).endswith(".gz")) as file:
        for piece in _pieces(trace, place, scrubbed):
            file.write(piece)
    finite = int(np.isfinite(trace.counters.value).sum())
    return len(trace) - place.left_out + finite + len(trace.marks) + len(_levels(trace))


def gzipped_timeline(trace: Trace) -> Iterator[bytes]:
    """Yield the output of :func:`write_timeline` to a file with the ending ``.gz``, piece by piece."""
    from isal import isal_zlib

    packer = isal_zlib.compressobj(_COMPRESSION, wbits=_GZIP)
    for piece in _pieces(trace, layout(trace), scrubbed=True):
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _pieces(trace: Trace, place: RowLayout, scrubbed: bool) -> Iterator[bytes]:
    yield _head(trace, place, scrubbed)
    separator, joint = "", ",\n"
    for lines in _lines(trace, place, scrubbed):
        if len(lines):
            yield f"{separator}{lines.str.join(joint).item()}".encode()
            separator = joint
    yield b"\n]}\n"


def _head(trace: Trace, place: RowLayout, scrubbed: bool) -> bytes:
    """Return everything before the events: viewers ignore it, other readers need it."""
    facts: dict[str, Any] = {"displayTimeUnit": "ms"}
    if len(trace.sources) == 1 and trace.format == "kineto":
        own = trace.sources[0].facts
        facts.update(
            {key: own[key] for key in ("schemaVersion", "deviceProperties", "distributedInfo") if key in own}
        )
    if trace.clock == "unix":
        facts["baseTimeNanoseconds"] = trace.origin_ns
    facts["otherData"] = {
        "exporter": f"stepscope {__version__}",
        "format": trace.format,
        "sources": [
            {"file": Path(s.path).name, "format": s.format, "rank": s.rank, "world_size": s.world_size}
            for s in trace.sources
        ],
        "not_recorded": trace.not_recorded,
        "dropped": trace.dropped | ({"overlapping": place.left_out} if place.left_out else {}),
        "notes": list(trace.notes),
    }
    text = msgspec.json.encode(scrub(facts) if scrubbed else facts)
    return text[:-1] + b',"traceEvents":[\n'


# --- rows --------------------------------------------------------------------------------------------------


def _processes(trace: Trace) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the viewer's process of each lane, and rank and name of each process."""
    numbers: dict[tuple[int, str], int] = {}
    of_lane = [numbers.setdefault((lane.rank, lane.process), len(numbers)) for lane in trace.lanes]
    return of_lane, list(numbers)


def _names(trace: Trace, place: RowLayout, scrubbed: bool) -> Iterator[dict[str, Any]]:
    """Yield the names and positions of processes and rows."""
    of_lane, processes = _processes(trace)
    ranks = len({rank for rank, _ in processes}) > 1
    for pid, (rank, name) in enumerate(processes):
        shown = f"rank {rank}: {name}" if ranks else name
        yield _meta("process_name", pid, 0, {"name": scrub_texts([shown])[0] if scrubbed else shown})
        yield _meta("process_sort_index", pid, 0, {"sort_index": pid})
    for tid, (lane, level) in enumerate(place.tracks):
        name = trace.lanes[lane].thread or trace.lanes[lane].process
        shown = f"{name} ({level + 1})" if level else name
        yield _meta(
            "thread_name", of_lane[lane], tid, {"name": scrub_texts([shown])[0] if scrubbed else shown}
        )
        yield _meta("thread_sort_index", of_lane[lane], tid, {"sort_index": tid})


def _meta(name: str, pid: int, tid: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": pid, "tid": tid, "ts": 0, "args": arguments}


# --- events ------------------------------------------------------------------------------------------------


def _lines(trace: Trace, place: RowLayout, scrubbed: bool) -> Iterator[pl.Series]:
    """Yield the events as lines of JSON, about a hundred thousand at a time."""
    yield _encoded(_names(trace, place, scrubbed))
    of_lane, processes = _processes(trace)
    columns = LineTexts(trace, place, of_lane, scrubbed)
    rows = np.flatnonzero(place.track >= 0)
    for start in range(0, len(rows), _CHUNK):
        yield columns.events(rows[start : start + _CHUNK])
    work = np.flatnonzero((trace.launch >= 0) & (trace.device >= 0))
    yield from columns.flows("ac2g", trace.launch[work], work, 0)
    backward = _first_backward(trace)
    yield from columns.flows("fwdbwd", trace.forward[backward], backward, len(trace))
    for number in np.unique(trace.flows.name):
        mine = trace.flows.name == number
        name = trace.strings[int(number)]
        name = scrub_texts([name])[0] if scrubbed else name
        source, target = trace.flows.source[mine], trace.flows.target[mine]
        yield from columns.flows(name, source, target, 2 * len(trace))
    yield _counters(trace, of_lane, scrubbed)
    yield _memory(trace, {rank: pid for pid, (rank, _) in reversed(list(enumerate(processes)))})
    yield _encoded(_marks(trace, place, of_lane, scrubbed))


def _first_backward(trace: Trace) -> Ints:
    """Return the outermost host rows of each backward operator: their parent belongs to another forward."""
    rows = np.flatnonzero((trace.forward >= 0) & (trace.device < 0))
    above = trace.parent[rows]
    same = (above >= 0) & (trace.forward[above] == trace.forward[rows])
    outermost: Ints = rows[~same]
    return outermost


def _encoded(events: Iterator[dict[str, Any]]) -> pl.Series:
    return pl.Series([msgspec.json.encode(event).decode() for event in events], dtype=pl.String)


# --- counters, memory, marks --------------------------------------------------------------------------


def _counters(trace: Trace, of_lane: list[int], scrubbed: bool) -> pl.Series:
    table = trace.counters
    finite = np.isfinite(table.value)
    pids = np.array([*of_lane, 0], np.int64)  # the last entry serves -1
    values = pl.Series(table.value[finite]).cast(pl.String)
    names = quoted(trace.strings.texts(), scrubbed).gather(table.name[finite])
    return counter_lines(names, pids[table.lane[finite]], table.time_ns[finite], [("value", values)])


def _levels(trace: Trace) -> Ints:
    """Return the rows of the memory table that record a level."""
    return np.flatnonzero(trace.memory.allocated_bytes >= 0)


def _memory(trace: Trace, pid_of_rank: dict[int, int]) -> pl.Series:
    table, rows = trace.memory, _levels(trace)
    devices, which = np.unique(table.device[rows], return_inverse=True)
    names = [f'"memory of device {d} (bytes)"' if d >= 0 else '"memory of the host (bytes)"' for d in devices]
    pids = np.array([pid_of_rank.get(int(rank), 0) for rank in table.rank[rows]], np.int64)
    reserved = pl.Series(table.reserved_bytes[rows])
    values = [
        ("allocated", pl.Series(table.allocated_bytes[rows]).cast(pl.String)),
        ("reserved", reserved.cast(pl.String).set(reserved < 0, None)),
    ]
    return counter_lines(pl.Series(names, dtype=pl.String).gather(which), pids, table.time_ns[rows], values)


def _exact_micros(time_ns: int) -> msgspec.Raw:
    return msgspec.Raw(f"{time_ns // 1000}.{time_ns % 1000:03d}".encode())


def _marks(trace: Trace, place: RowLayout, of_lane: list[int], scrubbed: bool) -> Iterator[dict[str, Any]]:
    track = {lane: tid for tid, (lane, level) in enumerate(place.tracks) if level == 0}
    table = trace.marks
    texts = [trace.strings[number] for number in table.name.tolist()]
    names = scrub_texts(texts) if scrubbed else texts
    for lane, time, name in zip(table.lane.tolist(), table.time_ns.tolist(), names, strict=True):
        event = {"ph": "i", "name": name, "ts": _exact_micros(time), "s": "g", "pid": 0, "tid": 0}
        if lane >= 0:
            event |= {"pid": of_lane[lane], "tid": track.get(lane, 0), "s": "t"}
        yield event
