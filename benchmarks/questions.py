"""Every question of ``stepscope ask`` over 500 runs of 20 tags: cold as a command, and warm in a process.

``python benchmarks/questions.py [--rounds 5] [--runs 500] [--only NAME …]``. A cold answer is a command of
its own: once with our cache of the logs, once without any, with the system's cache of files warm. A warm
answer is one after the first from the same desk, as an MCP server gives it. Further runs have ranks,
profiles, texts and pictures. No peer is asked: none answers these questions from a directory.

Modules are compiled before: what a first start after an installation takes for that is no part of it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from logs import CACHE, logs

from stepscope.serve.questions.answer import BUDGET, CHARACTERS
from stepscope.serve.questions.declare import HOMES, answered
from stepscope.serve.questions.desk import Desk

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "lib"))

from support.everything import LONG, PROFILE, write_all, write_records

TAGS, STEPS = 20, 200
COLD_S, WARM_S = 1.5, 0.3
AVERAGE = "SELECT run, avg(value) FROM series WHERE tag = 'train/metric_3' GROUP BY run ORDER BY 2 LIMIT 5"
QUESTIONS: dict[str, dict[str, Any]] = {
    "runs": {},
    "run": {"run": "run007"},
    "findings": {},
    "changes": {"run": "run007"},
    "series": {"tags": "train/metric_3", "runs": "run00"},
    "compare": {"a": "run00", "b": "run01"},
    "ranks": {"run": "job"},
    "explain_step": {"profile": PROFILE},
    "operations": {"profile": PROFILE},
    "profile": {"profile": PROFILE},
    "text": {"run": LONG},
    "image": {"run": "run007", "tag": "train/metric_3"},
    "sql": {"query": AVERAGE},
}


def main() -> int:
    """Measure and print; the exit code says whether every bound held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", nargs="+", choices=HOMES, default=list(HOMES), metavar="NAME")
    options = parser.parse_args()
    directory = runs_of_all_kinds(options.runs)
    desk = Desk(directory)
    held = True
    print("question      cached s  no cache s  processor s  warm ms  tokens")
    for name in options.only:
        arguments = QUESTIONS[name]
        cached = [command(directory, name, arguments) for _ in range(options.rounds + 1)][1:]
        cold = [command(directory, name, arguments, "--no-cache") for _ in range(options.rounds)]
        warm, tokens = answers(partial(answered, name, desk, arguments, BUDGET), options.rounds)
        with_cache, without = (statistics.median(seconds for seconds, _ in some) for some in (cached, cold))
        processor = statistics.median(seconds for _, seconds in cold)
        fits = max(with_cache, without) <= COLD_S and warm <= WARM_S and tokens <= BUDGET
        held &= fits
        print(
            f"{name:12} {with_cache:9.2f} {without:11.2f} {processor:12.2f} {warm * 1e3:8.0f} {tokens:7.0f}"
            f"{'' if fits else '  missed'}",
            flush=True,
        )
    desk.close()
    return 0 if held else 1


def runs_of_all_kinds(count: int) -> Path:
    """Return a directory of runs with scalars, and some with everything else, made on first use."""
    plain = logs(count, TAGS, STEPS)
    directory = CACHE / f"questions-{count}"
    if not directory.exists():
        partial_directory = directory.with_suffix(".partial")
        shutil.rmtree(partial_directory, ignore_errors=True)
        shutil.copytree(plain, partial_directory, copy_function=os.link)
        write_all(partial_directory)
        write_records(partial_directory / LONG)
        partial_directory.rename(directory)
    return directory


def answers(ask: Any, rounds: int) -> tuple[float, float]:
    """Return the median seconds of an answer after the first, and its tokens."""
    tokens = len(ask().text) / CHARACTERS
    warm = []
    for _ in range(rounds):
        began = time.perf_counter()
        ask()
        warm.append(time.perf_counter() - began)
    return statistics.median(warm), tokens


def command(directory: Path, name: str, arguments: dict[str, Any], *options: str) -> tuple[float, float]:
    """Return the seconds and the processor's seconds of one command."""
    words = [f"--{key}={value}" for key, value in arguments.items()]
    if name == "image":
        words += ["-o", os.devnull]
    line = [sys.executable, "-m", "stepscope", "ask", name, os.fspath(directory), *words, *options]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(line, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


if __name__ == "__main__":
    raise SystemExit(main())
