"""``stepscope report``: a run as one HTML file that needs nothing else."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.output import say
from stepscope.errors import UsageError
from stepscope.files import writing

if TYPE_CHECKING:
    from stepscope import store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope report``."""
    parser.add_argument("log_dir", metavar="LOGDIR", help="directory that holds the runs")
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run; needed if there are several")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file to write (default: the run's name with .html)"
    )
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Write the report.

    Raises:
        LogDirectoryError: Not a directory, or one that cannot be listed.
        UnknownRunError: No such run.
        UsageError: No run, several of which none is named, or a file that cannot be written.
    """
    from stepscope import store
    from stepscope.serve.report import report
    from stepscope.store.annotations import Notes

    with store.open(arguments.log_dir) as log:
        name = arguments.run if arguments.run is not None else only_run(log)
        notes = Notes(log.path)
        notes.refresh()
        text = report(log, log.run(name).name, notes[name])
        own = (log.path.name if name == "." else name).replace("/", "-")
    path = Path(arguments.output or f"{own}.html")
    with writing("the report", path, "choose a place that exists and can be written: --output FILE"):
        path.write_text(text, encoding="utf-8")
    told = {"written": str(path), "bytes": len(text.encode())}
    if arguments.json:
        print(json.dumps(told))
    else:
        say(f"written to {path}")


def only_run(log: store.Log) -> str:
    """Return the run of a directory that holds one.

    Raises:
        UsageError: It holds none, or several.
    """
    names = [run.base for run in log.runs() if run.whole is run]
    if len(names) != 1:
        known = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        raise UsageError(f"which run? There are {len(names)}", hint=f"name one of: {known}", path=log.path)
    return names[0]
