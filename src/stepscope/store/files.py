"""The files of a run as its writers, and their changes. The log's side: one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepscope.store.info import RunInfo
from stepscope.store.source import FollowedFile
from stepscope.store.writers import Writer, assign, still_holds


class RunFiles:
    """The event files of one run.

    Attributes:
        sources: The files by path.
        writers: The processes that wrote them.
        tags: Names of all scalar series, sorted.
        generation: Of the log, when the run last changed.
    """

    def __init__(self) -> None:
        self.sources: dict[str, FollowedFile] = {}
        self.writers: list[Writer] = []
        self.tags: list[str] = []
        self.generation = 0
        self._shape: dict[str, int] = {}
        self._places: dict[tuple[str, int], tuple[str, int]] = {}

    @property
    def have_config(self) -> bool:
        """True if any of them holds the configuration of the run."""
        return any(source.config or (source.info and source.info.config) for source in self.sources.values())

    def hparams(self, info: RunInfo | None) -> dict[str, Any]:
        """Return hyper-parameters that were recorded as such.

        Stepscope also writes its own facts of a run for TensorBoard, under names with dots: they are left out
        here.
        """
        known = set() if info is None else set(dotted(info.config))
        values: dict[str, Any] = {}
        for source in self.sources.values():
            if source.said is None or source.said is info:
                values |= {name: value for name, value in source.config.items() if name not in known}
        return values

    @property
    def first_wall(self) -> float | None:
        """Wall time of the first event, None before it."""
        walls = (source.first_wall for writer in self.writers for source in writer.every_source)
        return min((wall for wall in walls if wall == wall), default=None)

    @property
    def last_wall(self) -> float | None:
        """Wall time of the newest event, None before the first."""
        walls = (source.last_wall for writer in self.writers for source in writer.every_source)
        return max((wall for wall in walls if wall == wall), default=None)

    def holds(self, sources: dict[str, FollowedFile]) -> bool:
        """Return whether the run consists of these files."""
        return self.sources == sources

    def adopt(self, sources: dict[str, FollowedFile]) -> set[str]:
        """Take these files as the whole run and return the tags whose meaning changed by that."""
        gone = [source for path, source in self.sources.items() if sources.get(path) is not source]
        come = [source for path, source in sources.items() if self.sources.get(path) is not source]
        changed = {
            tag for source in gone + come for part in source.parts for tag in (*part.tags, *part.records)
        }
        self.sources = sources
        shape = {path: source.shape for path, source in sources.items()}
        if shape == self._shape and still_holds(self.writers):
            return changed
        before, self._shape = self._places, shape
        self.writers = assign(list(sources.values()))
        self._places = places_of(self.writers)
        self.tags = sorted(
            {tag for writer in self.writers for a in writer.every_attempt for tag in a.part.tags}
        )
        if not before.items() <= self._places.items():
            changed |= set(self.tags)  # a file turned out to belong to another writer
        return changed


def dotted(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the names of everything in a configuration, nested ones joined by dots."""
    for name, value in config.items():
        if isinstance(value, dict) and value:
            yield from dotted(value, f"{prefix}{name}.")
        yield f"{prefix}{name}"


def places_of(writers: list[Writer]) -> dict[tuple[str, int], tuple[str, int]]:
    """Return which writer, and which of its attempts, each part of each file is."""
    return {
        (attempt.source.path, attempt.source.parts.index(attempt.part)): (writer.id, attempt.number)
        for writer in writers
        for attempt in writer.every_attempt
    }
