"""``stepscope demo``: train something real, record it and look at it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import ServeError, UsageError

if TYPE_CHECKING:
    from stepscope.serve import Server

LEARNING_RATES = (0.001, 0.01, 0.0001)
EPOCHS = 60
PORT = 6006


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log_dir",
        metavar="LOGDIR",
        nargs="?",
        default="runs/demo",
        help="where to record (default: runs/demo)",
    )
    parser.add_argument(
        "--framework",
        choices=("auto", "torch", "jax", "numpy"),
        default="auto",
        help="what to train with (default: torch where it is installed, else jax, else numpy)",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=EPOCHS,
        help=f"passes over the data, of 22 steps each (default: {EPOCHS})",
    )
    parser.add_argument("--port", type=int, help=f"port of the page (default: {PORT}, or a free one)")
    parser.add_argument(
        "--serve",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="serve the page while it trains and afterwards (default: yes)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--json", action="store_true", help="print a line of JSON with the page's URL, then one for every run"
    )


def run(arguments: argparse.Namespace) -> int:
    """Train four runs under the open page; serve until interrupted."""
    from stepscope.demo import training

    if arguments.epochs < 1:
        raise UsageError(
            f"--epochs must be 1 or more, got {arguments.epochs}", hint="leave --epochs out for the default"
        )
    framework = training.choose(arguments.framework)
    log_dir = Path(arguments.log_dir)
    server = start_server(log_dir, arguments.port) if arguments.serve else None
    try:
        if server:
            tell(f"open {server.url} and watch: training four runs with {framework} into {log_dir}")
            report(arguments, url=server.url)
            if arguments.open:
                from stepscope.cli.serve import open_browser

                open_browser(server.url)
        steps = arguments.epochs * training.steps_per_epoch()
        runs = [(f"lr{rate:g}", rate, None) for rate in LEARNING_RATES]
        for name, rate, slow_from in [*runs, ("slow-disk", LEARNING_RATES[0], steps // 2)]:
            directory = unused(log_dir / f"{framework}-{name}")
            accuracy = training.train(
                directory, framework, learning_rate=rate, epochs=arguments.epochs, slow_from=slow_from
            )
            tell(f"{directory}: evaluation accuracy {accuracy:.1%}")
            report(arguments, run=directory.name, learning_rate=rate, accuracy_ratio=accuracy)
        if server:
            tell(f"done; still serving {server.url} (Ctrl-C stops)")
            server.wait()
    finally:
        if server:
            server.stop()
    return 0


def start_server(log_dir: Path, port: int | None) -> Server:
    """Serve in a thread; on a free port if the default one is taken and none was requested."""
    from stepscope.serve import Server

    log_dir.mkdir(parents=True, exist_ok=True)
    try:
        return Server(log_dir, port=PORT if port is None else port).start()
    except ServeError:
        if port is not None:
            raise
        return Server(log_dir, port=0).start()


def unused(directory: Path) -> Path:
    """Return the directory, with a number appended if an earlier demo left one."""
    taken, number = directory, 1
    while taken.exists():
        number += 1
        taken = directory.with_name(f"{directory.name}-{number}")
    return taken


def report(arguments: argparse.Namespace, **facts: object) -> None:
    """Print facts as one line of JSON on stdout, if JSON was asked for."""
    if arguments.json:
        import json

        print(json.dumps(facts), flush=True)


def tell(line: str) -> None:
    """Say it on stderr."""
    print(line, file=sys.stderr, flush=True)
