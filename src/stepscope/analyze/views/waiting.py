"""Time in which helper threads of the host waited, as far as their Python frames show it.

A profile with stacks also has the frames of threads that take no part in the steps: pools, readers of queues,
whatever records or serves. Most of the time these wait, which is not work; if it were counted, it would dwarf
the steps. Everything that a thread with steps or operators does counts, above all its waits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.attribute.named import named
from stepscope.attribute.table import WAITS
from stepscope.trace.model import Kind, Trace


def waiting(trace: Trace) -> npt.NDArray[np.bool_]:
    """Return bool[n]: events that wait, on threads that run no step.

    These are frames of functions that wait, on threads that ran no step, operator or other work; and the
    waits of XLA's runtime for work that it handed on. Of a trace that holds nothing but frames, no frame:
    nobody knows which thread it is about.
    """
    host = trace.device < 0
    lanes = len(trace.lanes) + 1
    frames, steps = (trace.kind == Kind.PYTHON_FRAME) & host, np.zeros(lanes, bool)
    steps[trace.lane[(trace.kind == Kind.STEP) & host]] = True
    busy = np.zeros(lanes, bool)
    busy[trace.lane[~frames]] = True
    mask = frames & ~busy[trace.lane] if not frames.all() else np.zeros(len(trace), bool)
    if len(trace.instructions):
        mask |= (trace.kind == Kind.OTHER) & host & ~steps[trace.lane]
    return np.asarray(mask & named(trace, WAITS)[trace.name])
