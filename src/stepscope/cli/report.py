"""``stepscope report``: a run as one HTML file that needs nothing else."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepscope.cli.output import Output, put
from stepscope.files import writing


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
    from stepscope.serve.report import write_run

    report, name = write_run(arguments.log_dir, arguments.run)
    path = Path(arguments.output or name)
    write(path, report)
    data = {"written": str(path), "bytes": len(report)}
    put(Output(f"written to {path}\n", data), as_json=arguments.json)


def write(path: Path, report: bytes) -> None:
    """Write a report.

    Raises:
        UsageError: The file cannot be written.
    """
    with writing("the report", path, "choose a file in a folder that exists and can be written"):
        path.write_bytes(report)
