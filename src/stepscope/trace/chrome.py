"""Any Chrome or Perfetto JSON trace: slices, counters, marks and arrows, whoever wrote it.

The pieces here also serve the Kineto and TensorFlow importers, which know more about the events' meaning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.text import counted
from stepscope.trace.distinct import distinct, numbered
from stepscope.trace.document import MISSING, Document
from stepscope.trace.draft import Array, Draft, InstantEvents
from stepscope.trace.model import Kind, Lane
from stepscope.trace.names import Strings

UNIX_NS = 10**17
"""Times beyond this (1973) are taken as Unix time: no machine is up for three years."""

_ARROW_BEGINS, _ARROW_ENDS = b"s", b"tf"
_MARKS = b"iIR"
_ASYNC_BEGIN, _ASYNC_END = b"bS", b"eF"


@dataclass(slots=True)
class Slices:
    """Events with a start and an end: rows of the document they began in, and their times."""

    row: Array
    start_ns: Array
    duration_ns: Array
    variant: Array
    """Splits one thread into several lanes if its events cannot nest: 0 is the thread itself."""


@dataclass(slots=True)
class ThreadNames:
    """Names and display positions of processes and threads; keys are texts as recorded."""

    process_name: dict[str, str] = field(default_factory=dict)
    process_label: dict[str, str] = field(default_factory=dict)
    process_sort: dict[str, float] = field(default_factory=dict)
    thread_name: dict[tuple[str, str], str] = field(default_factory=dict)
    thread_sort: dict[tuple[str, str], float] = field(default_factory=dict)


def draft_chrome(document: Document, path: str) -> Draft:
    """Make a draft of a trace of unknown origin: every slice is of kind OTHER.

    Raises:
        EmptyTraceError: No event at all.
    """
    slices = find_slices(document)
    draft = start_draft(document, slices, path, "chrome")
    draft.kind = np.full(len(slices.row), Kind.OTHER, np.uint8)
    draft.not_recorded = dict.fromkeys(
        ("steps", "device", "launches", "modules", "shapes", "memory"),
        "a plain Chrome trace does not say; record with the profiler of PyTorch, JAX or TensorFlow",
    )
    return draft


def start_draft(document: Document, slices: Slices, path: str, kind: str) -> Draft:
    """Make a draft with everything that needs no knowledge of the writer; kinds are left to the caller.

    Raises:
        EmptyTraceError: No event at all.
        TraceError: No event that can be read: something else stands there.
    """
    marks = rows_of(document, _MARKS)
    counters = rows_of(document, b"C")
    if not len(slices.row) and not len(marks) and not len(counters):
        malformed, cut = (document.dropped.get(name) for name in ("malformed_events", "cut_short"))
        if malformed or cut:
            reason = "something else" if malformed else "the end of the file"
            raise TraceError(
                f"no event of the trace can be read: expected objects in traceEvents, found {reason}",
                hint="it is damaged: record it again, or copy all of it again",
                path=path,
            )
        raise EmptyTraceError(
            f"the trace holds no events: {counted(len(document), 'entry', 'entries')}, none with a duration",
            hint="check that the profiler was active for at least one step before it was stopped",
            path=path,
        )
    arrows = rows_of(document, _ARROW_BEGINS + _ARROW_ENDS)
    arrows = arrows[document.start_ns[arrows] != MISSING]
    lanes, (slice_lane, counter_lane), (mark_lane, arrow_lane) = find_lanes(
        document, [(slices.row, slices.variant), (counters, None)], [marks, arrows]
    )
    strings = unescaped(document.strings, distinct(document.name[slices.row]))
    draft = Draft(
        format=kind, path=path, strings=strings, lanes=lanes, name=document.name[slices.row],
        kind=np.zeros(len(slices.row), np.uint8), lane=slice_lane, start_ns=slices.start_ns,
        duration_ns=slices.duration_ns, dropped=dict(document.dropped), notes=list(document.notes),
        facts=document.metadata,
    )  # fmt: skip
    draft.marks = InstantEvents(mark_lane, document.start_ns[marks], {"name": document.name[marks]})
    draft.counters = find_counters(document, counters, counter_lane, draft)
    draft.arrows = find_arrows(document, arrows, arrow_lane)
    set_clock(draft, document.metadata)
    return draft


def rows_of(document: Document, phases: bytes) -> Array:
    """Return the rows of some phases."""
    wanted = np.zeros(256, bool)
    wanted[list(phases)] = True
    return np.flatnonzero(wanted[document.phase])


# --- slices ------------------------------------------------------------------------------------------


def find_slices(document: Document) -> Slices:
    """Find complete events and pairs of begin and end events."""
    complete = rows_of(document, b"X")
    start, duration = document.start_ns[complete], document.duration_ns[complete]
    untimed = start == MISSING
    if untimed.any():
        count(document, "events_without_time", int(untimed.sum()))
        complete, start, duration = complete[~untimed], start[~untimed], duration[~untimed]
    missing = duration == MISSING
    if missing.any():
        count(document, "missing_durations", int(missing.sum()))
        duration = np.where(missing, 0, duration)
    parts = [Slices(complete, start, duration, np.zeros(len(complete), np.int8))]
    parts += [
        pair(document, b"B", b"E", stacked=True),
        pair(document, _ASYNC_BEGIN, _ASYNC_END, stacked=False),
    ]
    if not len(parts[1].row) and not len(parts[2].row):
        return parts[0]
    return Slices(
        *(
            np.concatenate([getattr(part, key) for part in parts])
            for key in ("row", "start_ns", "duration_ns", "variant")
        )
    )


def pair(document: Document, begins: bytes, ends: bytes, *, stacked: bool) -> Slices:
    """Pair begin and end events: the last opened closes first, or by id if ``stacked`` is False.

    Ends without a begin are dropped and counted; begins without an end last to the end of their thread,
    counted too.
    """
    rows = rows_of(document, begins + ends)
    rows = rows[document.start_ns[rows] != MISSING]
    nothing = np.zeros(0, np.int64)
    if not len(rows):
        return Slices(nothing, nothing, nothing, nothing.astype(np.int8))
    keys = [document.process[rows], document.thread[rows]]
    if not stacked:
        keys = [
            document.process[rows],
            document.category[rows],
            document.name[rows],
            document.column("id")[rows],
        ]
    group = np.unique(np.stack(keys), axis=1, return_inverse=True)[1].ravel()
    order = np.lexsort((rows, document.start_ns[rows], group))
    rows, group = rows[order], group[order]
    sign = np.where(np.isin(document.phase[rows], list(begins)), 1, -1)
    level = np.cumsum(sign)
    firsts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    base = np.repeat(level[firsts] - sign[firsts], np.diff(np.append(firsts, len(rows))))
    level = level - base
    floor = _running_minimum(level, firsts)
    loose = (sign < 0) & (level == floor) & (level < 0) & (np.append(0, floor[:-1]) > floor)
    loose |= (sign < 0) & (level < 0) & np.isin(np.arange(len(rows)), firsts)
    depth = np.where(sign > 0, level - 1, level) - floor
    count(document, "ends_without_begin", int(loose.sum()))
    keep = ~loose
    rows, group, sign, depth = rows[keep], group[keep], sign[keep], depth[keep]
    if not len(rows):
        return Slices(nothing, nothing, nothing, nothing.astype(np.int8))
    order = np.lexsort((np.arange(len(rows)), depth, group))
    rows, sign, group, depth = rows[order], sign[order], group[order], depth[order]
    begin = np.flatnonzero(sign > 0)
    after = np.minimum(begin + 1, len(rows) - 1)
    closed = (
        (sign[after] < 0) & (group[after] == group[begin]) & (depth[after] == depth[begin]) & (after > begin)
    )
    count(document, "begins_without_end", int(np.count_nonzero(~closed)))
    start = document.start_ns[rows[begin]]
    last = int(document.start_ns[rows].max())
    end = np.where(closed, document.start_ns[rows[after]], last)
    variant = np.full(len(begin), 0 if stacked else 3, np.int8)
    return Slices(rows[begin], start, end - start, variant)


def _running_minimum(level: Array, firsts: Array) -> Array:
    """Return the running minimum of each group, at most 0."""
    result = np.minimum(level, 0)
    for first, last in zip(firsts.tolist(), [*firsts[1:].tolist(), len(level)], strict=True):
        np.minimum.accumulate(result[first:last], out=result[first:last])
    return result


# --- lanes -------------------------------------------------------------------------------------------


def find_lanes(
    document: Document, groups: list[tuple[Array, Array | None]], guests: Sequence[Array] = ()
) -> tuple[list[Lane], list[Array], list[Array]]:
    """Give every (process, thread, variant) of some groups of rows a lane, in display order.

    Args:
        document: The document.
        groups: Rows, and their variants.
        guests: Rows that make no lane of their own; if theirs is not there, it is -1.

    Returns:
        The lanes, and the lane per row of each group and of each guest.
    """
    parts = [rows for rows, _ in groups] + list(guests)
    process = np.concatenate([document.process[rows] for rows in parts]) + 1
    thread = np.concatenate([document.thread[rows] for rows in parts]) + 1
    variant = np.zeros(len(process), np.int8)
    ends = np.cumsum([len(rows) for rows in parts])
    for (rows, variants), end in zip(groups, ends.tolist(), strict=False):
        if variants is not None:
            variant[end - len(rows) : end] = variants
    processes, process = numbered(process)
    threads, thread = numbered(thread)
    key = (process.astype(np.int64) * len(threads) + thread) * 4 + variant
    present, number = numbered(key)
    hosts = np.zeros(len(present), bool)
    hosts[number[: ends[len(groups) - 1]]] = True
    positions = np.flatnonzero(hosts)
    codes = present[positions]
    pids, tids = processes[codes // 4 // len(threads)] - 1, threads[codes // 4 % len(threads)] - 1
    known, texts = find_threads(document, pids, tids), document.strings
    entries = []
    for position, pid, tid, code in zip(
        positions.tolist(), pids.tolist(), tids.tolist(), codes.tolist(), strict=True
    ):
        where = texts[pid], texts[tid], code % 4
        entries.append((_sort_key(known, *where), position, _lane(known, *where)))
    entries.sort(key=lambda entry: entry[:2])
    place = np.full(len(present), -1, np.int32)
    place[[position for _, position, _ in entries]] = np.arange(len(entries))
    lanes = np.split(place[number], ends[:-1])
    return [lane for _, _, lane in entries], lanes[: len(groups)], lanes[len(groups) :]


_VARIANTS = ("", " (annotations)", " (sync)", " (async)")


def _lane(known: ThreadNames, pid: str, tid: str, variant: int) -> Lane:
    process = known.process_name.get(pid, "") or (f"process {pid}" if pid else "")
    label = known.process_label.get(pid, "")
    if label and label != "CPU":
        process = label
    thread = known.thread_name.get((pid, tid), "") or (f"thread {tid}" if tid else "")
    return Lane(rank=0, process=process.strip(), thread=thread.strip() + _VARIANTS[variant])


def _sort_key(known: ThreadNames, pid: str, tid: str, variant: int) -> tuple[Any, ...]:
    return (
        known.process_sort.get(pid, 0.0),
        _natural(pid),
        known.thread_sort.get((pid, tid), 0.0),
        _natural(tid),
        variant,
    )


def _natural(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.lstrip("-").isdecimal() and text.isascii() else (1, 0, text)


def find_threads(document: Document, process: Array, thread: Array) -> ThreadNames:
    """Read the metadata events (phase M) of some processes and threads.

    Recorders may describe hundreds of thousands of threads, each one many times; only the wanted ones are
    decoded, and of each the last.

    Args:
        document: The document.
        process: Processes that are wanted, numbers into the document's strings.
        thread: For each of these a thread in it.
    """
    known = ThreadNames()
    rows = rows_of(document, b"M")
    texts = document.strings
    args = document.column("args")
    names = np.array([texts.find(name) for name in _METADATA])
    rows = rows[(args[rows] >= 0) & np.isin(document.name[rows], names[names >= 0])]
    if not len(rows):
        return known
    what = np.argmax(document.name[rows][:, None] == names, axis=1)
    of_process = what < _PER_PROCESS
    size = len(texts) + 1
    pair = (document.process[rows].astype(np.int64) + 1) * size
    pair += np.where(of_process, 0, document.thread[rows] + 1)
    wanted_process = (process.astype(np.int64) + 1) * size
    wanted = np.where(of_process, np.isin(pair, wanted_process), np.isin(pair, wanted_process + thread + 1))
    rows, key = rows[wanted], pair[wanted] * len(_METADATA) + what[wanted]
    last = len(rows) - 1 - np.unique(key[::-1], return_index=True)[1]
    for row in rows[last].tolist():
        value = _json(texts[int(args[row])])
        pid, tid = texts[int(document.process[row])], texts[int(document.thread[row])]
        name = texts[int(document.name[row])]
        if name == "process_name":
            known.process_name[pid] = str(value.get("name", ""))
        elif name == "process_labels":
            known.process_label[pid] = str(value.get("labels", ""))
        elif name == "process_sort_index":
            known.process_sort[pid] = _number(value.get("sort_index"))
        elif name == "thread_name":
            known.thread_name[pid, tid] = str(value.get("name", ""))
        else:
            known.thread_sort[pid, tid] = _number(value.get("sort_index"))
    return known


_METADATA = ("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index")
_PER_PROCESS = 3
"""Number of those that describe a process, not a thread; they come first."""


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, strict=False)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def order_lanes(draft: Draft) -> None:
    """Put host lanes before device lanes, devices and their streams in order."""
    places = [
        (lane.device >= 0, lane.device, lane.stream if lane.device >= 0 else 0, number)
        for number, lane in enumerate(draft.lanes)
    ]
    _take_lanes(draft, [number for *_, number in sorted(places)])


def keep_rows(draft: Draft, wanted: Array) -> None:
    """Drop slices, and the lanes that have nothing left; call this before columns of slices are added."""
    emptied = set(draft.lane[~wanted].tolist()) - set(draft.lane[wanted].tolist())
    for name in ("name", "kind", "lane", "start_ns", "duration_ns"):
        setattr(draft, name, getattr(draft, name)[wanted])
    for points in (draft.memory, draft.counters, draft.marks, draft.arrows, draft.forward_arrows):
        emptied -= set() if points is None else set(points.lane.tolist())
    _take_lanes(draft, [number for number in range(len(draft.lanes)) if number not in emptied])


def _take_lanes(draft: Draft, order: list[int]) -> None:
    """Keep these lanes in this order."""
    place = np.full(len(draft.lanes) + 1, -1, np.int32)  # the last entry answers for lane -1
    place[order] = np.arange(len(order))
    draft.lanes = [draft.lanes[number] for number in order]
    draft.lane = place[draft.lane]
    for points in (draft.memory, draft.counters, draft.marks, draft.arrows, draft.forward_arrows):
        if points is not None:
            points.lane = place[points.lane]


# --- counters, arrows, clock -------------------------------------------------------------------------


def find_counters(document: Document, rows: Array, lane: Array, draft: Draft) -> InstantEvents | None:
    """Read counter events; each series of one becomes a sample named ``counter`` or ``counter: series``.

    New names are appended to the draft's strings.
    """
    args = document.column("args")[rows]
    names = document.name[rows]
    times = document.start_ns[rows]
    parsed = {number: _json(document.strings[number]) for number in distinct(args).tolist() if number >= 0}
    samples: list[tuple[int, int, str, float]] = []
    texts = draft.strings
    for place, time, name, number in zip(
        lane.tolist(), times.tolist(), names.tolist(), args.tolist(), strict=True
    ):
        title = texts[name]
        for series, value in parsed.get(number, {}).items():
            if isinstance(value, (int, float)) and time != MISSING:
                label = title if series in (title, "value", "") else f"{title}: {series}".removeprefix(": ")
                samples.append((place, time, label, float(value)))
    if not samples:
        return None
    draft.strings, numbers = draft.strings.extended(label for _, _, label, _ in samples)
    return InstantEvents(
        np.array([sample[0] for sample in samples], np.int32),
        np.array([sample[1] for sample in samples], np.int64),
        {"name": numbers, "value": np.array([sample[3] for sample in samples])},
    )


def find_arrows(document: Document, rows: Array, lane: Array) -> InstantEvents | None:
    """Read flow events; ids are told apart by category and name."""
    if not len(rows):
        return None
    identity = np.stack([document.category[rows], document.name[rows], document.column("id", MISSING)[rows]])
    ids = np.unique(identity, axis=1, return_inverse=True)[1].ravel()
    columns = {
        "id": ids, "begins": document.phase[rows] == _ARROW_BEGINS[0], "name": document.name[rows],
        "category": document.category[rows],
    }  # fmt: skip
    return InstantEvents(lane, document.start_ns[rows], columns)


def set_clock(draft: Draft, metadata: dict[str, Any]) -> None:
    """Make all times count from the first event, and note their clock."""
    base = metadata.get("baseTimeNanoseconds", 0)
    base = base if isinstance(base, int) else 0
    groups = [
        group for group in (draft.marks, draft.counters, draft.arrows, draft.memory) if group is not None
    ]
    first = (
        int(draft.start_ns.min())
        if len(draft.start_ns)
        else min(int(group.time_ns.min()) for group in groups if len(group))
    )
    draft.start_ns = draft.start_ns - first
    for group in groups:
        group.time_ns = group.time_ns - first
    draft.origin_ns = base + first
    draft.clock = "unix" if draft.origin_ns > UNIX_NS else "relative"
    whole = not (draft.start_ns % 1000).any() and not (draft.duration_ns % 1000).any()
    draft.resolution_ns = 1000 if whole else 1


# --- texts -------------------------------------------------------------------------------------------


def unescaped(strings: Strings, used: Array) -> Strings:
    """Return a table in which JSON escapes of the given texts are resolved."""
    if not (strings.data == ord("\\")).any():
        return strings
    texts = list(strings.texts())
    for number in used.tolist():
        if number >= 0 and "\\" in texts[number]:
            texts[number] = unescape(texts[number])
    return Strings.of(texts)


def unescape(text: str) -> str:
    """Resolve the JSON escapes of a string's text; a bad one leaves it as it is."""
    try:
        value = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return str(value)


def count(document: Document, what: str, number: int) -> None:
    """Count something that was lost or repaired."""
    if number:
        document.dropped[what] = document.dropped.get(what, 0) + number
