"""Metric kinds that people gave to tags whose names are misleading."""

from __future__ import annotations

import time
from pathlib import Path

from stepscope.errors import UsageError
from stepscope.names.kinds import KINDS, MetricKind
from stepscope.store.annotations.folder import file_name, read_json, remove, write_json
from stepscope.store.discover import FOLDER

LONGEST_TAG = 10_000


class MetricKinds:
    """The corrected kinds of a log directory. Safe for several processes; one thread at a time.

    Args:
        log_dir: The log directory.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir, self.folder = log_dir, log_dir / FOLDER / "metrics"
        self._stamp: tuple[int, ...] = ()
        self.said: dict[str, MetricKind] = {}

    def refresh(self) -> bool:
        """Read new files; return whether anything has changed."""
        stamps, found = [], {}
        for path in self._files():
            try:
                stat = path.stat()
            except OSError:
                continue  # being removed
            stamps += [stat.st_mtime_ns, stat.st_size, stat.st_ino]
        if tuple(stamps) == self._stamp:
            return False
        self._stamp = tuple(stamps)
        for path in self._files():
            facts = read_json(path) or {}
            tag, kind = facts.get("tag"), facts.get("kind")
            if isinstance(tag, str) and kind in KINDS:
                found[tag] = kind
        before, self.said = self.said, found
        return before != found

    def say(self, tag: str, kind: str | None) -> None:
        """Set the kind of a tag's metric; None: the kind that its name suggests.

        Raises:
            UsageError: There is no such kind.
            LogDirectoryError: It cannot be written.
        """
        if len(tag) > LONGEST_TAG:
            raise UsageError(
                f"tag of {len(tag)} characters: expected at most {LONGEST_TAG}", hint="a chart's id"
            )
        path = self.folder / file_name(tag)
        if kind is None:
            remove(self.log_dir, path)
        elif kind in KINDS:
            write_json(self.log_dir, path, {"tag": tag, "kind": kind, "changed": time.time()})
        else:
            raise UsageError(f"kind {kind!r}: no such kind of metric", hint=f"one of {', '.join(KINDS)}")

    def _files(self) -> list[Path]:
        try:
            return sorted(path for path in self.folder.iterdir() if path.suffix == ".json")
        except OSError:
            return []
