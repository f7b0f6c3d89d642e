"""Texts that a trace does not need: a file's strings also describe its threads and events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.trace.model import Trace
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import TABLES

WORTH_IT = 4096
"""Unused texts from which on they are left out."""

Array = npt.NDArray[Any]


def without_unused_texts(trace: Trace) -> Trace:
    """Return the trace with the texts that something in it names, if many others are in its table."""
    strings = trace.strings
    used = np.zeros(len(strings) + 1, bool)  # the last answers for -1
    used[trace.name] = True
    for name in TABLES:
        table = getattr(trace, name)
        for column in table.names:
            used[getattr(table, column)] = True
    paths = {key: path for key in ("scopes", "stacks") if (path := getattr(trace, key)).strings is strings}
    for path in paths.values():
        used[path.name] = True
    used[-1] = False
    if np.count_nonzero(~used[:-1]) < WORTH_IT:
        return trace
    place = np.append(np.cumsum(used[:-1], dtype=np.int32) - 1, np.int32(-1))
    strings_ = chosen(strings, np.flatnonzero(used[:-1]))
    changed: dict[str, Any] = {
        key: Paths(path.parent, place[path.name], strings_) for key, path in paths.items()
    }
    for name in TABLES:
        table = getattr(trace, name)
        moved = {column: place[getattr(table, column)] for column in table.names}
        changed[name] = replace(table, **moved) if moved else table
    return replace(trace, name=place[trace.name], strings=strings_, **changed)


def chosen(strings: Strings, numbers: Array) -> Strings:
    """Return a table of some of the texts, in their order."""
    lengths = np.diff(strings.ends, prepend=0)
    keep = np.zeros(len(strings), bool)
    keep[numbers] = True
    return Strings(strings.data[: int(lengths.sum())][np.repeat(keep, lengths)], np.cumsum(lengths[keep]))
