"""What a viewer asks of a large trace, beside a plain numpy selection.

``python benchmarks/trace_query.py [--events N] [--pixels N]``. The peer selects the window's events with
numpy and keeps one per lane, depth and pixel, without counting what it merged.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from profiles import synthetic

from stepscope.trace.model import Trace
from stepscope.trace.rectangles import Timeline


def main() -> None:
    """Ask for the whole trace and for ever smaller windows of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--pixels", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    trace = synthetic(arguments.events)
    start = time.perf_counter()
    timeline = Timeline(trace)
    print(f"{len(trace):,} events on {len(trace.lanes)} lanes; index in {time.perf_counter() - start:.2f} s")
    end = int(trace.end_ns.max())
    for share in (1, 10, 1000, 100_000):
        window = end // 3, end // 3 + end // share if share > 1 else end
        window = (0, end) if share == 1 else window
        times = []
        for _ in range(arguments.rounds):
            start = time.perf_counter()
            found = timeline.query(*window, pixels=arguments.pixels)
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        naive(trace, *window, arguments.pixels)
        peer = time.perf_counter() - start
        ours = statistics.median(times)
        shown = f"{len(found):,} rectangles of {int(found.count.sum()):,} events"
        print(
            f"  1/{share} of it: {shown} in {ours * 1e3:.1f} ms (worst {max(times) * 1e3:.1f}); "
            f"numpy {peer * 1e3:.1f} ms: {peer / ours:.1f} x"
        )


def naive(trace: Trace, start_ns: int, end_ns: int, pixels: int) -> np.ndarray:
    """Keep the first event of each lane, depth and pixel."""
    rows = np.flatnonzero((trace.start_ns < end_ns) & (trace.start_ns + trace.duration_ns > start_ns))
    pixel = (trace.start_ns[rows] - start_ns) * pixels // (end_ns - start_ns)
    key = (trace.lane[rows].astype(np.int64) * 128 + trace.depth[rows]) * (pixels + 2) + pixel
    return rows[np.unique(key, return_index=True)[1]]


if __name__ == "__main__":
    main()
