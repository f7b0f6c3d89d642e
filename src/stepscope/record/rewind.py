"""Ways back for a run: the checkpoints that were saved, and the inputs of its last steps."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stepscope.record.config import plain

MOST_BATCHES = 512
"""Steps whose batch is kept."""
MOST_CHECKPOINTS = 1000
MOST_INDICES = 4096
"""Facts of one batch that are written."""


class Checkpoint(NamedTuple):
    """A model that was saved.

    Attributes:
        done: Steps done by then, 0 for the model as it began.
        path: Where; None if nobody said.
    """

    done: int
    path: str | None


class Rewind:
    """Checkpoints and batches of one process. Safe for threads: a deque takes and gives whole items."""

    def __init__(self) -> None:
        self._checkpoints: deque[Checkpoint] = deque(maxlen=MOST_CHECKPOINTS)
        self._batches: deque[tuple[int, Mapping[str, Any]]] = deque(maxlen=MOST_BATCHES)

    def saved(self, done: int, path: str | os.PathLike[str] | None) -> None:
        """Note that a checkpoint was saved after so many steps."""
        self._checkpoints.append(Checkpoint(done, None if path is None else os.fsdecode(os.fspath(path))))

    def batch(self, step: int, facts: Mapping[str, Any]) -> None:
        """Remember what a step is computed from; nothing is copied."""
        self._batches.append((step, facts))

    def last_good(self, first_bad: int) -> Checkpoint | None:
        """Return the newest checkpoint from which a step was computed that was still good.

        After ``done`` steps the step of that number comes next: good if before the first bad one.
        """
        return max(
            (each for each in list(self._checkpoints) if each.done < first_bad), default=None, key=_done
        )

    def batches(self, steps: Iterable[int]) -> tuple[dict[str, Any], ...]:
        """Return what is known about some steps, as JSON types; for a repeated step, the newest."""
        known = dict(list(self._batches))
        return tuple(
            {"step": step, **readable(known[step])} for step in dict.fromkeys(steps) if step in known
        )

    def recipe(self, first_bad: int) -> tuple[str, ...]:
        """Return how to go back to before a step, in sentences."""
        good = self.last_good(first_bad)
        if good is None:
            return (
                f"no checkpoint from before step {first_bad:,} is known: add "
                f"ss.CheckpointHook(save, every_n_steps=…), or call run.checkpoint_saved(path)",
            )
        where = f"{good.path}, " if good.path else ""
        return (
            f"last good checkpoint: {where}after {good.done:,} steps; later ones may hold the broken model",
            f"to go back: load it, ss.Run(…, start_step={good.done}), then leave out the batches from step "
            f"{first_bad:,} on or lower the learning rate until past it",
        )


def _done(checkpoint: Checkpoint) -> int:
    return checkpoint.done


def readable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts of a batch as JSON types; for long lists the first items and their number."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        try:
            items = value.tolist() if hasattr(value, "tolist") else value
        except Exception as error:  # noqa: BLE001  a tensor of any kind, on a device that may be broken
            items = f"not readable: {type(error).__name__}"
        if isinstance(items, list | tuple | range):
            found[name] = [
                one if isinstance(one, int | float | str) else str(one) for one in items[:MOST_INDICES]
            ]
            if len(items) > MOST_INDICES:
                found[f"{name}_in_all"] = len(items)
        else:
            found[name] = plain({name: items})[name]
    return found
