"""The values that a rank keeps of its own, and the count of those that no file keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from stepscope.events.telemetry import encoded_names, encoded_values, parse_name
from stepscope.record.config import word
from stepscope.record.roles.role import PS, Role

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Values = Literal["chief", "all"]
OWN = "own"
"""The word for ``rank`` with which a value is kept by every rank."""


def check_values(values: object) -> bool:
    """Return whether every rank keeps its values.

    Raises:
        UsageError: It is neither "chief" nor "all".
    """
    hint = "values='all' keeps what every rank logs, each in its own file"
    return word("values", values, "chief", "all", hint=hint) == "all"


class RankValues:
    """Takes what a rank of several logs; on the thread that writes.

    Args:
        everything: Whether all that the user logs is kept.
        by_user: Tags that the user has logged, not a hook.
        asked: Tags of values that were logged with ``rank="own"``.

    Attributes:
        size: Values that wait to be written.
        unrecorded: Values that no file keeps.
        unrecorded_tags: Their tags.
    """

    def __init__(self, *, everything: bool, by_user: Set[str], asked: Set[str]) -> None:
        self._everything, self._by_user, self._asked = everything, by_user, asked
        self._numbers: dict[str, int] = {}
        self._named = 0
        self._waiting: list[tuple[int, NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]] = []
        self.size = self.unrecorded = 0
        self.unrecorded_tags: dict[str, None] = {}

    def take(
        self,
        role: Role,
        tag: str,
        steps: NDArray[np.int64],
        values: NDArray[np.float64],
        walls: NDArray[np.float64],
    ) -> None:
        """Keep values of a tag, or count them if this rank writes none."""
        if role.alone:
            return
        if tag in self._asked or (self._everything and tag in self._by_user):
            number = self._numbers.setdefault(tag, len(self._numbers))
            self._waiting.append((number, steps.copy(), values.copy(), walls.copy()))
            self.size += len(steps)
        elif not role.writes and tag in self._by_user:
            self.unrecorded += len(steps)
            self.unrecorded_tags.setdefault(tag)

    def events(self) -> Iterator[tuple[bytes, int]]:
        """Take away what waits, as encoded events, each with the number of its values."""
        names, waiting = list(self._numbers)[self._named :], self._waiting
        self._named, self._waiting, self.size = len(self._numbers), [], 0
        if names:
            yield encoded_names(names), 0
        yield from encoded_values(waiting)

    def renamed(self) -> None:
        """Name all tags again: the next file begins without names."""
        self._named = 0

    def drop(self, surplus: int) -> int:
        """Drop the oldest, at least so many; return how many were dropped."""
        dropped = 0
        while dropped < surplus and self._waiting:
            dropped += len(self._waiting.pop(0)[1])
        self.size -= dropped
        return dropped

    def facts(self) -> dict[str, Any]:
        """Return the count of values that are not recorded, for the rank's facts."""
        if not self.unrecorded:
            return {}
        return {"unrecorded": self.unrecorded, "unrecorded_tags": list(self.unrecorded_tags)[:MAX_NAMED]}


def unrecorded_beside(folder: str, attempt: int) -> str:
    """Return a sentence on what the ranks of an attempt have logged so far that no file keeps; "" if nothing.

    Args:
        folder: The folder of the ranks' files.
        attempt: Its number.
    """
    from stepscope.events.rank_file import RankFile, unrecorded_text

    facts: list[dict[str, Any]] = []
    until, more = perf_counter() + LOOK_SECS, False
    with suppress(OSError):
        names = {text: parse_name(text) for text in sorted(os.listdir(folder))}  # noqa: PTH208  names only
        for text, name in names.items():
            if name is None or name.attempt != attempt:
                continue
            if perf_counter() > until:
                more = True
                break
            file = RankFile(os.path.join(folder, text), name)  # noqa: PTH118
            file.follow()
            facts.append(file.facts)
    missing = unrecorded_text(facts)
    return f"at least {missing}" if more and missing else missing


LOOK_SECS = 0.05
"""How long the end of a run may look into the files of other ranks."""
MAX_NAMED = 8
"""Tags of values that are not recorded that the facts name; all are counted."""


def is_first_to_say(role: Role) -> bool:
    """Return whether this rank is the one of its job that says what the ranks do not record."""
    return role.name != PS and role.rank == (1 if role.chief_rank == 0 else 0)
