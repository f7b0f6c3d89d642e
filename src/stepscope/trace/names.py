"""Texts by number: a string table, and paths as chains of names.

A trace holds few distinct names and very many uses of each, so a use is a number. Both tables keep UTF-8
bytes and offsets, which a cache file can map into memory, and make Python strings only when asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_LOOKED_THROUGH = 1 << 16
"""Texts beyond which a table is looked through as bytes: making Python strings of all would take longer."""

_FEW = 64
"""Texts that are looked for one by one."""


class Strings(Sequence[str]):
    """A table of distinct texts.

    Args:
        data: All texts as UTF-8, one after another.
        ends: i8[n], the end of each text in ``data``.
    """

    __slots__ = ("_numbers", "_texts", "data", "ends")

    def __init__(self, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> None:
        self.data, self.ends = data, ends
        self._texts: list[str] | None = None
        self._numbers: dict[str, int] | None = None

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        """Make a table from texts, which must be distinct for :meth:`find` to be exact."""
        parts = [text.encode("utf-8", "replace") for text in texts]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64) if parts else np.zeros(0, np.int64)
        return cls(np.frombuffer(b"".join(parts), np.uint8), ends)

    def texts(self) -> list[str]:
        """Return all texts; the list is shared and must not be changed."""
        if self._texts is None:
            data, ends = self.data.tobytes(), self.ends.tolist()
            bounds = zip([0, *ends], ends, strict=False)
            if data.isascii():  # pieces of one text are made in a third of the time
                whole = data.decode("ascii")
                self._texts = [whole[start:end] for start, end in bounds]
            else:
                self._texts = [data[start:end].decode("utf-8", "replace") for start, end in bounds]
        return self._texts

    def extended(self, texts: Iterable[str]) -> tuple[Strings, npt.NDArray[np.int32]]:
        """Return a table with some texts added if they are new, and each one's number."""
        texts = list(texts)
        distinct = dict.fromkeys(texts)
        known = {text: self.find(text) for text in distinct} if len(distinct) <= _FEW else self._numbered()
        new = [text for text in distinct if known.get(text, -1) < 0]
        fresh = {text: len(self) + number for number, text in enumerate(new)}
        numbers = np.array([fresh[text] if text in fresh else known[text] for text in texts], np.int32)
        if not fresh:
            return self, numbers
        added = Strings.of(fresh)
        ends = np.concatenate([self.ends, added.ends + (self.ends[-1] if len(self) else 0)])
        table = Strings(np.concatenate([self.data, added.data]), ends)
        if self._texts is not None:
            table._texts = [*self._texts, *fresh]
        if self._numbers is not None:
            table._numbers = self._numbers | fresh
        return table, numbers

    def find(self, text: str) -> int:
        """Return the number of a text, -1 if it is not in the table."""
        if self._numbers is None and len(self.ends) > _LOOKED_THROUGH:
            return self._look_for(text.encode("utf-8", "replace"))
        return self._numbered().get(text, -1)

    def _numbered(self) -> dict[str, int]:
        if self._numbers is None:
            self._numbers = {text: number for number, text in enumerate(self.texts())}
        return self._numbers

    def _look_for(self, text: bytes) -> int:
        """Find a text without making Python strings of all."""
        length = np.diff(self.ends, prepend=0)
        alike = np.flatnonzero(length == len(text))
        if not len(text) or not len(alike):
            return int(alike[0]) if len(alike) else -1
        bytes_ = self.data[(self.ends[alike] - len(text))[:, None] + np.arange(len(text))]
        same = np.flatnonzero((bytes_ == np.frombuffer(text, np.uint8)).all(axis=1))
        return int(alike[same[-1]]) if len(same) else -1

    @property
    def nbytes(self) -> int:
        """Bytes of the table, without the Python strings made from it."""
        return int(self.data.nbytes + self.ends.nbytes)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: Any) -> Any:
        """Return a text; a negative number is "not recorded" and gives ``""``. A slice gives a list."""
        if isinstance(number, slice):
            return self.texts()[number]
        if number < 0:
            return ""
        if self._texts is not None:
            return self._texts[number]
        start = int(self.ends[number - 1]) if number else 0
        return self.data[start : int(self.ends[number])].tobytes().decode("utf-8", "replace")

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts())


class Paths:
    """Chains of names, such as module scopes or Python stacks, each known by one number.

    A path is its parent path and one more name, so a thousand stacks that share their outer frames cost
    little. A parent's number is always smaller than its child's.

    Args:
        parent: i4[n], the path without its last name, -1 at the root.
        name: i4[n], the last name, a number into ``strings``.
        strings: Table of the names.
    """

    __slots__ = ("name", "parent", "strings")

    def __init__(self, parent: npt.NDArray[np.int32], name: npt.NDArray[np.int32], strings: Strings) -> None:
        self.parent, self.name, self.strings = parent, name, strings

    @classmethod
    def of(cls, chains: Iterable[Sequence[str]]) -> tuple[Paths, npt.NDArray[np.int32]]:
        """Make paths from chains of names, outermost first.

        Returns:
            The paths, and the number of each chain; an empty chain is -1.
        """
        known: dict[tuple[int, int], int] = {}
        names: dict[str, int] = {}
        numbers = []
        for chain in chains:
            at = -1
            for part in chain:
                key = (at, names.setdefault(part, len(names)))
                at = known.setdefault(key, len(known))
            numbers.append(at)
        table = np.array(list(known), np.int32).reshape(-1, 2)
        parent, name = np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])
        return cls(parent, name, Strings.of(names)), np.array(numbers, np.int32)

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def nbytes(self) -> int:
        """Bytes of the two columns; the names belong to the string table."""
        return int(self.parent.nbytes + self.name.nbytes)

    def parts(self, number: int) -> list[str]:
        """Return the names of a path, outermost first; -1 gives an empty list."""
        names = []
        while number >= 0:
            names.append(self.strings[int(self.name[number])])
            number = int(self.parent[number])
        return names[::-1]

    def text(self, number: int, separator: str = "/") -> str:
        """Return a path as one text, ``""`` for -1."""
        return separator.join(self.parts(number))

    def texts(self, separator: str = "/") -> list[str]:
        """Return all paths as texts."""
        texts: list[str] = []
        for parent, name in zip(self.parent.tolist(), self.name.tolist(), strict=True):
            last = self.strings[name]
            texts.append(last if parent < 0 else texts[parent] + separator + last)
        return texts

    def depths(self) -> npt.NDArray[np.int32]:
        """Return the number of names in each path."""
        depths = np.ones(len(self.parent), np.int32)
        for number, parent in enumerate(self.parent.tolist()):
            if parent >= 0:
                depths[number] = depths[parent] + 1
        return depths
