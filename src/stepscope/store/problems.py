"""Problems of reading, in words a user can act on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations

from stepscope.events.columns import MOST_TAGS
from stepscope.reading import Problem
from stepscope.store.info import RunInfo
from stepscope.store.source import FollowedFile
from stepscope.store.writers import Writer, finite, tags_of
from stepscope.text import counted

FAILED = ("alert", "callback", "hook")
"""Reasons that count failed calls, not points."""
NO_POINTS = {
    "overlap": "another process recorded into its directory at the same time",
    "role": "its rank or role was in doubt",
    "writer": "for a while nothing was written: a function or the disk held up the thread that writes",
}
"""Reasons that count neither points nor failures, in words."""
TORN_SECONDS = 60.0
"""Seconds after which an incomplete last record is a problem while the end of its run is not recorded."""


OVERLAP_SECONDS, CLOCKS_SECONDS = 1.0, 10.0
"""Seconds for which two processes may record the same series before they count as two jobs.

A process that ends may still write so long while the next one begins; on two machines, clocks may differ
so much.
"""
OWN = "stepscope/"
"""Beginning of the tags that a run records by itself."""
MOST_WRITERS = 64
"""Writers of one run that are compared with each other."""
SAID = 4
"""Processes that are named."""


def problems_of(source: FollowedFile, *, now: float) -> list[Problem]:
    """Return the problems of one file."""
    status = source.status
    problems: list[Problem] = []

    def add(kind: str, count: int, text: str, forms: tuple[str, str] | None = None) -> None:
        if count:
            text = text if forms is None else f"{counted(count, *forms)} {text}"
            problems.append(Problem(kind, count, source.path, text))

    add(
        "corrupt",
        status.skipped_records,
        "skipped",
        ("record with a wrong checksum was", "records with a wrong checksum were"),
    )
    add(
        "broken",
        status.skipped_bytes if status.resyncs else 0,
        f"skipped, in {counted(status.resyncs, 'place')}",
        ("byte that is not a record was", "bytes that are not records were"),
    )
    add("undecodable", status.undecodable, "no event", ("record holds", "records hold"))
    add(
        "malformed",
        status.malformed,
        "left out that are not what their plugins say: scalars that are not numbers, histograms whose "
        "limits and counts differ in number, tensors of another type or shape",
        ("value was", "values were"),
    )
    add(
        "beyond",
        status.beyond,
        f"left out: no more than {MOST_TAGS:,} tags are read of one file",
        ("record was", "records were"),
    )
    ended = source.said is not None and source.said.ended is not None  # so that nothing more comes
    if status.records and (now - source.written > TORN_SECONDS or ended):
        torn = status.torn_bytes
        there = counted(torn, "byte of it is", "bytes of it are")
        add("torn", torn, f"the last record is incomplete: {there} there")
        add(
            "hole",
            status.zero_bytes,
            "not written yet, or lost; they are read when they arrive",
            ("byte is zero:", "bytes are zeros:"),
        )
    add(
        "cut",
        cut_bytes(source),
        "missing at its end: it was cut, or not all of it was copied",
        ("byte is", "bytes are"),
    )
    add("truncated", status.truncated, "the file became shorter and was read again from its beginning")
    add("replaced", status.replaced, "the file was replaced and was read again from its beginning")
    if source.error:
        add("unreadable", 1, f"the file cannot be read: {source.error}")
    elif status.problem and ("cannot be read" in status.problem or not (problems or status.records)):
        add("unreadable", 1, status.problem)
    return problems


def cut_bytes(source: FollowedFile) -> int:
    """Return how many bytes a file lacks of those that its run reports as written."""
    written = source.said.log_bytes.get(source.name, 0) if source.said else 0
    missing = max(written - source.size, 0)
    if missing:  # the run may have ended just after its file was looked at
        with suppress(OSError):
            missing = max(written - os.stat(source.path).st_size, 0)  # noqa: PTH116  as all of a listing
    return missing


def overlap(writers: Sequence[Writer]) -> list[Problem]:
    """Return that processes which take themselves for the same rank recorded the same series at one time.

    A hard-coded directory in a sweep does that, or launching single processes instead of one job.
    """
    spans: dict[tuple[object, ...], tuple[float, float, set[str]]] = {}
    for writer in writers[:MOST_WRITERS] if len(writers) > 1 else ():
        for source in writer.sources:
            info = source.said
            if info is None or info.started is None or not info.recorded:
                continue
            process = (info.role, info.rank, info.host, info.pid_namespace, info.pid)
            tags = {tag for tag in tags_of(source) if not tag.startswith(OWN)}
            if not tags:
                continue
            first, last = finite(source.first_wall, info.started), finite(source.last_wall, 0.0)
            begin, end, others = spans.get(process, (first, last, set()))
            spans[process] = min(begin, first), max(end, last), tags | others
    meeting = {
        process
        for pair in combinations(spans, 2)
        if pair[0][:2] == pair[1][:2]
        and _meet(*(spans[process] for process in pair), same_clock=pair[0][2:4] == pair[1][2:4])
        for process in pair
    }
    if not meeting:
        return []
    names = [f"process {pid} on {host}" for _, _, host, _, pid in sorted(meeting, key=str)]
    named = ", ".join(names[:SAID]) + ", …" * (len(names) > SAID)
    text = (
        f"{len(names)} processes recorded the same series at the same time, by their clocks ({named}): give "
        "each job a directory of its own, or create the run where each process knows its rank"
    )
    return [Problem("overlap", len(meeting), None, text)]


def _meet(
    one: tuple[float, float, set[str]], other: tuple[float, float, set[str]], *, same_clock: bool
) -> bool:
    together = min(one[1], other[1]) - max(one[0], other[0])
    return together > (OVERLAP_SECONDS if same_clock else CLOCKS_SECONDS) and not one[2].isdisjoint(other[2])


def unrecorded(info: RunInfo) -> list[Problem]:
    """Return the records and measurements that a run reports missing, and why."""
    problems = [
        Problem("failed" if reason in FAILED else "unrecorded", count, None, _said(reason, count))
        for reason, count in info.problems.items()
    ]
    for what, since, why, until in info.unmeasured:
        again = "" if until is None else f"; measured again from step {until:,} on"
        text = f"{what} are not measured since step {since:,}: {why}{again}"
        problems.append(Problem("unmeasured", 1, None, text))
    if info.unmeasured_more:
        more = counted(info.unmeasured_more, "statement", "statements")
        text = f"{more} more about what is not measured"
        problems.append(Problem("unmeasured", info.unmeasured_more, None, text))
    if info.ended_series:
        named = [f"{tag} at step {step:,}" for tag, step in list(info.ended_series.items())[:SAID]]
        more_series = len(info.ended_series) - len(named)
        text = "series ended while the training went on: " + ", ".join(named)
        text += f", and {more_series:,} more" if more_series else ""
        problems.append(Problem("ended", len(info.ended_series), None, text))
    return problems


def _said(reason: str, count: int) -> str:
    """Return a line about a run's counted problems; most reasons count points."""
    words = reason.replace("_", " ")
    if reason in FAILED:
        article = "an" if words[0] in "aeiou" else "a"
        return f"{article} {words} failed {count:,} times" if count > 1 else f"{article} {words} failed once"
    if reason in NO_POINTS:
        return NO_POINTS[reason]
    return counted(count, "point was", "points were") + f" not recorded: {words}"
