"""What could not be read, in words a user can act on."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.store.source import Source

TORN_SECONDS = 60.0
"""An incomplete last record is a problem only when nobody has completed it for this long."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read or was not kept.

    Attributes:
        kind: One word or two for machines.
        count: How many of them, or how many bytes.
        file: The path, None where it concerns no single file.
        text: One sentence.
    """

    kind: str
    count: int
    file: str | None
    text: str


def problems_of(source: Source, *, now: float) -> list[Problem]:
    """Return what went wrong in one file."""
    status, found = source.status, []

    def add(kind: str, count: int, text: str) -> None:
        found.append(Problem(kind, count, source.path, text))

    if source.error:
        add("unreadable", 1, f"cannot be read: {source.error}")
    written = source.seen.st_mtime if source.seen else now
    if not status.bytes and not source.error and source.seen is not None and source.seen.st_size == 0:
        add("empty", 1, "0 bytes: nothing has been written yet")
    if status.problem and not status.records:
        add("no-events", 1, status.problem)
    if status.skipped_records:
        add(
            "corrupt",
            status.skipped_records,
            f"{status.skipped_records} records with a wrong checksum were skipped",
        )
    if status.resyncs:
        add("broken", status.resyncs, f"{status.skipped_bytes:,} bytes that are no records were skipped")
    if status.undecodable:
        add("undecodable", status.undecodable, f"{status.undecodable} records hold no event")
    if status.torn_bytes and status.records and now - written > TORN_SECONDS:
        add(
            "torn",
            status.torn_bytes,
            f"the last record is incomplete, {status.torn_bytes:,} bytes of it are there",
        )
    if status.zero_bytes and now - written > TORN_SECONDS:
        add(
            "hole",
            status.zero_bytes,
            f"{status.zero_bytes:,} bytes are zeros; they are read when they are filled",
        )
    if status.truncated:
        add("truncated", status.truncated, "the file became shorter and was read again")
    if status.replaced:
        add("replaced", status.replaced, "the file was replaced and was read again")
    return found
