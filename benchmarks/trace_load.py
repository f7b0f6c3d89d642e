"""A Kineto trace to a ready Trace, beside HTA's parsed frame and plain ``json.loads``.

``python benchmarks/trace_load.py [TRACE …] [--hta PYTHON] [--rounds N]``. HTA (``HolisticTraceAnalysis``)
needs an environment of its own; ``--hta`` or ``STEPSCOPE_HTA_PYTHON`` names its interpreter. Every
measurement is a process of its own; imports are not counted, for either side; peak memory is that of the
whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from profiles import kineto, shared

OURS = """
import json, resource, sys, time
from stepscope.trace import chrome_file, load
start = time.perf_counter()
trace = load.load_trace(sys.argv[1], cache=False)
seconds = time.perf_counter() - start
assert trace.self_ns.sum() > 0
print(json.dumps({"seconds": seconds, "events": len(trace), "bytes_per_event": trace.nbytes / len(trace),
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
"""
JSON = """
import gzip, json, resource, sys, time
start = time.perf_counter()
events = json.loads(gzip.open(sys.argv[1]).read())["traceEvents"]
print(json.dumps({"seconds": time.perf_counter() - start, "events": len(events),
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
"""
HTA = """
import json, logging, resource, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
start = time.perf_counter()
_, frame, _ = parse_trace_dataframe(sys.argv[1], ParserConfig.get_default_cfg())
print(json.dumps({"seconds": time.perf_counter() - start, "events": len(frame),
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
"""


def main() -> None:
    """Measure each trace with all three and print one line per reader."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "traces", type=Path, nargs="*", help="default: the recorded V100 trace, and one of 250 MB"
    )
    parser.add_argument(
        "--hta", default=os.environ.get("STEPSCOPE_HTA_PYTHON", ""), help="interpreter that has HTA"
    )
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    recorded = shared("traces/kineto/v100_rank1of2.json.gz")
    traces = arguments.traces or [*([recorded] if recorded else []), kineto(250)]
    for trace in traces:
        print(f"{trace.name}: {trace.stat().st_size / 1e6:.1f} MB")
        readers = {"stepscope": (sys.executable, OURS), "gzip+json.loads": (sys.executable, JSON)}
        if arguments.hta:
            readers["HTA"] = (arguments.hta, HTA)
        else:
            print("  HTA: not measured, give --hta or STEPSCOPE_HTA_PYTHON")
        report(trace, readers, arguments.rounds)


def report(trace: Path, readers: dict[str, tuple[str, str]], rounds: int) -> None:
    """Run all readers in turn, several times, and print medians and ratios."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, (python, program) in readers.items():
            answer = subprocess.run(
                [python, "-c", program, str(trace)], capture_output=True, text=True, check=True
            )
            results[name].append(json.loads(answer.stdout.splitlines()[-1]))
    ours = {
        key: statistics.median(each[key] for each in results["stepscope"]) for key in results["stepscope"][0]
    }
    for name, found in results.items():
        seconds = statistics.median(each["seconds"] for each in found)
        peak = statistics.median(each["peak_mb"] for each in found)
        events = int(found[0]["events"])
        ratio = f"; {seconds / ours['seconds']:.1f} x our time, {peak / ours['peak_mb']:.2f} x our peak"
        line = f"  {name}: {seconds:.3f} s, {peak:.0f} MB peak, {events:,} events"
        print(line + (ratio if name != "stepscope" else ""))
        if name == "HTA":
            print(f"  our peak is {ours['peak_mb'] / peak:.2f} of HTA's")
    print(f"  a Trace takes {ours['bytes_per_event']:.0f} bytes per event")


if __name__ == "__main__":
    main()
