"""The counters of an event file, and their meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from stepscope.text import counted

FirstBytes: TypeAlias = bytes
"""``bytes`` within FileStatus is one of its fields."""


@dataclass
class FileStatus:
    """The state of a file so far, and its errors.

    Attributes:
        bytes: Size of the file when last read.
        records: Records read.
        scalars: Scalars read.
        skipped_records: Records skipped because the checksum of their payload is wrong.
        resyncs: Times that a broken header was skipped by finding the next whole record.
        skipped_bytes: Bytes skipped in both ways.
        undecodable: Records with right checksums that hold no event.
        malformed: Values left out that do not fit their plugin: scalars that are not numbers,
            histograms with more limits than counts, tensors of a type or shape that no value of the plugin
            has.
        beyond: Records left out because the file holds more tags than are read.
        torn_bytes: At the end, an incomplete record: waiting for the rest.
        zero_bytes: In holes of zeros, not written yet as it seems: read when they are filled.
        replaced: Times that another file stood in its place, or its beginning was rewritten.
        truncated: Times that it had become shorter than the part already read.
        version: The version that its first record states, such as ``brain.Event:2``.
        problem: A message for the user, None if all is well.
    """

    bytes: int = 0
    records: int = 0
    scalars: int = 0
    skipped_records: int = 0
    resyncs: int = 0
    skipped_bytes: int = 0
    undecodable: int = 0
    malformed: int = 0
    torn_bytes: int = 0
    zero_bytes: int = 0
    replaced: int = 0
    truncated: int = 0
    version: str | None = None
    problem: str | None = None
    beyond: int = 0

    def describe(self, *, broken_tail: bool = False, error: str = "", head: FirstBytes = b"") -> None:
        """Set ``problem`` to the meaning of the counters to a user.

        Args:
            broken_tail: The bytes in ``torn_bytes`` are not the beginning of a record.
            error: Why the file cannot be read.
            head: The first bytes of the file; they tell the type of a file without records.
        """
        parts = [f"the file cannot be read: {error}"] if error else []
        if not self.records and (other := what_it_is(head)):
            self.problem = "; ".join([*parts, f"not an event file: {other}"])
            return
        parts += [self._emptiness(broken_tail)] if self.records == self.undecodable else self._damage()
        if self.records and broken_tail:
            verb = "is" if self.torn_bytes == 1 else "are"
            parts.append(f"the last {counted(self.torn_bytes, 'byte')} {verb} not a record")
        if self.zero_bytes:
            parts.append(f"{counted(self.zero_bytes, 'byte')} not written yet, read when they are")
        self.problem = "; ".join(filter(None, parts)) or None

    def _emptiness(self, broken_tail: bool) -> str:
        if not self.bytes:
            return "the file is empty: nothing was written to it yet"
        if self.records:
            return "not an event file: its records hold no events"
        if broken_tail or self.skipped_bytes:
            return f"not an event file: no record in {counted(self.bytes, 'byte')}"
        return "" if self.zero_bytes else "no complete record yet"

    def _damage(self) -> list[str]:
        parts = []
        if self.skipped_records:
            parts.append(f"{counted(self.skipped_records, 'record')} skipped for a wrong checksum")
        if self.resyncs:
            parts.append(f"{counted(self.resyncs, 'broken stretch', 'broken stretches')} skipped")
        if self.malformed:
            parts.append(f"{counted(self.malformed, 'value')} left out that are not what their plugin says")
        if self.beyond:
            parts.append(f"{counted(self.beyond, 'record')} left out, of more tags than are read of one file")
        if self.undecodable:
            parts.append(f"{counted(self.undecodable, 'record')} skipped that hold no event")
        return parts


OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "it is compressed with gzip; unpack it with gunzip"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd; unpack it with zstd -d"),
    (b"\xfd7zXZ\0", "it is compressed with xz; unpack it with unxz"),
    (b"BZh", "it is compressed with bzip2; unpack it with bunzip2"),
    (b"PK\x03\x04", "it is a zip archive; unpack it with unzip"),
    (b"version https://git-lfs.", "it is a pointer of Git LFS; fetch the file itself with git lfs pull"),
    (b"<!doctype html", "it is a web page, such as a server sends in place of a file; download it again"),
    (b"<html", "it is a web page, such as a server sends in place of a file; download it again"),
)
"""First bytes, in small letters, of files that people take for event files, and the advice for each."""


def what_it_is(head: bytes) -> str:
    """Return the type of a file by its first bytes, with advice; "" for an event file and others."""
    return next(
        (words for magic, words in OTHERS if head.startswith(magic) or head.lower().startswith(magic)), ""
    )
