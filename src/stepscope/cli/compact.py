"""``stepscope compact``: logs become Parquet that the page reads, on a disk or in a store."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from stepscope.cli.output import Output, put
from stepscope.text import counted, size
from stepscope.urls import shown

if TYPE_CHECKING:
    from stepscope.store.compaction import Compaction


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope compact``."""
    parser.add_argument("log_dir", metavar="LOGDIR", help="a directory with runs, or a URL (s3://\u2026)")
    parser.add_argument(
        "to", metavar="TO", help="where to put the runs: a directory, LOGDIR itself, or a URL"
    )
    parser.add_argument("--runs", default="", metavar="REGEX", help="only runs whose names match")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="number of processes (default: one per processor)"
    )
    parser.add_argument(
        "--ray", action="store_true", help="run on a Ray cluster, or on one that is started on this machine"
    )
    parser.add_argument(
        "--remove", action="store_true", help="delete the event files whose values were all read back"
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Compact a log directory.

    Returns:
        1 if a file could not be compacted, or none was found.
    """
    from stepscope.store.compaction import compact

    result = compact(
        arguments.log_dir,
        arguments.to,
        runs=arguments.runs,
        processes=arguments.workers,
        ray=arguments.ray,
        remove=arguments.remove,
    )
    put(
        Output(f"{text_of(result, arguments.to)}\n", asdict(result), notes_of(result)), as_json=arguments.json
    )
    return int(bool(result.failed) or not result.done)


def text_of(compaction: Compaction, to: str) -> str:
    """Return a report of the work done."""
    done = [file for file in compaction.done if not file.error]
    if not done:
        return "nothing was compacted"
    points = sum(file.points for file in done)
    before, after = sum(file.read_bytes for file in done), sum(file.written_bytes for file in done)
    lines = [
        f"{counted(len(done), 'event file')}, {counted(points, 'point')}: "
        f"{size(before)} became {size(after)} in {shown(to)}; every value was read back"
    ]
    if compaction.copied:
        lines.append(f"{counted(compaction.copied, 'other file was', 'other files were')} copied")
    if compaction.removed:
        lines.append(f"{counted(compaction.removed, 'event file was', 'event files were')} deleted")
    return "\n".join(lines)


def notes_of(compaction: Compaction) -> tuple[str, ...]:
    """Return the runs that were left out, and why."""
    return (
        *(f"not compacted: run {name}: {why}" for name, why in compaction.skipped.items()),
        *(f"not compacted: {file.task.path}: {file.error}" for file in compaction.failed),
        *(f"not deleted: {path}: {why}" for path, why in compaction.not_deleted.items()),
    )
