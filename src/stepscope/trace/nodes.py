"""Facts of an executed node, read from TensorFlow's names of nodes, operators and devices."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.events.kinds.graph import is_own
from stepscope.trace.draft import Draft
from stepscope.trace.model import Kind

_RECEIVE = {"RecvTensor", "_Recv", "_Send", "_HostRecv", "_HostSend", "Send", "Recv"}
_COLLECTIVE = re.compile(r"^(Collective|Nccl)|^_?(XlaAllReduce|AllToAll)")
_LOADING = re.compile(r"Iterator|Dataset|^(ReaderRead|Queue(Dequeue|Many)|PyFunc|GeneratorDataset)")
_STREAM = re.compile(r"(?:device:)?gpu:(\d+)/(stream|memcpy)(?::(\w+))?", re.IGNORECASE)


def node_kind(node: str, operator: str, on_device: bool) -> Kind:
    """Return the kind of an executed node by its operator; nodes that Stepscope added are overhead."""
    if is_own(node):
        return Kind.OVERHEAD
    if operator in _RECEIVE:
        return Kind.SEND_RECV
    if _COLLECTIVE.search(operator):
        return Kind.COLLECTIVE
    if on_device:
        return Kind.MEMCPY if "memcpy" in operator.lower() else Kind.KERNEL
    return Kind.DATA_LOADING if _LOADING.search(operator) else Kind.HOST_OP


def stream_of(device: str) -> tuple[int, int]:
    """Return device and stream of a StepStats device that stands for an accelerator's stream, else -1 and -1.

    ``/device:GPU:0/stream:16`` is one; ``/job:x/device:GPU:0``, on which the host enqueued work for it, is
    not. ``stream:all`` and ``memcpy`` are of the device and of no stream: -1.
    """
    match = _STREAM.search(device)
    if not match:
        return -1, -1
    stream = match[3] or ""
    return int(match[1]), int(stream) if stream.isdecimal() else -1


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows of StepStats that TensorFlow 1 wrote more than once; one entry for each row."""

    repeated: list[bool]
    """Whether another row holds the same work and says on which stream it ran."""
    copies: list[bool]
    """Whether the work is a copy, as the device ``memcpy`` says."""


def find_repeats(devices: Sequence[str], works: Sequence[Hashable]) -> Repeats:
    """Find the work of accelerators that several devices of StepStats repeat.

    TensorFlow 1 writes each kernel into ``stream:all`` and into its own ``stream:N``, each copy into
    ``memcpy`` and into its own stream (``device_tracer.cc``). A row is dropped only if its twin is there: a
    file that was cut down to ``stream:all`` keeps all its work.

    Args:
        devices: Each row's device.
        works: The facts that two rows of the same work share: node, start and duration.
    """
    parts = [_part(device) for device in devices]
    single = Counter((part[0], work) for part, work in zip(parts, works, strict=True) if part[1] == "stream")
    unclaimed = {"memcpy": single.copy(), "all": single.copy()}
    repeated = [False] * len(works)
    copied: Counter[tuple[int, Hashable]] = Counter()
    # Copies first: what they add counts as recorded when the rows of stream:all are looked for.
    for wanted in ("memcpy", "all"):
        for row, ((device, part), work) in enumerate(zip(parts, works, strict=True)):
            key = device, work
            if part != wanted:
                continue
            if wanted == "memcpy":
                copied[key] += 1
            if unclaimed[wanted][key] > 0:
                unclaimed[wanted][key] -= 1
                repeated[row] = True
            elif wanted == "memcpy":
                unclaimed["all"][key] += 1
    copies = [
        part == "memcpy" or (device >= 0 and copied[device, work] > 0)
        for (device, part), work in zip(parts, works, strict=True)
    ]
    return Repeats(repeated, copies)


def _part(device: str) -> tuple[int, str]:
    """Return the device's number, and ``stream``, ``all``, ``memcpy`` or nothing for the host."""
    match = _STREAM.search(device)
    if not match:
        return -1, ""
    part = match[2].lower()
    return int(match[1]), "all" if part == "stream" and (match[3] or "").lower() == "all" else part


def scope_parts(node: str) -> list[str]:
    """Split a node's name into its scopes, itself last; an output number (``name:0``) is cut off."""
    return re.sub(r":\d+$", "", node).split("/") if node else []


def parse_label(node: str, label: str) -> tuple[str, str, list[str]]:
    """Return a node's name, operator and inputs from its timeline label.

    A label is ``name = Operator(input, …)``; the executor writes others for kernels (``name:Operator#id=…``)
    and for received tensors (``[4B] edge from … to …``). Follows TensorFlow's ``timeline.py``.
    """
    if node == "RecvTensor":
        return node, "RecvTensor", []
    match = re.match(r"(.*?) = (.*?)\((.*)\)", label, re.DOTALL)
    if match:
        return match[1], match[2], [part for part in match[3].split(", ") if part]
    if re.match(r"^_(SOURCE|SINK)$", node):
        return node, "NoOp", []
    kernel = re.match(r"^(.*?):([\w.]+?)(#.*)?$", node)
    if kernel and kernel[2] and not kernel[2].isdecimal():
        return kernel[1], kernel[2], []
    return node, "", []


def pack(starts: list[int], ends: list[int]) -> list[int]:
    """Give intervals, sorted by start, the first free row of a display, as TensorFlow's timeline does."""
    free: list[int] = []
    rows = []
    for start, end in zip(starts, ends, strict=True):
        row = next((number for number, until in enumerate(free) if until < start), len(free))
        if row == len(free):
            free.append(0)
        free[row] = end
        rows.append(row)
    return rows


_DATA_TYPES = (
    "invalid", "float", "double", "int32", "uint8", "int16", "int8", "string", "complex64", "int64", "bool",
    "qint8", "quint8", "qint32", "bfloat16", "qint16", "quint16", "uint16", "complex128", "half", "resource",
    "variant", "uint32", "uint64",
)  # fmt: skip
"""TensorFlow's types by their numbers in ``types.proto``, without ``DT_``."""


def data_type(number: int) -> str:
    """Return the name of one of TensorFlow's types: ``float``; of an unknown one its number."""
    return _DATA_TYPES[number] if 0 < number < len(_DATA_TYPES) else f"type {number}"


def set_outputs(draft: Draft, tensors: Mapping[int, Mapping[int, str]]) -> None:
    """Say of rows which tensors they made.

    Args:
        draft: Gets the table of operators.
        tensors: Of each row, type and shape of its tensors by their place among the node's outputs.
    """
    if not tensors:
        return
    texts = (json.dumps([made[place] for place in sorted(made)]) for made in tensors.values())
    draft.strings, outputs = draft.strings.extended(texts)
    nothing = np.full(len(tensors), -1)
    others = ("shapes", "types", "values", "sequence", "forward_thread", "external_id", "record_id")
    draft.operators = {"row": np.array(list(tensors)), **dict.fromkeys(others, nothing), "outputs": outputs}
