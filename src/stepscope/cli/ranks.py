"""``stepscope ranks``: who waits for whom, because of what, and what it costs."""

from __future__ import annotations

import argparse
import math
import sys
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from stepscope.cli.arguments import add_budget, add_cache, add_verbose
from stepscope.cli.budget import within
from stepscope.cli.output import Output, complain, json_text, say
from stepscope.serve.job_report import brief, text_of
from stepscope.text import duration

if TYPE_CHECKING:
    from stepscope.analyze.ranks.job import Job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="PATH",
        help="a run, a folder of the ranks' profiles, or of their flight-recorder dumps",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_verbose(parser, "print all tables: stages, waiting, bandwidths, what if")
    add_budget(parser)
    add_cache(parser, "keep the profiles' columns in cache files")
    parser.add_argument(
        "--workers",
        type=count_of,
        metavar="N",
        help="processes that read profiles (default: one per processor)",
    )
    parser.add_argument(
        "--network-gbit",
        type=gbit_of,
        metavar="GBIT/S",
        help="what the network of each rank carries in one direction: groups of several machines are "
        "compared with it",
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS|local",
        help="have a Ray cluster read the profiles: its address, auto for the one in RAY_ADDRESS or of this "
        "machine, local for one that is started here",
    )
    parser.add_argument(
        "--fall-back", action="store_true", help="where Ray is not available, use processes on this machine"
    )


def count_of(text: str) -> int:
    """Return a number of processes.

    Raises:
        argparse.ArgumentTypeError: It is not one.
    """
    if not text.isdecimal() or not 0 < int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processes, expected 1 to 1024")
    return int(text)


def gbit_of(text: str) -> float:
    """Return a rate in gigabits per second.

    Raises:
        argparse.ArgumentTypeError: It is not one.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate in Gbit/s, expected 400, say")
    return number


def run(arguments: argparse.Namespace) -> int:
    job = _loaded(arguments)
    lines = text_of(job) if arguments.verbose else brief(job, arguments.path)
    output = within(Output("\n".join(lines), job.data() if arguments.json else None), arguments.budget)
    if arguments.json:
        print(json_text(output.data))
        return 0
    say(output.text.rstrip("\n"))
    for note in job.notes:
        complain(note)
    return 0


def _loaded(arguments: argparse.Namespace) -> Job:
    from functools import partial

    from stepscope.errors import UsageError
    from stepscope.job import load_ranks

    progress = ProgressLine()
    gbit = arguments.network_gbit
    load = partial(
        load_ranks, arguments.path, cache=arguments.cache, processes=arguments.workers,
        progress=progress.told, network_bytes_per_s=None if gbit is None else gbit * 1e9 / 8,
    )  # fmt: skip
    try:
        try:
            return load(ray=arguments.ray or False)
        except UsageError as error:
            if not (arguments.ray and arguments.fall_back):
                raise
            complain(f"without Ray: {error.message}")
            return load()
    finally:
        progress.end()


class ProgressLine:
    """Shows on a terminal how far reading is, and how long it will take; elsewhere twice a minute."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._every = 0.2 if self._stream.isatty() else 30.0
        self._said = monotonic()
        self._open = False

    def told(self, what: str, done: int, total: int, seconds: float) -> None:
        """Note how many of all files are done."""
        now = monotonic()
        if now - self._said < self._every or done == total:
            return
        self._said = now
        left = seconds / done * (total - done)
        doing = {"read": "read", "ask": "asked what slow ranks did"}[what]
        text = f"{doing}: {done:,} of {total:,} files, {duration(left)} left"
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{text}")
            self._open = True
        else:
            self._stream.write(f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        """Take the line away."""
        if self._open:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
