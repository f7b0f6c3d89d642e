"""Time in which helper threads of the host waited, as far as their Python frames show it.

A profile with stacks also has the frames of threads that take no part in the steps: pools, readers of queues,
whatever records or serves. Most of the time these wait, which is not work; if it were counted, it would dwarf
the steps. Everything that a thread with steps or operators does counts, above all its waits.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace

_BUILTIN = r"acquire|wait|sleep|select|poll|kevent|accept|recv|recv_into|recvfrom|get of _queue\.SimpleQueue"
_LIBRARY = {"threading": "wait|join|_wait_for_tstate_lock", "queue": "get", "selectors": "select"}
_WAITS = re.compile(
    "|".join(
        [
            rf"<built-in (?:method|function) (?:{_BUILTIN})\b",
            r"(?:_thread\.lock\.acquire|time\.sleep|select\.\w+|_queue\.SimpleQueue\.get)$",
            *(
                rf"(?:.*/)?{module}\.py\(\d+\): (?:{names})$|(?:\w+\.)*(?:{names}) \(.*\b{module}\.py:\d+\)$"
                for module, names in _LIBRARY.items()
            ),
        ]
    )
)
"""Functions that do nothing but wait, as PyTorch's profiler and viztracer write them."""


_RUNTIME_WAITS = re.compile(r"wait for completion|^BufferSequencingEvent::|::Await$|Block(?:Host)?UntilReady")
"""Events of XLA's own threads that do nothing but wait for others."""


def waiting(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return bool[n]: events that wait, on threads that run no step.

    These are frames of functions that wait, on threads that ran no step, operator or other work; and the
    waits of XLA's runtime for work that it handed on. Of a trace that holds nothing but frames, no frame:
    nobody knows which thread it is about.
    """
    return _frames(trace) | _runtime(trace)


def _runtime(trace: Trace) -> npt.NDArray[np.bool_]:
    rows = np.flatnonzero((trace.kind == Kind.OTHER) & (trace.device < 0))
    found = np.zeros(len(trace), bool)
    if len(rows) and len(trace.instructions):
        stepping = trace.lane[(trace.kind == Kind.STEP) & (trace.device < 0)]
        rows = rows[~np.isin(trace.lane[rows], stepping)]
        names = [n for n in distinct(trace.name[rows]).tolist() if _RUNTIME_WAITS.search(trace.strings[n])]
        found[rows[np.isin(trace.name[rows], names)]] = True
    return found


def _frames(trace: Trace) -> npt.NDArray[np.bool_]:
    frames = (trace.kind == Kind.PYTHON_FRAME) & (trace.device < 0)
    if not frames.any() or frames.all():
        return np.zeros(len(trace), bool)
    busy = np.zeros(len(trace.lanes) + 1, bool)
    busy[trace.lane[~frames]] = True
    helper = frames & ~busy[trace.lane]
    names = distinct(trace.name[helper])
    waits = np.zeros(len(trace.strings) + 1, bool)
    waits[[name for name in names.tolist() if _WAITS.match(trace.strings[name])]] = True
    return np.asarray(helper & waits[trace.name])
