"""Some of the recorded steps, to which every other analysis is then limited."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from stepscope.attribute.spans import Ints
from stepscope.errors import UsageError
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace

_PART = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_LISTED = 20


def keep_steps(trace: Trace, wanted: str) -> Trace:
    """Return a trace of which only some steps are marked; its events stay, for the time between them.

    Args:
        trace: Any trace.
        wanted: Numbers and ranges, both ends included: ``3``, ``3-5``, ``3-5,9``. Empty is every step.

    Raises:
        UsageError: Not such a list, or none of these steps was recorded.
    """
    if not wanted.strip():
        return trace
    steps = trace.steps
    mine = _chosen(steps.number, wanted)
    if not mine.any():
        raise UsageError(f"steps {wanted} were not profiled", hint=f"steps: {_listed(steps.number)}")
    inside = np.isin(trace.step, distinct(steps.number[mine]))
    columns = {name: column[mine] for name, column in steps.columns().items()}
    return replace(
        trace, step=np.where(inside, trace.step, np.int32(-1)).astype(np.int32), steps=type(steps)(**columns)
    )


def _chosen(numbers: Ints, wanted: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    chosen = np.zeros(len(numbers), bool)
    for part in wanted.replace(" ", "").split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UsageError(f"steps are {wanted!r:.60}: expected numbers and ranges", hint="3-5,9")
        first, last = int(match[1]), int(match[2] or match[1])
        chosen |= (numbers >= first) & (numbers <= last)
    return chosen


def _listed(numbers: Ints) -> str:
    every = distinct(numbers).tolist()
    listed = ", ".join(map(str, every[:_LISTED])) or "none"
    return listed + (", …" if len(every) > _LISTED else "")
