"""TensorFlow's ``timeline-N.json``, as ``ProfilerHook`` writes it: one step of one session.

An event's name is its operator; its scope is the node's full name. Devices are processes named ``… Compute``,
their tensors processes named ``… Tensors``; a tensor's birth, description and death become allocations.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.trace import chrome
from stepscope.trace.distinct import distinct
from stepscope.trace.document import Document
from stepscope.trace.draft import Array, Draft, InstantEvents
from stepscope.trace.model import Kind, Lane
from stepscope.trace.names import Paths
from stepscope.trace.nodes import find_repeats, node_kind, scope_parts, set_outputs, stream_of
from stepscope.trace.tables import MemoryAction

_COMPUTE, _TENSORS = " Compute", " Tensors"
_STEP = re.compile(r"timeline-(\d+)")
_BYTES = re.compile(r"requested_bytes: (\d+)")
_POINTER = re.compile(r"ptr: (\d+)")
_TYPE = re.compile(r"dtype: DT_(\w+)")
_SHAPE = re.compile(r"shape \{")
_SIZE = re.compile(r"dim \{(?:\\n|\s)*(?:size: (-?\d+))?")
"""A dimension of 0 is written without its size."""

REASONS = {
    "steps": "the file holds one step and not its number",
    "device": "no accelerator took part in this step",
    "launches": "TensorFlow's StepStats do not say which node launched which kernel",
    "backward": "TensorFlow's StepStats do not tell gradients from other nodes; their scopes do",
    "modules": "scopes are those of node names",
    "stacks": "Python stacks are in the profile.context that tfprof writes",
    "shapes": "TensorFlow records the shapes of outputs, not those of inputs",
    "flops": "FLOPs are in the profile.context that tfprof writes",
    "occupancy": "StepStats hold no launch configuration",
    "syncs": "StepStats hold no synchronisation",
    "collectives": "the step communicated nothing",
}


def is_timeline(document: Document) -> bool:
    """Return whether every slice is a TensorFlow ``Op``."""
    used = distinct(document.category[chrome.rows_of(document, b"X")])
    return len(used) == 1 and document.strings[int(used[0])] == "Op"


def draft_timeline(document: Document, path: str) -> Draft:
    """Make a draft of a TensorFlow timeline.

    Raises:
        EmptyTraceError: No event at all.
    """
    slices = chrome.find_slices(document)
    draft = chrome.start_draft(document, slices, path, "timeline")
    texts, numbers = document.strings, document.column("args.name")[slices.row].tolist()
    nodes = [chrome.unescape(texts[number]) if number >= 0 else "" for number in numbers]
    repeats = find_repeats(
        [draft.lanes[lane].process for lane in draft.lane.tolist()],
        list(zip(nodes, draft.start_ns.tolist(), draft.duration_ns.tolist(), strict=True)),
    )
    once = ~np.array(repeats.repeated, bool)
    if not once.all():
        chrome.keep_rows(draft, once)
    nodes = [node for node, is_first in zip(nodes, once.tolist(), strict=True) if is_first]
    copies = np.array(repeats.copies, bool)[once]
    _place_devices(draft)
    operators = [draft.strings[number] for number in draft.name.tolist()]
    on_device = [draft.lanes[lane].device >= 0 for lane in draft.lane.tolist()]
    kinds = [node_kind(*facts) for facts in zip(nodes, operators, on_device, strict=True)]
    draft.kind = np.where(copies, Kind.MEMCPY, np.array(kinds, np.uint8)).astype(np.uint8)
    draft.scopes, draft.scope = Paths.of(scope_parts(node) for node in nodes)
    draft.memory, sizes, outputs = _allocations(document, nodes, first=draft.origin_ns)
    set_outputs(draft, outputs)
    draft.bytes = _received(nodes, kinds, sizes)
    set_step(draft, path)
    draft.recorded |= {"modules"}
    draft.not_recorded = dict(REASONS)
    draft.resolution_ns = 1000
    return draft


def set_step(draft: Draft, path: str) -> None:
    """Make the whole file one step, its number taken from the file's name (``timeline-400.json``), else 0."""
    match = _STEP.search(Path(path).name)
    number = int(match[1]) if match else 0
    begin = int(draft.start_ns.min()) if len(draft.start_ns) else 0
    end = int((draft.start_ns + draft.duration_ns).max()) if len(draft.start_ns) else 0
    draft.step = np.full(len(draft.start_ns), number, np.int64)
    draft.steps = {"number": np.array([number]), "start_ns": np.array([begin]), "end_ns": np.array([end])}
    if not match:
        draft.notes.append("the file's name does not say its step (timeline-N.json); taken as step 0")


def _place_devices(draft: Draft) -> None:
    """Name lanes by device and row; threads of TensorFlow's timeline are rows of a display, not threads."""
    for number, lane in enumerate(draft.lanes):
        device, stream = stream_of(lane.process)
        row = lane.thread.removeprefix("thread ")
        if lane.process == "Allocators":
            draft.lanes[number] = Lane(rank=0, process=lane.process, thread="")
        if lane.process.endswith(_COMPUTE):
            draft.lanes[number] = Lane(
                rank=0, process=lane.process.removesuffix(_COMPUTE), thread=f"row {row}" if row else "",
                device=device, stream=stream,
            )  # fmt: skip


def _allocations(
    document: Document, nodes: list[str], *, first: int
) -> tuple[InstantEvents | None, dict[str, int], dict[int, dict[int, str]]]:
    """Read births (N), descriptions (O) and deaths (D) of tensors; also bytes and kinds of nodes' outputs."""
    rows = chrome.rows_of(document, b"NOD")
    args, ids, texts = document.column("args"), document.column("id"), document.strings
    row_of = {node: row for row, node in reversed(list(enumerate(nodes)))}
    born: dict[tuple[int, int], int] = {}
    described: dict[tuple[int, int], tuple[int, int]] = {}
    sizes: dict[str, int] = {}
    outputs: dict[int, dict[int, str]] = {}
    entries: list[tuple[int, int, int, int, int]] = []
    for row in rows.tolist():
        phase, time = chr(document.phase[row]), int(document.start_ns[row])
        key = (int(document.process[row]), int(ids[row]))
        name = texts[int(document.name[row])]
        if phase == "N":
            born[key] = time
        elif phase == "O" and args[row] >= 0:
            text = texts[int(args[row])]
            size, pointed = _BYTES.search(text), _POINTER.search(text)
            described[key] = int(size[1]) if size else 0, int(pointed[1]) if pointed else 0
            sizes[name] = sizes.get(name, 0) + described[key][0]
            node, _, slot = name.partition(":")
            place = row_of.get(node, -1)
            if place >= 0 and (made := _tensor(text)):
                outputs.setdefault(place, {})[int(slot) if slot.isdecimal() else 0] = made
            entries.append(
                (born.get(key, time), MemoryAction.ALLOCATE, described[key][1], described[key][0], place)
            )
        elif phase == "D" and key in described:
            size_bytes, address = described.pop(key)
            place = row_of.get(name.partition(":")[0], -1)
            entries.append((time, MemoryAction.FREE, address, -size_bytes, place))
    if not entries:
        return None, sizes, outputs
    columns: list[Any] = [np.array(column) for column in zip(*entries, strict=True)]
    nothing = np.full(len(entries), -1)
    points = InstantEvents(
        nothing,
        columns[0].astype(np.int64) - first,
        {
            "device": nothing, "action": columns[1], "address": columns[2].astype(np.uint64),
            "bytes": columns[3], "row": columns[4],
        },
    )  # fmt: skip
    return points, sizes, outputs


def _tensor(description: str) -> str:
    """Return type and shape as a description says them: ``float[8,16]``; "" if it has neither."""
    kind = _TYPE.search(description)
    if not kind or not _SHAPE.search(description):
        return ""
    sizes = ("?" if size.startswith("-") else size or "0" for size in _SIZE.findall(description))
    return f"{kind[1].lower()}[{','.join(sizes)}]"


def _received(nodes: list[str], kinds: list[Kind], sizes: dict[str, int]) -> Array:
    """Return the bytes that send and receive nodes moved, if their name describes their tensor."""
    return np.array(
        [
            sizes.get(node, -1)
            if kind in (Kind.SEND_RECV, Kind.COLLECTIVE) and nodes.count(node) == 1
            else -1
            for node, kind in zip(nodes, kinds, strict=True)
        ],
        np.int64,
    )
