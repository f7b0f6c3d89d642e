"""The store that the processes of ``jax.distributed`` share: the key-value store of their coordinator."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from jax._src import distributed  # the store is nowhere public

from stepscope.record.statistics.hooks import StatisticsHook
from stepscope.record.statistics.sampling import Sampling, SamplingBudget, SharedBudget

FOLDER = "stepscope/budget"
_made = itertools.count()


def budget(
    hook: StatisticsHook, *samplings: Sampling, failed: Callable[[str, str, str, bool], None]
) -> SamplingBudget:
    """Return the time budget of this process, or of the whole job if ``jax.distributed`` runs it.

    Args:
        hook: Says which share of the time.
        samplings: Whose distances are stretched.
        failed: Receives failures.
    """
    state: Any = distributed.global_state
    if state.client is None or (state.num_processes or 1) < 2:
        return SamplingBudget(hook, *samplings)
    store = Coordinated(state.client, int(state.process_id), f"{FOLDER}/{next(_made)}")
    return SharedBudget(hook, *samplings, store=store, failed=failed)


class Coordinated:
    """Words in the store.

    Args:
        client: That of ``jax.distributed``.
        rank: This process's number.
        folder: Before every key.
    """

    def __init__(self, client: Any, rank: int, folder: str) -> None:
        self._client, self.rank, self._folder = client, rank, folder

    def put(self, key: str, word: str) -> None:
        """Put a word under a key that has none; do nothing if it has one."""
        try:
            self._client.key_value_set(f"{self._folder}/{key}", word)
        except Exception as error:
            if "ALREADY_EXISTS" not in str(error):
                raise

    def get(self, key: str, timeout: float) -> str | None:
        """Return the word of a key, waiting up to the given seconds for it; None if there is none."""
        try:
            return str(self._client.blocking_key_value_get(f"{self._folder}/{key}", int(1e3 * timeout)))
        except Exception as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            raise

    def below(self, key: str) -> list[str]:
        """Return the words of all keys that begin with this one and a slash."""
        return [str(word) for _, word in self._client.key_value_dir_get(f"{self._folder}/{key}/")]

    def drop(self, key: str) -> None:
        """Forget the word of a key."""
        self._client.key_value_delete(f"{self._folder}/{key}")
