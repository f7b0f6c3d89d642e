"""``stepscope import``: logs that other tools have left become runs."""  # noqa: N999  found by the command's name

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from stepscope.cli.output import Output, put
from stepscope.errors import UsageError
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.adopt import Log


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Turn logs of other tools into runs: tables (CSV, TSV), JSON, lines of a console, .wandb files, "
        "mlruns and databases of MLflow, databases of trackio. The originals stay as they are."
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="a file, or a directory in which to look for such files"
    )
    parser.add_argument(
        "--to", default="runs", metavar="LOGDIR", help="the log directory that gets the runs (default: runs)"
    )
    parser.add_argument(
        "--name", default="", help="the name of the run, if there is one (default: from the path)"
    )
    parser.add_argument("--json", action="store_true", help="print the runs, and what was left out, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Import the logs.

    Raises:
        LogDirectoryError: A file holds no log, or its run is there already.
        UsageError: One name for several runs.
    """
    from stepscope.adopt import logs_in, places, write

    logs: list[Log] = []
    others: dict[str, str] = {}
    for path in arguments.paths:
        read, left = logs_in(path)
        logs += read
        others |= left
    if arguments.name and len(logs) > 1:
        raise UsageError(f"--name is for one run; there are {len(logs)}", hint="import one file at a time")
    if arguments.name:
        logs[0].name = arguments.name
    for log, place in zip(logs, places(logs, arguments.to), strict=True):
        write(log, place)
        log.name = place.relative_to(arguments.to).as_posix()
    data = {"to": arguments.to, "runs": [_data(log) for log in logs], "others": others}
    put(Output(_text(logs, others, arguments.to), data), as_json=arguments.json)
    return 0


def _data(log: Log) -> dict[str, Any]:
    return {
        "name": log.name,
        "points": log.points,
        "tags": log.tags,
        "steps_by": log.steps_by or None,
        "times_by": log.times_by or None,
        "settings": log.settings,
        "left_out": log.left_out,
    }


def _text(logs: list[Log], others: dict[str, str], to: str) -> str:
    lines: list[str] = []
    for log in logs:
        steps = f"steps by {log.steps_by}" if log.steps_by else "nothing counts steps, so rows do"
        times = f"times by {log.times_by}" if log.times_by else "no times, so all have that of the file"
        size = f"{counted(log.points, 'point')} of {counted(len(log.tags), 'series', 'series')}"
        lines.append(f"{log.name}: {size}; {steps}; {times}")
        lines += [f"  left out: {name}: {why}" for name, why in log.left_out.items()]
    if others:
        holds = counted(len(others), "other file holds", "other files hold")
        lines.append(f"{holds} no log of a training; --json lists them")
    them = "it" if len(logs) == 1 else "them"
    lines.append(f"{counted(len(logs), 'run')} in {to}; to look at {them}: stepscope serve {to}")
    return "\n".join(lines) + "\n"
