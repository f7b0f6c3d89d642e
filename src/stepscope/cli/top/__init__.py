"""``stepscope top``: the runs of a log directory live in the terminal, with charts, findings and ranks."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from stepscope.cli.arguments import add_cache
from stepscope.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope top``."""
    parser.add_argument("log_dir", nargs="?", default=".", metavar="LOGDIR", help="default: this directory")
    parser.add_argument("--run", metavar="NAME", help="begin with this run (default: the newest)")
    parser.add_argument(
        "--charts", default="", metavar="WORDS", help="begin with charts whose titles hold these words"
    )
    parser.add_argument(
        "--every",
        type=float,
        default=1.0,
        metavar="SECONDS",
        help="look for new data this often (default: 1)",
    )
    add_cache(parser)


def run(arguments: argparse.Namespace) -> None:
    """Show the runs until ``q`` is pressed.

    Raises:
        UsageError: Textual is not installed, or this is not a terminal.
        LogDirectoryError: Not a directory, or one that cannot be listed.
        UnknownRunError: No such run.
    """
    missing = [name for name in ("textual", "textual_plotext") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"stepscope top draws with {missing[0]}, which is not installed",
            hint="pip install 'stepscope[top]'",
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "stepscope top needs a terminal; found a pipe or file", hint="for programs: stepscope ls --json"
        )
    if not arguments.every > 0:
        raise UsageError(f"--every {arguments.every:g}: expected a time above 0", hint="--every 1")
    from stepscope import store
    from stepscope.cli.top.app import Top

    with store.open(arguments.log_dir, cache=arguments.cache, load=False) as log:
        log.refresh(max_seconds=1.0)
        if arguments.run is not None:
            log.refresh()
            log.run(arguments.run)
        Top(log, first=arguments.run, wanted=arguments.charts, every_s=arguments.every).run()
