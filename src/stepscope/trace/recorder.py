"""The recorder's own work: the events of the profiler's start, stop and step in a profile."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from stepscope.kernels import nesting
from stepscope.trace.distinct import distinct
from stepscope.trace.draft import Array
from stepscope.trace.model import Kind
from stepscope.trace.names import Strings

_DONE_BY = (
    r"_?(?:start|stop|step|trace|enter|exit|disable|enable|transit_action|prepare_trace|cleanup)(?:_trace)?"
    r"|__(?:enter|exit)__|_?(?:stop|start)_and_\w+|export\w*"
)
FRAME = re.compile(
    rf"(?:^|[/\\$])(?:_?profiler|profiler_v2)\.py(?:\(\d+\): |:\d+ )(?:{_DONE_BY})$"
    r"|^<built-in (?:method|function) _(?:enable|disable|prepare)_profiler\b"
)
"""Frames of the profilers of PyTorch, JAX and TensorFlow."""


def recorder_rows(strings: Strings, name: Array, kind: Array, parent: Array) -> npt.NDArray[np.bool_]:
    """Return bool[n]: rows that are the recorder's own work, with all that ran within its frames."""
    own = kind == Kind.OVERHEAD
    frames = np.flatnonzero(kind == Kind.PYTHON_FRAME)
    if not len(frames):
        return np.asarray(own)
    used = distinct(name[frames])
    wanted = np.zeros(len(strings), bool)
    wanted[[number for number in used.tolist() if FRAME.search(strings[number])]] = True
    mark = np.full(len(name), -1, np.int32)
    mark[frames[wanted[name[frames]]]] = 1
    nesting.inherit(np.ascontiguousarray(parent, np.int32), mark)
    return np.asarray(own | (mark > 0))
