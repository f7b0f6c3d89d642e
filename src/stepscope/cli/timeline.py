"""``stepscope timeline``: any profile as a Chrome/Perfetto trace."""

from __future__ import annotations

import argparse

from stepscope.cli.session import Output
from stepscope.cli.source import ProfileSource, open_source
from stepscope.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("path", metavar="PATH", help="a profile, or a directory of ranks and steps")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="file to write; .gz compresses it"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--cache",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep the trace's columns in a cache file",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from stepscope.cli.profile import put

    source = open_source(arguments.path, cache=arguments.cache)
    put(write_timeline_file(source, arguments.output), as_json=arguments.json)
    return 0


def write_timeline_file(source: ProfileSource, path: str) -> Output:
    """Write the timeline of a profile.

    Raises:
        UsageError: The file cannot be written.
        TraceError: The profile cannot be read.
    """
    from stepscope.export.timeline import write_timeline

    trace = source.trace
    try:
        write_timeline(trace, path)
    except OSError as error:
        raise UsageError(f"cannot write the timeline: {error.strerror or error}", path=path) from None
    return Output(
        "",
        {"written": path, "events": len(trace)},
        (f"written to {path}: open it at https://ui.perfetto.dev or chrome://tracing",),
    )
