"""TensorFlow's RunMetadata: the StepStats of one ``session.run``, from a file or from an event file.

Times are those that TensorFlow's own timeline shows: from ``all_start`` to ``all_end``, in nanoseconds if
they were recorded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.events import EventFile
from stepscope.trace.chrome import UNIX_NS
from stepscope.trace.draft import Draft, InstantEvents
from stepscope.trace.formats import looks_like_event_file
from stepscope.trace.model import Kind, Lane
from stepscope.trace.names import Paths, Strings
from stepscope.trace.nodes import (
    data_type,
    find_repeats,
    node_kind,
    pack,
    parse_label,
    scope_parts,
    set_outputs,
    stream_of,
)
from stepscope.trace.schema import message, text
from stepscope.trace.tables import MemoryAction
from stepscope.trace.timeline import REASONS

_TAGGED = "graph_tagged_run_metadata"
"""The plugin under which event files keep the profiles of TensorFlow's ``ProfilerHook``, step by step."""
_STEP = re.compile(r"(?:step|run_meta(?:data)?)[-_]?(?:step)?[-_]?(\d+)|[-_](\d+)\.pb")


def read(path: Path) -> list[Draft]:
    """Read a RunMetadata file, or an event file that holds some.

    Raises:
        TraceError: Not such a message.
        EmptyTraceError: One without StepStats, or an event file without RunMetadata.
        EventFileError: The event file is damaged.
    """
    with path.open("rb") as file:
        if looks_like_event_file(file.read(12)):
            return _tagged(path)
    match = _STEP.search(path.name)
    step = int(match[1] or match[2]) if match else 0
    draft = draft_run_metadata(path.read_bytes(), str(path), step)
    if not match:
        draft.notes.append("the file's name does not say its step; taken as step 0")
    return [draft]


def _tagged(path: Path) -> list[Draft]:
    """Return every RunMetadata of an event file."""
    file = EventFile(path)
    records = file.read().records
    drafts: list[Draft] = []
    for position, plugin in zip(records.position, records.plugin, strict=True):
        if plugin != _TAGGED:
            continue
        tagged = file.event_at(int(position)).tagged_run_metadata
        if tagged is None:
            continue
        number = re.search(r"(\d+)\D*$", tagged.tag)
        drafts.append(
            draft_run_metadata(tagged.run_metadata, str(path), int(number[1]) if number else len(drafts))
        )
    if not drafts:
        raise EmptyTraceError(
            "the event file holds no profile: no RunMetadata in it",
            hint="profile a step with ProfilerHook, or with FileWriter.add_run_metadata", path=path,
        )  # fmt: skip
    return drafts


@dataclass(slots=True)
class _Events:
    """Columns in the making."""

    node: list[str] = field(default_factory=list)
    operator: list[str] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    lane: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    duration: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    inputs: list[list[str]] = field(default_factory=list)
    memory: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    outputs: dict[int, dict[int, str]] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)


def draft_run_metadata(data: bytes, path: str, step: int) -> Draft:
    """Make a draft of a serialized RunMetadata.

    Raises:
        TraceError: Not such a message.
        EmptyTraceError: One without StepStats.
    """
    run = message("RunMetadata")()
    try:
        run.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, whichever of its implementations is installed
        raise TraceError(
            f"not a RunMetadata message: {error}",
            path=path,
            hint="pass what RunMetadata.SerializeToString() gave; record it again if it was cut short",
        ) from error
    events = _Events()
    executed = [
        (text(device.device), node) for device in run.step_stats.dev_stats for node in device.node_stats
    ]
    repeats = find_repeats(
        [name for name, _ in executed],
        [(bytes(node.node_name), _start(node), _end(node)) for _, node in executed],
    )
    for device in dict.fromkeys(text(device.device) for device in run.step_stats.dev_stats):
        mine = [
            (node, copy)
            for (name, node), copy, repeated in zip(executed, repeats.copies, repeats.repeated, strict=True)
            if name == device and not repeated
        ]
        _add_device(events, device, mine)
    if not events.node:
        raise EmptyTraceError(
            "the RunMetadata holds no executed nodes",
            hint="run the step with RunOptions(trace_level=RunOptions.FULL_TRACE)", path=path,
        )  # fmt: skip
    return _draft(events, path, step, len(data))


def _add_device(events: _Events, name: str, nodes: list[tuple[Any, bool]]) -> None:
    number, stream = stream_of(name)
    nodes = sorted(nodes, key=lambda node: _start(node[0]))
    spans = [(_start(node), max(_end(node), 0)) for node, _ in nodes]
    rows = pack([start // 1000 for start, _ in spans], [(start + length) // 1000 for start, length in spans])
    first = len(events.lanes)
    events.lanes += [
        Lane(rank=0, process=name, thread=f"row {row}", device=number, stream=stream)
        for row in range(max(rows, default=-1) + 1)
    ]
    for (node, copy), (start, length), row in zip(nodes, spans, rows, strict=True):
        title, operator, inputs = parse_label(text(node.node_name), text(node.timeline_label))
        kind = Kind.MEMCPY if copy else node_kind(title, operator, number >= 0)
        size = sum(output.tensor_description.allocation_description.requested_bytes for output in node.output)
        events.node.append(title)
        events.operator.append(operator or title.rsplit("/", 1)[-1])
        events.inputs.append(inputs)
        events.kind.append(kind)
        events.lane.append(first + row)
        events.start.append(start)
        events.duration.append(length)
        events.bytes.append(size if kind in (Kind.SEND_RECV, Kind.COLLECTIVE) else -1)
        _add_memory(events, node, number)
        tensors = [output for output in node.output if output.tensor_description.dtype]
        if made := {output.slot: _tensor(output.tensor_description) for output in tensors}:
            events.outputs[len(events.node) - 1] = made


def _tensor(description: Any) -> str:
    """Return type and shape: ``float[8,16]``; a size that is not known is a question mark."""
    shape = description.shape
    sizes = "?" if shape.unknown_rank else ",".join("?" if d.size < 0 else str(d.size) for d in shape.dim)
    return f"{data_type(description.dtype)}[{sizes}]"


def _start(node: Any) -> int:
    return int(node.all_start_nanos or node.all_start_micros * 1000)


def _end(node: Any) -> int:
    return int(node.all_end_rel_nanos or node.all_end_rel_micros * 1000)


def _add_memory(events: _Events, node: Any, device: int) -> None:
    """Note a node's allocations and frees.

    No address is recorded: a free is taken to be of the oldest of that size.
    """
    for used in node.memory:
        held: dict[int, list[int]] = {}
        for record in used.allocation_records:
            on_device = device if device >= 0 or "gpu" not in text(used.allocator_name).lower() else 0
            size, number = int(record.alloc_bytes), len(events.memory) + 1
            if size >= 0:
                held.setdefault(size, []).append(number)
            else:
                number = held[-size].pop(0) if held.get(-size) else 0
            events.memory.append((record.alloc_micros * 1000, size, on_device, len(events.node) - 1, number))


def _arrows(events: _Events, names: dict[str, int], origin: int) -> InstantEvents | None:
    """Return the way of each tensor from the node that made it to those on other lanes that used it.

    As TensorFlow's timeline draws them: through a send and receive, whose nodes are not recorded, the name
    loses its number (``x/_123``).
    """
    made = {name: row for row, name in reversed(list(enumerate(events.node)))}
    ends: list[tuple[int, int, int, bool, int]] = []
    for row, inputs in enumerate(events.inputs):
        for tensor in inputs:
            whole = tensor if tensor.partition(":")[0] in made else tensor.rpartition("/_")[0]
            source = made.get(whole.partition(":")[0])
            if source is None or events.lane[source] == events.lane[row]:
                continue
            name, number = names.setdefault(whole, len(names)), len(ends)
            until = events.start[source] + events.duration[source]
            ends.append((events.lane[source], until - origin, number, True, name))
            ends.append((events.lane[row], events.start[row] - origin, number, False, name))
    if not ends:
        return None
    lane, time, ids, begins, titles = (np.array(column) for column in zip(*ends, strict=True))
    category = np.full(len(ends), names.setdefault("DataFlow", len(names)))
    return InstantEvents(
        lane, time.astype(np.int64), {"id": ids, "begins": begins, "name": titles, "category": category}
    )


def _draft(events: _Events, path: str, step: int, file_bytes: int) -> Draft:
    names: dict[str, int] = {}
    numbers = np.array([names.setdefault(operator, len(names)) for operator in events.operator], np.int32)
    start = np.array(events.start, np.int64)
    origin = int(start.min())
    duration = np.array(events.duration, np.int64)
    scopes, scope = Paths.of(scope_parts(node) for node in events.node)
    arrows = _arrows(events, names, origin)
    draft = Draft(
        format="step_stats", path=path, strings=Strings.of(names), lanes=events.lanes, name=numbers,
        kind=np.array(events.kind, np.uint8), lane=np.array(events.lane, np.int32), start_ns=start - origin,
        duration_ns=duration, origin_ns=origin, clock="unix" if origin > UNIX_NS else "relative",
        scope=scope, scopes=scopes, bytes=np.array(events.bytes, np.int64), file_bytes=file_bytes,
        recorded={"modules"}, not_recorded=dict(REASONS),
        resolution_ns=1 if ((start % 1000).any() or (duration % 1000).any()) else 1000,
    )  # fmt: skip
    draft.step = np.full(len(start), step, np.int64)
    end = int((draft.start_ns + duration).max())
    draft.steps = {"number": np.array([step]), "start_ns": np.array([0]), "end_ns": np.array([end])}
    set_outputs(draft, events.outputs)
    draft.arrows = arrows
    if events.memory:
        time, size, device, row, allocation = (
            np.array(column, np.int64) for column in zip(*events.memory, strict=True)
        )
        draft.memory = InstantEvents(
            np.full(len(time), -1), time - origin,
            {
                "device": device, "bytes": size, "row": row,
                "address": np.where(allocation, allocation + ((step + 1) << 32), 0).astype(np.uint64),
                "action": np.where(size >= 0, MemoryAction.ALLOCATE, MemoryAction.FREE),
            },
        )  # fmt: skip
    return draft
