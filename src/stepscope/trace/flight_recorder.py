"""Dumps of PyTorch's NCCL flight recorder: the last collectives of a rank, and how far each had come.

Most dumps say when a collective was enqueued but not when it ran; such an event has no duration, and its
state tells the rest. One lane per process group.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.errors import TraceError
from stepscope.trace import communication
from stepscope.trace.blocks import Blocks
from stepscope.trace.draft import Draft
from stepscope.trace.model import Kind, Lane, ProcessGroup
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import CollectiveState

_STATES = {
    "scheduled": CollectiveState.SCHEDULED,
    "started": CollectiveState.STARTED,
    "completed": CollectiveState.COMPLETED,
}
_REASONS = dict.fromkeys(
    ("steps", "device", "launches", "backward", "modules", "shapes", "memory", "occupancy", "syncs", "flops"),
    "a flight-recorder dump holds collectives only; profile the job for the rest",
) | {"stacks": "set TORCH_NCCL_TRACE_CPP_STACK or record with stacks to have frames in the dump"}


def read(path: Path) -> list[Draft]:
    """Read a dump that was written as JSON.

    Raises:
        TraceError: Not such a document.
    """
    with Blocks(path) as blocks:
        data = b"".join(blocks)
    try:
        content = json.loads(data.decode("utf-8", "replace"), strict=False)
    except ValueError as error:
        raise TraceError(
            f"the dump is cut short or damaged: {error}", hint="copy the file again", path=path
        ) from error
    return [draft_flight_recorder(content, str(path))]


def draft_flight_recorder(content: dict[str, Any], path: str) -> Draft:
    """Make a draft of a dump's content.

    Raises:
        TraceError: Entries of another shape.
    """
    entries = content.get("entries")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TraceError(
            "not a flight-recorder dump: expected a list at $.entries",
            path=path,
            hint="pass the file that TORCH_FR_DUMP_TEMP_FILE names, as PyTorch wrote it",
        )
    names: dict[str, int] = {}

    def number(text: str) -> int:
        return names.setdefault(text, len(names))

    groups = _groups(content, entries)
    entries = _ended(content, entries)
    lanes: dict[str, int] = {}
    rows = [_row(entry, number, lanes) for entry in entries]
    columns = {key: np.array([row[key] for row in rows], np.int64) for key in _row({}, len, {})}
    origin = int(columns["start_ns"].min(initial=1 << 62)) if rows else 0
    stacks, stack = Paths.of(_frames(entry) for entry in entries)
    descriptions = {group.name: group.description for group in groups}
    draft = Draft(
        format="flight_recorder",
        path=path,
        strings=Strings.of(names),
        origin_ns=origin,
        clock="unix" if origin else "relative",
        lanes=[
            Lane(rank=0, process="collectives", thread=f"group {name} {descriptions.get(name, '')}".strip())
            for name in lanes
        ],
        name=columns["name"],
        kind=columns["kind"],
        lane=columns["lane"],
        start_ns=columns["start_ns"] - origin,
        duration_ns=columns["duration_ns"],
        bytes=columns["bytes"],
        stack=stack,
        stacks=stacks,
        not_recorded=dict(_REASONS),
        process_groups=groups,
        world_size=max((group.size for group in groups), default=0),
        facts={key: value for key, value in content.items() if key not in ("entries", "pg_config")}
        | {"group_status": _status_by_name(content, entries)},
    )
    table = (
        "operation",
        "group",
        "group_size",
        "sequence",
        "in_elements",
        "out_elements",
        "dtype",
        "bytes",
        "peer",
        "state",
    )
    draft.collectives = {"row": np.arange(len(rows)), **{key: columns[key] for key in table}}
    draft.collectives["created_ns"] = np.where(columns["created_ns"] >= 0, columns["created_ns"] - origin, -1)
    sizes = {group.name: group.size for group in groups}
    known = [sizes.get(str(_group_name(entry)), -1) for entry in entries]
    draft.collectives["group_size"] = np.array(known)
    if not rows:  # what a rank that never came to communicate leaves behind; its status still tells
        draft.notes.append("the dump holds no collectives, only the status of the process groups")
    untimed = int(np.count_nonzero(columns["duration_ns"] == 0))
    if untimed:
        draft.notes.append(
            f"{untimed} of {len(rows)} collectives had not finished, or the dump does not say when"
        )
    return draft


def _row(entry: dict[str, Any], number: Any, lanes: dict[str, int]) -> dict[str, int]:
    name = str(entry.get("profiling_name", "unknown"))
    operation = communication.operation(name.split(" ")[0])
    created = int(entry.get("time_created_ns") or 0)
    started = int(entry.get("time_discovered_started_ns") or 0)
    completed = int(entry.get("time_discovered_completed_ns") or 0)
    duration = int(float(entry.get("duration_ms") or 0) * 1e6) or max(completed - started, 0) * bool(started)
    start = completed - duration if completed and duration else started or created
    inside, outside = _elements(entry.get("input_sizes")), _elements(entry.get("output_sizes"))
    dtypes = entry.get("input_dtypes") or [""]
    dtype = str(dtypes[0] if isinstance(dtypes, (list, tuple)) else dtypes)
    pairwise = bool(entry.get("is_p2p")) or operation in communication.PAIRWISE
    group = str(_group_name(entry))
    peer = re.search(r"(\d+)\s*(->|<-)\s*(\d+)", name)
    return {
        "name": number(name),
        "kind": Kind.SEND_RECV if pairwise else Kind.COLLECTIVE,
        "lane": lanes.setdefault(group, len(lanes)),
        "start_ns": start,
        "duration_ns": duration,
        "operation": number(operation),
        "group": number(group),
        "group_size": -1,
        "sequence": int(
            entry.get("p2p_seq_id" if pairwise else "collective_seq_id", entry.get("seq_id", -1))
        ),
        "in_elements": inside,
        "out_elements": outside,
        "dtype": number(dtype) if dtype else -1,
        "bytes": communication.message_bytes(operation, inside, outside, communication.dtype_bytes(dtype)),
        "peer": int(peer[3]) if peer else -1,
        "state": _STATES.get(str(entry.get("state")), CollectiveState.UNKNOWN),
        "created_ns": created or -1,
    }


def _group_name(entry: dict[str, Any]) -> Any:
    group = entry.get("process_group") or entry.get("pg_name")
    if isinstance(group, (list, tuple)):
        return group[0] if group else entry.get("pg_id", "")
    return group if group is not None else entry.get("pg_id", "")


def _elements(sizes: Any) -> int:
    if not isinstance(sizes, (list, tuple)) or not sizes:
        return -1
    return sum(math.prod(size) if isinstance(size, (list, tuple)) else int(size) for size in sizes)


def _frames(entry: dict[str, Any]) -> list[str]:
    """Return the Python stack, outermost first; dumps list the innermost first."""
    frames = entry.get("frames") or []
    return [
        f"{frame.get('filename', '?')}({frame.get('line', 0)}): {frame.get('name', '?')}"
        for frame in reversed(frames)
        if isinstance(frame, dict)
    ]


def _status_by_name(content: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the status of process groups under the groups' names; a dump has it under numbers of its own.

    Entries say both. A group without entries is identified by its place among all of them: both count up as
    groups are created.
    """
    status, config = content.get("pg_status") or {}, content.get("pg_config") or {}
    names = {str(entry["pg_id"]): str(_group_name(entry)) for entry in entries if "pg_id" in entry}
    if len(status) == len(config) and all(str(key).isdigit() for key in (*status, *config)):
        placed = dict(zip(sorted(map(str, status), key=int), sorted(map(str, config), key=int), strict=True))
        if all(placed.get(number) == name for number, name in names.items()):
            names = placed
    return {names[str(number)]: value for number, value in status.items() if str(number) in names}


def _ended(content: dict[str, Any], entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries; those whose end was noted without an update of their state become completed.

    An entry is retired when its work is done. Gloo's entries stay "scheduled" after that. Several threads of
    Gloo end works, and each writes its own number to the group's status, so the last number may be older than
    the newest end, and it stays so in a hang. In Gloo ``retired`` therefore decides alone. An entry of
    another backend also needs the status of its group to say that as many are completed.
    """
    status = content.get("pg_status") or {}

    def done(entry: dict[str, Any]) -> bool:
        if entry.get("retired") is not True or entry.get("state") != "scheduled" or entry.get("is_p2p"):
            return False
        if str(entry.get("profiling_name")).startswith("gloo:"):
            return True
        group = status.get(str(entry.get("pg_id")), status.get(entry.get("pg_id")))
        last = group.get("last_completed_collective") if isinstance(group, dict) else None
        sequence = entry.get("collective_seq_id")
        return isinstance(last, int) and isinstance(sequence, int) and sequence <= last

    return [{**entry, "state": "completed"} if done(entry) else entry for entry in entries]


def _nameless(content: dict[str, Any], entries: list[dict[str, Any]]) -> tuple[str, str]:
    """Return name and description of the one group that the dump lists without a name, as its entries do."""
    listed = {str(value.get("name", key)) for key, value in (content.get("pg_config") or {}).items()}
    called = {str(_group_name(entry)): entry.get("process_group") for entry in entries}
    unknown = sorted(called.keys() - listed)
    if len(unknown) != 1:
        return "", ""
    both = called[unknown[0]]
    message = str(both[1]) if isinstance(both, (list, tuple)) and len(both) > 1 else ""
    return unknown[0], message


def _groups(content: dict[str, Any], entries: list[dict[str, Any]]) -> list[ProcessGroup]:
    groups = []
    for key, value in (content.get("pg_config") or {}).items():
        ranks = value.get("ranks", "")
        numbers = tuple(
            int(text) for text in re.findall(r"\d+", ranks if isinstance(ranks, str) else str(ranks))
        )
        name, description = str(value.get("name", key)), str(value.get("desc", ""))
        if not name:
            name, description = _nameless(content, entries)
        groups.append(
            ProcessGroup(
                rank=0,
                name=name,
                description=description,
                ranks=numbers,
                size=len(numbers),
            )
        )
    return groups
