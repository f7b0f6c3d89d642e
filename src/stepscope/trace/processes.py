"""Chrome traces whose processes are named after their work: those of JAX and of rocprof.

JAX writes its XPlane as Chrome JSON too (``*.trace.json.gz``): processes are ``/host:CPU`` and
``/device:GPU:0``, and events name their instruction. ``rocprof`` before version 3 writes ``CPU HIP API``,
``COPY`` and ``GPU0``.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from stepscope.trace import chrome, communication
from stepscope.trace.collectives import add_collectives
from stepscope.trace.distinct import distinct
from stepscope.trace.document import Document
from stepscope.trace.draft import Array, Draft
from stepscope.trace.instructions import Ran, add_instructions
from stepscope.trace.model import Kind, Lane

_PLANE = re.compile(r"^/(?:host:CPU|device:(GPU|TPU):(\d+))")
_ROCPROF = {"CPU HIP API": Kind.RUNTIME_CALL, "CPU HSA API": Kind.RUNTIME_CALL,
            "Markers and Ranges": Kind.ANNOTATION}  # fmt: skip
_ROCPROF_GPU = re.compile(r"^GPU\s?(\d+)$")
_TOLD = ("hlo_module", "hlo_op", "hlo_category", "tf_op", "source")


def tell_by_processes(draft: Draft, document: Document) -> None:
    """Give events of a plain Chrome trace their kinds and devices, if its processes tell them.

    Args:
        draft: A draft of the whole document, all of kind OTHER.
        document: The document.
    """
    names = {lane.process for lane in draft.lanes}
    rows = chrome.find_slices(document).row
    if names & set(_ROCPROF):
        _rocprof(draft, document, rows)
    elif any(_PLANE.match(name) for name in names):
        _jax(draft, document, rows)
    else:
        return
    for feature in ("steps", "device", "launches", "modules", "shapes", "memory"):
        draft.not_recorded.pop(feature, None)
    chrome.order_lanes(draft)


def _jax(draft: Draft, document: Document, rows: Array) -> None:
    from stepscope.trace.xplane import device_kind, host_kind

    places = [(lane.process, lane.thread) for lane in draft.lanes]
    for number, (process, thread) in enumerate(places):
        match = _PLANE.match(process)
        device = int(match[2]) if match and match[2] else -1
        draft.lanes[number] = _on(draft.lanes[number], device, process.removeprefix("/device:"), thread)
    pair = np.stack([draft.lane, draft.name])
    pairs, position = np.unique(pair, axis=1, return_inverse=True)
    kinds = []
    for lane, name in pairs.T.tolist():
        title, (process, thread) = draft.strings[name], places[lane]
        on_device = draft.lanes[lane].device >= 0
        kinds.append(device_kind(process, thread, title) if on_device else host_kind(title))
    draft.kind = np.array(kinds, np.uint8)[position.ravel()]
    step = document.column("step_num")[rows]
    draft.kind[step >= 0] = Kind.STEP
    draft.step_number = step
    draft.correlation = document.column("correlation_id")[rows]
    on_host = np.array([lane.device for lane in draft.lanes])[draft.lane] < 0
    draft.kind[on_host & (draft.correlation >= 0) & (draft.kind == Kind.HOST_OP)] = Kind.RUNTIME_CALL
    flops = document.column("model_flops")[rows]
    draft.flops = flops if (flops >= 0).any() else None
    columns = np.stack([document.column(key)[rows] for key in _TOLD])
    pairs, position = np.unique(columns, axis=1, return_inverse=True)
    ran: list[Ran] = []
    places_of = []
    for module, instruction, *more in pairs.T.tolist():
        texts = [chrome.unescape(document.strings[n]) if n >= 0 else "" for n in (module, instruction, *more)]
        places_of.append(len(ran) if texts[1] else -1)
        if texts[1]:
            ran.append(Ran(-1, *texts))
    add_collectives(draft)
    add_instructions(draft, ran, np.array(places_of)[position.ravel()], {})
    if draft.scopes is not None:
        draft.recorded.add("modules")


def _rocprof(draft: Draft, document: Document, rows: Array) -> None:
    """Kinds by process; a call and its launched work share a ``correlation_id``, if it was written."""
    kinds = np.full(len(draft.lanes), Kind.OTHER, np.uint8)
    for number, lane in enumerate(draft.lanes):
        if match := _ROCPROF_GPU.match(lane.process):
            device = int(match[1])
            draft.lanes[number] = _on(lane, device, f"GPU {device}", lane.thread)
            kinds[number] = Kind.KERNEL
        elif lane.process == "COPY":
            # Copies of all devices share one process, whose threads are those that asked for them.
            draft.lanes[number] = _on(lane, 0, "GPU 0", "copies")
            kinds[number] = Kind.MEMCPY
        else:
            kinds[number] = _ROCPROF.get(lane.process, Kind.OTHER)
    draft.kind = kinds[draft.lane]
    work = draft.kind == Kind.KERNEL
    kind_of = np.full(len(draft.strings), Kind.KERNEL, np.uint8)
    for number in distinct(draft.name[work]).tolist():
        kind_of[number] = communication.kind_of(draft.strings[number])
    draft.kind[work] = kind_of[draft.name[work]]
    add_collectives(draft)
    correlation = document.column("correlation_id")[rows]
    draft.correlation = correlation if (correlation >= 0).any() else document.column("DispatchId")[rows]


def _on(lane: Lane, device: int, process: str, thread: str) -> Lane:
    match = re.search(r"\d+", thread) if device >= 0 else None
    stream = int(match[0]) & 0x7FFFFFFF if match else -1
    return replace(lane, process=process, thread=thread, device=device, stream=stream)
