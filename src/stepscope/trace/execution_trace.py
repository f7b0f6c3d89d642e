"""PyTorch ExecutionTrace JSON: which operator called which, with shapes; an order, but no times.

An event's start is its position in the order, its duration 0; ``record_id`` (``rf_id``) joins it to a Kineto
trace of the same step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.trace import communication
from stepscope.trace.blocks import Blocks
from stepscope.trace.draft import Draft
from stepscope.trace.kineto import LOADING, MODULE, STEP
from stepscope.trace.model import Kind, Lane
from stepscope.trace.names import Strings

_NO_TIME = (
    "an ExecutionTrace holds the order of operators, not their times; record a profile of the same step"
)


class _Attribute(msgspec.Struct, gc=False):
    name: str = ""
    value: Any = None


class _Node(msgspec.Struct, gc=False):
    """A node of any schema: 1.0.1 has plain fields, later ones ``attrs`` and ``ctrl_deps``."""

    name: str
    id: int
    ctrl_deps: int | None = None
    parent: int | None = None
    rf_id: int | None = None
    seq_id: int | None = None
    tid: int | None = None
    fw_tid: int | None = None
    input_shapes: msgspec.Raw = msgspec.Raw(b"")
    input_types: msgspec.Raw = msgspec.Raw(b"")
    inputs: Any = None
    attrs: list[_Attribute] = []

    def get(self, key: str) -> int:
        value = getattr(self, key)
        if value is None:
            value = next((attr.value for attr in self.attrs if attr.name == key), None)
        return int(value) if isinstance(value, int) else -1

    def above(self) -> int:
        return (
            self.ctrl_deps if self.ctrl_deps is not None else (self.parent if self.parent is not None else -1)
        )

    def shapes(self) -> tuple[str, str]:
        if bytes(self.input_shapes):
            return bytes(self.input_shapes).decode(), bytes(self.input_types).decode()
        if isinstance(self.inputs, dict):
            return _text(self.inputs.get("shapes")), _text(self.inputs.get("types"))
        return "", ""


class _File(msgspec.Struct, gc=False):
    schema: str
    nodes: list[_Node]
    pid: int = 0
    rank: int = -1
    world_size: int = 0


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode() if value else ""


def read(path: Path) -> list[Draft]:
    """Read an ExecutionTrace.

    Raises:
        TraceError: Not such a document, or a cut one.
        EmptyTraceError: No nodes.
    """
    with Blocks(path) as blocks:
        data = b"".join(blocks)
    try:
        file = msgspec.json.decode(data, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(
            f"not an ExecutionTrace, or a cut one: {error}", hint="copy the file again", path=path
        ) from error
    if not file.nodes:
        raise EmptyTraceError("the ExecutionTrace holds no nodes", hint="record at least one step", path=path)
    return [_draft(file, path)]


def _draft(file: _File, path: Path) -> Draft:
    order, start, end = _walk(file.nodes)
    nodes = [file.nodes[number] for number in order]
    names: dict[str, int] = {}

    def number(text: str) -> int:
        return names.setdefault(text, len(names)) if text else -1

    threads: dict[int, int] = {}
    lane = [threads.setdefault(node.get("tid"), len(threads)) for node in nodes]
    shapes = [node.shapes() for node in nodes]
    draft = Draft(
        format="execution_trace",
        path=str(path),
        strings=Strings.of([]),
        lanes=[Lane(rank=0, process=f"process {file.pid}", thread=f"thread {tid}") for tid in threads],
        name=np.array([number(node.name or "unnamed") for node in nodes], np.int32),
        kind=np.array([_kind(node.name) for node in nodes], np.uint8),
        lane=np.array(lane, np.int32),
        start_ns=np.array(start, np.int64),
        duration_ns=np.array(end, np.int64) - np.array(start, np.int64),
        clock="order",
        file_bytes=path.stat().st_size,
        facts={"schema": file.schema},
        untimed=True,
        rank=max(file.rank, 0),
        rank_known=file.rank >= 0,
        world_size=file.world_size,
        not_recorded=dict.fromkeys(
            ("timeline", "steps", "device", "launches", "memory", "occupancy", "syncs"), _NO_TIME
        ),
    )
    draft.drop("unreachable_nodes", len(file.nodes) - len(order))
    draft.step_number = np.array(
        [int(match[1]) if (match := STEP.match(node.name)) else -1 for node in nodes], np.int64
    )
    draft.operators = {
        "row": np.arange(len(nodes)),
        "shapes": np.array([number(shapes_) for shapes_, _ in shapes]),
        "types": np.array([number(shape_types) for _, shape_types in shapes]),
        "values": np.full(len(nodes), -1),
        "sequence": np.array([node.get("seq_id") for node in nodes]),
        "forward_thread": np.array([node.get("fw_tid") for node in nodes]),
        "external_id": np.full(len(nodes), -1),
        "record_id": np.array([node.get("rf_id") for node in nodes]),
    }
    draft.strings = Strings.of(names)
    return draft


def _kind(name: str) -> Kind:
    if STEP.match(name):
        return Kind.STEP
    if LOADING.match(name):
        return Kind.DATA_LOADING
    if name.startswith(MODULE):
        return Kind.MODULE_SCOPE
    if name.startswith(("[pytorch|", "## ")):
        return Kind.ANNOTATION
    return Kind.ANNOTATION if communication.HOST.match(name) and not name.startswith("c10d") else Kind.HOST_OP


def _walk(nodes: list[_Node]) -> tuple[list[int], list[int], list[int]]:
    """Number the nodes of the call tree in the order of their ids, so that a caller spans its calls."""
    place = {node.id: number for number, node in enumerate(nodes)}
    children: dict[int, list[int]] = {}
    for number in sorted(range(len(nodes)), key=lambda number: nodes[number].id):
        above = place.get(nodes[number].above(), -1)
        children.setdefault(above if above != number else -1, []).append(number)
    order: list[int] = []
    start, end = [0] * len(nodes), [0] * len(nodes)
    clock = 0
    pending = [(number, False) for number in reversed(children.get(-1, []))]
    while pending:
        number, done = pending.pop()
        if done:
            end[number] = clock
            continue
        order.append(number)
        start[number] = clock
        clock += 1
        pending.append((number, True))
        pending += [(child, False) for child in reversed(children.get(number, []))]
    return order, [start[number] for number in order], [end[number] for number in order]
