"""``stepscope timeline``: any profile for Perfetto, Chrome or speedscope, as folded stacks, or as a table."""

from __future__ import annotations

import argparse
from typing import Any

from stepscope.cli.arguments import add_cache
from stepscope.cli.output import Output, put
from stepscope.cli.source import ProfileSource, open_source
from stepscope.files import writing
from stepscope.trace.bounds import hold_polars

FORMATS = {
    "chrome": "open it at https://ui.perfetto.dev or chrome://tracing",
    "speedscope": "open it at https://www.speedscope.app",
    "folded": "draw it with flamegraph.pl or inferno",
    "csv": "the table of events",
    "parquet": "the table of events",
}
"""Formats that can be written, and the advice for each."""

_ENDINGS = {".speedscope.json": "speedscope", ".folded": "folded", ".csv": "csv", ".parquet": "parquet"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a profile, or a directory of ranks and steps")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="file to write; .gz compresses it"
    )
    parser.add_argument(
        "--format", choices=list(FORMATS), help="format to write (default: by the file's ending, else chrome)"
    )
    parser.add_argument(
        "--scrub",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="take out secrets, and user names in paths",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_cache(parser, "keep the trace's columns in a cache file")


def run(arguments: argparse.Namespace) -> int:
    source = open_source(arguments.path, cache=arguments.cache)
    chosen = arguments.format or format_of(arguments.output)
    put(
        write_timeline_file(source, arguments.output, chosen, scrubbed=arguments.scrub),
        as_json=arguments.json,
    )
    return 0


def format_of(path: str) -> str:
    """Return the format that a file's name asks for."""
    name = path.removesuffix(".gz")
    return next((chosen for ending, chosen in _ENDINGS.items() if name.endswith(ending)), "chrome")


def write_timeline_file(source: ProfileSource, path: str, chosen: str, *, scrubbed: bool = True) -> Output:
    """Write the timeline of a profile.

    Raises:
        UsageError: The file cannot be written.
        TraceError: The profile cannot be read.
    """
    trace = source.trace
    if len(trace.ranks) > 1:
        from stepscope.analyze.ranks.together import together

        trace = together(trace)
    with writing("the timeline", path, "choose a place that exists and can be written: --output FILE"):
        count = _write(chosen, trace, path, scrubbed=scrubbed)
    data = {"written": path, "format": chosen, "count": count, "ranks": list(trace.ranks)}
    notes = trace.notes if len(trace.ranks) > 1 else ()
    return Output("", {**data, "notes": list(notes)}, (*notes, f"written to {path}: {FORMATS[chosen]}"))


def _write(chosen: str, trace: Any, path: str, *, scrubbed: bool) -> int:
    hold_polars()
    if chosen == "speedscope":
        from stepscope.export.speedscope import write_speedscope

        return write_speedscope(trace, path, scrubbed=scrubbed)
    if chosen == "folded":
        from stepscope.export.folded import write_folded

        return write_folded(trace, path, scrubbed=scrubbed)
    if chosen in ("csv", "parquet"):
        from stepscope.export.tables import write_table

        return write_table(trace, path, scrubbed=scrubbed)
    from stepscope.export.timeline import write_timeline

    return write_timeline(trace, path, scrubbed=scrubbed)
