"""The counters of an event file, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass


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
        malformed: Values left out that are not what their plugin says: scalars that are not numbers,
            histograms with more limits than counts, tensors of a type or shape that no value of the plugin
            has.
        beyond: Records left out because the file holds more tags than are read.
        torn_bytes: At the end, an incomplete record: waiting for the rest.
        zero_bytes: In holes of zeros, not written yet as it seems: read when they are filled.
        replaced: Times that another file stood in its place, or its beginning was rewritten.
        truncated: Times that it had become shorter than what had been read.
        version: The version that its first record states, such as ``brain.Event:2``.
        problem: What a user should know, None if all is well.
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

    def describe(self, *, broken_tail: bool = False, error: str = "") -> None:
        """Set ``problem`` to what the counters mean to a user.

        Args:
            broken_tail: What stands in ``torn_bytes`` is not a beginning of a record.
            error: Why the file cannot be read.
        """
        parts = [f"the file cannot be read: {error}"] if error else []
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


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and what it counts, in the singular or the plural."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
