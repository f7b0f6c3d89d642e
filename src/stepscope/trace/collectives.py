"""The work of communication kernels, if only the host event that launched them says it.

NCCL before 2.20 runs all-to-all as ``ncclKernel_SendRecv``, and older PyTorch puts no arguments on its
kernels; the annotation ``nccl:all_to_all`` around the launch tells both.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace import communication
from stepscope.trace.distinct import distinct
from stepscope.trace.draft import Draft
from stepscope.trace.model import Kind, among
from stepscope.trace.names import Strings
from stepscope.trace.tables import Collectives, Operators

Array = npt.NDArray[Any]
_UNSURE = ("send_recv", "unknown", "send", "recv")


def add_collectives(draft: Draft) -> None:
    """Make the table of a draft whose collectives are known by their kernels' names alone."""
    rows = np.flatnonzero(among(Kind.COLLECTIVE, Kind.SEND_RECV)[draft.kind])
    if not len(rows):
        return
    names = {n: communication.operation(str(draft.strings[n])) for n in distinct(draft.name[rows]).tolist()}
    table = {text: len(draft.strings) + number for number, text in enumerate(dict.fromkeys(names.values()))}
    draft.strings = Strings.of([*draft.strings.texts(), *table])
    blank = np.full(len(rows), -1)
    draft.collectives = {
        "row": rows,
        "operation": np.array([table[names[n]] for n in draft.name[rows].tolist()]),
        "group": blank,
        "group_size": blank,
        "sequence": blank,
        "in_elements": blank,
        "out_elements": blank,
        "dtype": blank,
        "bytes": blank if draft.bytes is None else draft.bytes[rows],
        "peer": blank,
        "state": np.zeros(len(rows), np.uint8),
        "created_ns": blank,
    }


def complete(
    table: Collectives,
    kind: Array,
    name: Array,
    parent: Array,
    launch: Array,
    operators: Operators,
    strings: Strings,
) -> tuple[Collectives, Strings]:
    """Fill in operations and sizes from the host events that launched the kernels.

    Args:
        table: The collectives; rows of the trace.
        kind: Kinds of all events; changed if a kernel turns out to be a collective or a send or receive.
        name: Names of all events.
        parent: Parents of all events.
        launch: Launching calls of all events.
        operators: Shapes of host operators.
        strings: Names; new ones are appended.

    Returns:
        The completed table, and the strings.
    """
    if not len(table):
        return table, strings
    hosts = {
        n for n in distinct(name[kind != Kind.KERNEL]).tolist() if communication.HOST.match(str(strings[n]))
    }
    shaped = np.full(len(kind), -1, np.int32)
    shaped[operators.row] = np.arange(len(operators), dtype=np.int32)
    columns = {key: np.array(values) for key, values in table.columns().items()}
    operations = [str(strings[number]) for number in table.operation.tolist()]
    for at, row in enumerate(table.row.tolist()):
        if operations[at] not in _UNSURE and columns["bytes"][at] >= 0:
            continue
        host = int(launch[row])
        while host >= 0 and int(name[host]) not in hosts:
            host = int(parent[host])
        if host < 0:
            continue
        if operations[at] in _UNSURE:
            operation = communication.operation(str(strings[int(name[host])]).split(":", 1)[-1])
            operations[at] = operation if operation != "unknown" else operations[at]
        if columns["bytes"][at] < 0 and shaped[host] >= 0:
            elements, size = _message(operators, int(shaped[host]), strings)
            if elements >= 0:
                columns["in_elements"][at] = elements
                columns["bytes"][at] = elements * size if operations[at] != "all_gather" else -1
    strings, columns["operation"] = strings.extended(operations)
    pairwise = np.isin(operations, communication.PAIRWISE)
    kind[table.row] = np.where(pairwise, Kind.SEND_RECV, Kind.COLLECTIVE)
    return Collectives(**columns), strings


def _message(operators: Operators, at: int, strings: Strings) -> tuple[int, int]:
    """Return elements and bytes per element of a host event's first input."""
    try:
        shapes = json.loads(strings[int(operators.shapes[at])])
        types = json.loads(strings[int(operators.types[at])])
    except ValueError:
        return -1, -1
    for shape, dtype in zip(shapes, types, strict=False):
        size = communication.dtype_bytes(str(dtype))
        if (
            size > 0
            and isinstance(shape, list)
            and shape
            and all(isinstance(length, int) for length in shape)
        ):
            return math.prod(shape), size
    return -1, -1
