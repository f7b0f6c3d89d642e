"""A trace from its cache beside the same from its JSON.

``python benchmarks/trace_cache.py [TRACE] [--rounds N]``.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from profiles import kineto, shared

from stepscope.trace.load import load_trace


def main() -> None:
    """Load several times without and with the cache, and print both medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trace", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    trace = arguments.trace or shared("traces/kineto/v100_rank1of2.json.gz") or kineto(50)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(shutil.copy(trace, folder))
        load_trace(path)
        plain, cached = [], []
        for _ in range(arguments.rounds):
            start = time.perf_counter()
            load_trace(path, cache=False)
            middle = time.perf_counter()
            found = load_trace(path)
            total = int(found.self_ns.sum()) + int(found.start_ns.sum())  # touches pages, as a question would
            cached.append(time.perf_counter() - middle)
            plain.append(middle - start)
            assert total > 0
    slow, fast = statistics.median(plain), statistics.median(cached)
    times = f"from JSON {slow * 1e3:.1f} ms, from the cache {fast * 1e3:.2f} ms"
    print(f"{trace.name}: {times}: {slow / fast:.0f} x faster")


if __name__ == "__main__":
    main()
