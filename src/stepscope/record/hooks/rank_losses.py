"""The losses of all ranks of a job, read while it trains from the file that each rank writes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from numpy.typing import NDArray

from stepscope.events.rank_file import RankFile
from stepscope.events.telemetry import FOLDER, parse_name

SHARE = 0.02
"""Share of its time that the reading thread may work: many files on a slow disk mean a long pause."""


class News(NamedTuple):
    """New losses of one rank: steps, losses, and times in seconds since the epoch."""

    rank: int
    step: NDArray[Any]
    loss: NDArray[Any]
    wall: NDArray[Any]


class RankLosses:
    """Follows the files of one attempt's ranks; what was read is forgotten. Not safe for threads.

    Args:
        log_dir: The run's directory.
    """

    def __init__(self, log_dir: str) -> None:
        self._folder = os.path.join(log_dir, FOLDER)  # noqa: PTH118  may be a URL
        self._files: dict[str, RankFile | None] = {}
        self._pause_until = 0.0

    def news(self, attempt: int) -> Iterator[News]:
        """Yield what ranks have written since the last call; nothing if the disk does not answer.

        Args:
            attempt: Which attempt; 0 if it is not known yet.
        """
        if not attempt:
            return
        begun = time.monotonic()
        if begun < self._pause_until:
            return
        for file in self._followed(attempt):
            steps = file.take()
            there = steps.has_loss
            if there.any():
                yield News(file.name.rank, steps.step[there], steps.loss[there], steps.wall[there])
        took = time.monotonic() - begun
        self._pause_until = begun + took / SHARE if took > SHARE else 0.0

    def _followed(self, attempt: int) -> Iterator[RankFile]:
        try:
            entries = list(os.scandir(self._folder))
        except OSError:
            return
        for entry in entries:
            if entry.name not in self._files:
                name = parse_name(entry.name)
                ours = name is not None and name.kind == "rank" and name.attempt == attempt
                self._files[entry.name] = RankFile(entry.path, name) if ours and name else None
            file = self._files[entry.name]
            try:
                # The entry's own numbers may be as old as the directory's.
                if file is not None and file.follow(os.stat(entry.path)):  # noqa: PTH116
                    yield file
            except OSError:
                continue
