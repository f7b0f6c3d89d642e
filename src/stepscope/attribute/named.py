"""The names of a trace's events that a rule matches; each rule looks at each name once.

The strings of a trace also hold shapes and types of inputs, which are long and name nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stepscope.trace.distinct import distinct
from stepscope.trace.model import Trace

Number = TypeVar("Number", np.bool_, np.int8, np.int32)


def named(trace: Trace, pattern: re.Pattern[str]) -> npt.NDArray[np.bool_]:
    """Return whether a pattern is found in each name; not to be written to.

    Args:
        trace: Any trace.
        pattern: Searched for.

    Returns:
        bool[strings + 1], by numbers of names; the last one is of -1, no name.
    """
    key = f"named {pattern.flags} {pattern.pattern}"
    return trace.derived(key, lambda: of_names(trace, lambda text: bool(pattern.search(text)), np.bool_))


def of_names(
    trace: Trace, find: Callable[[str], int], dtype: type[Number], other: int = 0
) -> npt.NDArray[Number]:
    """Return a function's result for each name of an event, ``other`` of all other strings and of -1."""
    values: npt.NDArray[Number] = np.empty(len(trace.strings) + 1, dtype)
    values[:] = other
    texts = trace.strings.texts()
    for number in used_names(trace):
        values[number] = find(texts[number])
    return values


def used_names(trace: Trace) -> list[int]:
    """Return the numbers of the names that events have."""
    return trace.derived("used names", lambda: [n for n in distinct(trace.name).tolist() if n >= 0])
