"""Ending a training on all ranks at the same step, without a collective of ours."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from stepscope.record import Run

PREFIX = "stepscope/stop"

_trainings = 0


class Stop:
    """Decides when to end the training of a run that was asked to stop.

    A single process ends at once. Of several, those that compute gradients together must end after the same
    step, or the others would wait for them for ever. The rank that is asked puts a later step into the store
    by which the processes found each other; every rank looks there every ``every_n_steps`` steps. Ranks agree
    because none can be that far ahead of another: each step's gradients are reduced over all of them. Without
    a request, this costs only the look; a collective could hang if only some ranks have the callback.

    Args:
        run: That may be asked.
        every_n_steps: How often to look; the same on all ranks.

    Attributes:
        shared: Whether other ranks may be asked, too: a process alone has to look only if its run was asked.
    """

    def __init__(self, run: Run, every_n_steps: int) -> None:
        global _trainings
        _trainings += 1
        self._run, self._every = run, max(int(every_n_steps), 1)
        self._store = _store()
        self.shared = self._store is not None
        self._key = f"{PREFIX}/{_trainings}"
        self._at: int | None = None

    def after(self, step: int) -> bool:
        """Return whether the training is to end after a step that every rank has taken.

        Args:
            step: Its number, the same on all ranks.

        Raises:
            HaltError: The request came with an error, on the rank that was asked.
        """
        asked = self._run.stop_request
        if asked is not None:
            asked.raise_error()
        if self._store is None:
            return asked is not None
        if step % self._every:
            return False
        if self._at is None and asked is not None:
            # The first to say so counts: a rank that asks later gets the step that is there already.
            self._store.compare_set(self._key, "", str(step + self._every))
        if self._at is None and self._store.check([self._key]):
            self._at = int(self._store.get(self._key))
        if self._at is None or step < self._at:
            return False
        self._run.stop_together()
        return True


def _store() -> Any:
    """Return the store of all processes, None if the process is alone."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return None
    return dist.distributed_c10d._get_default_store()
