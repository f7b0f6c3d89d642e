"""A trace for https://www.speedscope.app: one profile per thread and stream.

Format: speedscope's own file format, "evented" profiles, https://www.speedscope.app/file-format-schema.json.
Speedscope requires openings and closings in order and properly nested, so a lane whose events overlap in part
becomes several profiles.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from stepscope.export.layout import RowLayout, layout
from stepscope.export.scrub import scrub_texts
from stepscope.files import replacing
from stepscope.kernels import tree
from stepscope.trace.model import Trace
from stepscope.trace.tables import Ints
from stepscope.version import __version__

SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def write_speedscope(trace: Trace, path: str | os.PathLike[str], *, scrubbed: bool = True) -> int:
    """Write a trace for speedscope.

    Args:
        trace: Of any number of ranks.
        path: Compressed if the name ends in ``.gz``.
        scrubbed: Remove secrets, and user names in paths, from names.

    Returns:
        Number of events written.

    Raises:
        OSError: The file cannot be written.
    """
    place = layout(trace)
    texts = trace.strings.texts()
    names = [text.encode("utf-8", "replace").decode() for text in (scrub_texts(texts) if scrubbed else texts)]
    source = Path(trace.sources[0].path).name if trace.sources else trace.format
    head = {
        "$schema": SCHEMA,
        "exporter": f"stepscope {__version__}",
        "name": source,
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": name} for name in names]},
    }
    with replacing(path, gzipped=str(path).endswith(".gz")) as file:
        file.write(msgspec.json.encode(head)[:-1] + b',"profiles":[')
        separator = b"\n"
        for profile in _profiles(trace, place):
            file.write(separator + msgspec.json.encode(profile))
            separator = b",\n"
        file.write(b"\n]}\n")
    return len(trace) - place.left_out


def _profiles(trace: Trace, place: RowLayout) -> Iterator[dict[str, Any]]:
    order = np.argsort(place.track, kind="stable")
    bounds = np.searchsorted(place.track[order], np.arange(len(place.tracks) + 1))
    ranks = len(trace.ranks) > 1
    for number, (lane, level) in enumerate(place.tracks):
        rows = order[bounds[number] : bounds[number + 1]]
        info = trace.lanes[lane]
        name = " ".join(filter(None, [f"rank {info.rank}" if ranks else "", info.process, info.thread]))
        yield _profile(trace, place, rows, f"{name} ({level + 1})" if level else name)


def _profile(trace: Trace, place: RowLayout, rows: Ints, name: str) -> dict[str, Any]:
    """Return one profile of rows in pre-order: an Euler tour yields openings and closings in order."""
    at = np.full(len(trace) + 1, -1, np.int32)  # the last entry serves -1
    at[rows] = np.arange(len(rows))
    parent = np.ascontiguousarray(at[place.parent[rows]])
    depth, size = np.zeros(len(rows), np.int32), np.ones(len(rows), np.int64)
    tree.depths(parent, depth)
    tree.accumulate(parent, size)
    opening = 2 * np.arange(len(rows)) - depth
    closing = opening + 2 * size - 1
    time, frame = np.empty(2 * len(rows), np.int64), np.empty(2 * len(rows), np.int64)
    time[opening], frame[opening] = trace.start_ns[rows], trace.name[rows]
    time[closing], frame[closing] = trace.start_ns[rows] + trace.duration_ns[rows], trace.name[rows]
    kind = np.full(2 * len(rows), "C")
    kind[opening] = "O"
    events = [
        {"type": k, "frame": f, "at": t}
        for k, f, t in zip(kind.tolist(), frame.tolist(), time.tolist(), strict=True)
    ]
    return {
        "type": "evented",
        "name": name,
        "unit": "nanoseconds",
        "startValue": events[0]["at"],
        "endValue": int(time.max()),
        "events": events,
    }
