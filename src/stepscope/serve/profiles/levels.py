"""The tracks of a window as they are drawn: lowest and highest level a pixel, and the wider tensors."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from stepscope.serve.frame import FrameArrays, pack
from stepscope.serve.profiles.open_profiles import End, OpenProfile, Pixels, Start
from stepscope.serve.profiles.tracks import Track
from stepscope.serve.profiles.types import TrackColumns, TracksHeader
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get


@get("tracks", frame=TracksHeader)
def levels(
    profile: OpenProfile,
    start: Start = None,
    end: End = None,
    pixels: Pixels = 1000,
    tracks: Annotated[list[int] | None, Meta(description="numbers of tracks; default: all")] = None,
) -> bytes:
    """Return the tracks of a window as a frame.

    Raises:
        Refusal: The window is empty, or a track is not there.
    """
    start_ns, end_ns = profile.window(start, end)
    if end_ns <= start_ns:
        raise Refusal(
            400, f"nothing to draw: {start_ns} to {end_ns} ns on {pixels} pixels", "ask for a window"
        )
    arrays, sent = FrameArrays(), []
    for number in range(len(profile.tracks)) if tracks is None else tracks:
        if not 0 <= number < len(profile.tracks):
            raise Refusal(400, f"no track {number}: there are {len(profile.tracks)}", "ask api/v1/outline")
        track = profile.tracks[number]
        if track.facts.kind == "tensors":
            columns, merged = tensors(track, start_ns, end_ns, pixels)
        else:
            low, high = drawn(track, start_ns, end_ns, pixels)
            columns, merged = {"low": low, "high": high}, 0
        sent.append(TrackColumns(number, {key: arrays.add(value) for key, value in columns.items()}, merged))
    return pack(TracksHeader(profile.path, start_ns, end_ns, pixels, sent), arrays)


def drawn(track: Track, start_ns: int, end_ns: int, pixels: int) -> tuple[npt.NDArray[np.float32], ...]:
    """Return the lowest and the highest level in each pixel, the one that held before it among them.

    NaN is before the first sample.
    """
    edges = start_ns + (np.arange(pixels + 1, dtype=np.int64) * (end_ns - start_ns)) // pixels
    places = np.searchsorted(track.time_ns, edges)
    first, last = places[:-1], places[1:]
    held = np.where(first > 0, track.value[np.maximum(first - 1, 0)], np.nan)
    # A sample on the edge itself ends what held before.
    held[track.time_ns[np.minimum(first, len(track.time_ns) - 1)] == edges[:-1]] = np.nan
    low, high = held.copy(), held.copy()
    some = np.flatnonzero(last > first)
    if len(some):
        values = track.value[: last[some[-1]]]
        low[some] = np.fmin(held[some], np.minimum.reduceat(values, first[some]))
        high[some] = np.fmax(held[some], np.maximum.reduceat(values, first[some]))
    return low.astype(np.float32), high.astype(np.float32)


def tensors(track: Track, start_ns: int, end_ns: int, pixels: int) -> tuple[dict[str, npt.NDArray[Any]], int]:
    """Return the tensors of a window that are at least a pixel wide, and how many are not."""
    inside = (track.time_ns < end_ns) & (track.end_ns > start_ns)
    wide = inside & (track.end_ns - track.time_ns >= (end_ns - start_ns) // pixels)
    columns: dict[str, npt.NDArray[Any]] = {
        "row": track.row[wide].astype(np.int32),
        "layer": track.layer[wide].astype(np.int32),
        "start": track.time_ns[wide].astype(np.float64),
        "end": track.end_ns[wide].astype(np.float64),
        "bytes": track.value[wide],
    }
    return columns, int(inside.sum() - wide.sum())
