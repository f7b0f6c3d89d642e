"""``stepscope glance`` and ``advise`` of a trace of some 60 MB, beside HTA's load; each as a whole process.

``python benchmarks/glance.py [TRACE] [--hta PYTHON] [--rounds N]``. HTA's load is ``TraceAnalysis``, which
every question to it begins with; beside it stands only the parsing of the file (``parse_trace_dataframe``).
It needs an environment of its own, which ``--hta`` or ``STEPSCOPE_HTA_PYTHON`` names. Ours includes the
answer, advice and all, and the writing of the cache; starting Python and imports count for both.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profiles import kineto, shared

LOAD = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_dir=sys.argv[1])
"""
PARSE = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
parse_trace_dataframe(sys.argv[2], ParserConfig.get_default_cfg())
"""
BOUND = 5.0
"""How many times as long HTA's load has to take, at the least."""


def seconds(*command: str) -> tuple[float, float]:
    """Run a process and return its wall time and its processor time."""
    wall, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {
        name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }  # else each process would compile all it imports
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime
    return time.perf_counter() - wall, took


def main() -> int:
    """Measure in turn and print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("trace", type=Path, nargs="?", help="default: the recorded V100 trace, 53 MB")
    parser.add_argument("--hta", default=os.environ.get("STEPSCOPE_HTA_PYTHON", ""))
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    trace = arguments.trace or shared("traces/kineto/v100_rank1of2.json.gz") or kineto(60)
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_CACHE_HOME"] = str(Path(place, "cache"))
        copy = Path(place) / "rank0.json.gz"
        shutil.copy(trace, copy)
        commands = {
            name: (sys.executable, "-m", "stepscope", name, str(copy)) for name in ("glance", "advise")
        }
        if arguments.hta:
            for name, program in (("HTA's load", LOAD), ("HTA's parsing", PARSE)):
                commands[name] = (arguments.hta, "-c", program, place, str(copy))
        else:
            print("HTA: not measured, give --hta or STEPSCOPE_HTA_PYTHON")
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(arguments.rounds + 1):
            for name, command in commands.items():
                shutil.rmtree(Path(place, "cache"), ignore_errors=True)  # the trace's columns
                one = seconds(*command)
                if number:  # the first round fills the caches of files and bytecode
                    took[name].append(one)
    middle = {
        name: [statistics.median(each) for each in zip(*found, strict=True)] for name, found in took.items()
    }
    for name, (wall, used) in middle.items():
        print(f"{name}: {wall:.2f} s, {used:.2f} s of processors")
    if "HTA's load" not in middle:
        return 0
    ratios = {name: middle["HTA's load"][0] / middle[name][0] for name in ("glance", "advise")}
    for name, ratio in ratios.items():
        print(f"HTA's load takes {ratio:.1f} x {name} (bound {BOUND})")
    return int(min(ratios.values()) < BOUND)


if __name__ == "__main__":
    sys.exit(main())
