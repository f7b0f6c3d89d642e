"""Profiles of ONNX Runtime (``SessionOptions.enable_profiling``): Chrome events with categories of their own.

Events of category ``Node`` whose name ends in ``_kernel_time`` are executed nodes, their operator is
``args.op_name``; those of ``Session`` are the session's own work, of which ``model_run`` is one run of the
model; those of ``Kernel`` ran on a device (``onnxruntime/core/common/profiler.cc``).
"""

from __future__ import annotations

import numpy as np

from stepscope.trace import chrome
from stepscope.trace.distinct import distinct
from stepscope.trace.document import Document
from stepscope.trace.draft import Array, Draft
from stepscope.trace.model import Kind, Lane
from stepscope.trace.names import Paths

_NODE, _SESSION, _KERNEL = "Node", "Session", "Kernel"
_EXECUTED = "_kernel_time"
_RUN = "model_run"
_STARTS = (
    "session_initialization",
    "model_loading_uri",
    "model_loading_array",
    "model_loading_from_saved_proto",
)

REASONS = {
    "device": "no device took part, or its events were not recorded: they need a build with CUPTI or ROCm",
    "launches": "ONNX Runtime does not say which node launched which kernel",
    "backward": "an inference has no backward pass",
    "stacks": "ONNX Runtime records no stacks",
    "shapes": "shapes of ONNX Runtime's nodes are not read yet",
    "flops": "ONNX Runtime records no operations",
    "bytes": "ONNX Runtime does not record copies",
    "memory": "allocations are sums of each node, without their times",
    "collectives": "ONNX Runtime records no communication",
    "syncs": "ONNX Runtime records no synchronisation",
    "occupancy": "ONNX Runtime records no occupancy",
}


def is_onnxruntime(document: Document) -> bool:
    """Return whether a session of ONNX Runtime wrote a trace."""
    texts = document.strings
    numbers = [texts.find(name) for name in (*_STARTS, _RUN)]
    named = document.category == texts.find(_SESSION)
    return texts.find(_SESSION) >= 0 and bool((named & np.isin(document.name, numbers)).any())


def draft_onnxruntime(document: Document, path: str) -> Draft:
    """Make a draft of a profile of ONNX Runtime: runs are steps, nodes have their operator's name.

    Raises:
        EmptyTraceError: No event at all.
    """
    slices = chrome.find_slices(document)
    draft = chrome.start_draft(document, slices, path, "onnxruntime")
    texts = document.strings
    category = document.category[slices.row]
    operator = document.column("op_name")[slices.row]
    names = [draft.strings[number] for number in draft.name.tolist()]
    executed = (category == texts.find(_NODE)) & np.array([name.endswith(_EXECUTED) for name in names], bool)
    run = (category == texts.find(_SESSION)) & np.array([name == _RUN for name in names], bool)
    kernel = (category == texts.find(_KERNEL)) & (texts.find(_KERNEL) >= 0)
    draft.kind = np.full(len(names), Kind.OTHER, np.uint8)
    draft.kind[executed], draft.kind[run], draft.kind[kernel] = Kind.HOST_OP, Kind.STEP, Kind.KERNEL
    draft.step_number = np.full(len(draft.name), -1, np.int64)
    runs = np.flatnonzero(run)  # numbered from 0, in the order of their start
    draft.step_number[runs[np.argsort(draft.start_ns[runs], kind="stable")]] = np.arange(len(runs))
    _name_by_operator(draft, document, operator, executed)
    draft.scopes, draft.scope = Paths.of(
        list(filter(None, name.removesuffix(_EXECUTED).split("/"))) if node else []
        for name, node in zip(names, executed.tolist(), strict=True)
    )
    _place_kernels(draft, document.column("stream")[slices.row], kernel)
    draft.recorded |= {"modules"} if executed.any() else set()
    draft.not_recorded = dict(REASONS)
    return draft


def _name_by_operator(draft: Draft, document: Document, operator: Array, executed: Array) -> None:
    """Call executed nodes by their operator, so that they add up by it; their own names are their scopes."""
    known = executed & (operator >= 0)
    used = distinct(operator[known])
    draft.strings, numbers = draft.strings.extended(
        chrome.unescape(document.strings[n]) for n in used.tolist()
    )
    draft.name[known] = np.asarray(numbers)[np.searchsorted(used, operator[known])]


def _place_kernels(draft: Draft, stream: Array, kernel: Array) -> None:
    """Put a device's work on lanes of its streams: it is recorded on the thread that collected it."""
    for number in distinct(stream[kernel]).tolist():
        rows = kernel & (stream == number)
        thread = f"stream {number}" if number >= 0 else "stream not recorded"
        draft.lanes.append(Lane(rank=0, process="GPU 0", thread=thread, device=0, stream=max(number, -1)))
        draft.lane[rows] = len(draft.lanes) - 1
    if kernel.any():
        draft.notes.append("ONNX Runtime does not record the number of the device: all kernels are on GPU 0")
        chrome.order_lanes(draft)
