"""A trace as folded stacks, ``outer;inner;innermost value`` per line, for flamegraph.pl and many others.

- ``host``: self time of host events in nanoseconds, by the events around them
- ``device``: time of device work in nanoseconds, by the events around the call that launched it; work whose
  launch was not recorded stands alone

The first frame is the thread or, for several ranks, the rank and the thread. ``host`` adds up to the time
that each thread's outermost events cover.
"""

from __future__ import annotations

import os

import numpy as np

from stepscope.analyze.views.measure import chains
from stepscope.errors import UsageError
from stepscope.export.scrub import scrub_texts
from stepscope.files import replacing
from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints

TIMES = ("host", "device")


def write_folded(
    trace: Trace, path: str | os.PathLike[str], *, time: str = "host", scrubbed: bool = True
) -> int:
    """Write a trace as folded stacks.

    Args:
        trace: Of any number of ranks.
        path: Compressed if the name ends in ``.gz``.
        time: ``host`` or ``device``.
        scrubbed: Remove secrets, and user names in paths, from names.

    Returns:
        Number of different stacks written.

    Raises:
        UsageError: Another ``time``.
        OSError: The file cannot be written.
    """
    stacks = folded_stacks(trace, time=time, scrubbed=scrubbed)
    with replacing(path, gzipped=str(path).endswith(".gz")) as file:
        for stack in sorted(stacks):
            file.write(f"{stack} {stacks[stack]}\n".encode("utf-8", "replace"))
    return len(stacks)


def folded_stacks(trace: Trace, *, time: str = "host", scrubbed: bool = True) -> dict[str, int]:
    """Return nanoseconds by stack; see :func:`write_folded`.

    Raises:
        UsageError: ``time`` is neither ``host`` nor ``device``.
    """
    if time not in TIMES:
        raise UsageError(f"time is {time!r}: expected {' or '.join(TIMES)}", hint="choose one of these")
    texts = trace.strings.texts()
    names = [_frame(text) for text in (scrub_texts(texts) if scrubbed else texts)]
    if time == "host":
        rows = np.flatnonzero((trace.device < 0) & (trace.self_ns > 0))
        return _sums(trace, rows, rows, trace.self_ns[rows], names, leaf=False)
    work = trace.device_work()
    known = trace.launch[work] >= 0
    linked = work[known]
    stacks = _sums(trace, linked, trace.launch[linked], trace.duration_ns[linked], names, leaf=True)
    for row in work[~known].tolist():
        stack = f"{_root(trace, int(trace.lane[row]))};{names[trace.name[row]]}"
        stacks[stack] = stacks.get(stack, 0) + int(trace.duration_ns[row])
    return stacks


def _frame(name: str) -> str:
    """Return a name that cannot be mistaken for several frames or lines."""
    return " ".join(name.replace(";", ":").split()) or "(no name)"


def _root(trace: Trace, lane: int) -> str:
    info = trace.lanes[lane]
    rank = f"rank {info.rank} " if len(trace.ranks) > 1 else ""
    return _frame(f"{rank}{info.process} {info.thread}")


def _sums(
    trace: Trace, rows: Ints, owner: Ints, value: Ints, names: list[str], *, leaf: bool
) -> dict[str, int]:
    """Sum values by the path of their owner, and by their own name below it if they are leaves."""
    every, lanes = np.ones(len(trace), bool), len(trace.lanes)
    number, parent, name = chains(trace, trace.parent, trace.depth, trace.lane, count=lanes, named=every)
    path = number[owner]
    key = path.astype(np.int64) << 32 | (trace.name[rows] if leaf else 0)
    keys, which = np.unique(key, return_inverse=True)
    total = np.bincount(which, weights=value, minlength=len(keys)).astype(np.int64)
    stacks: dict[str, int] = {}
    for one, time in zip(keys.tolist(), total.tolist(), strict=True):
        at, parts = one >> 32, [names[one & 0xFFFFFFFF]] if leaf else []
        while at >= 0:
            above = int(parent[at])
            parts.append(names[name[at]] if at >= lanes else _root(trace, at))
            at = above
        stack = ";".join(reversed(parts))
        stacks[stack] = stacks.get(stack, 0) + time
    return stacks
