"""Which settings of a run are seeds, by their names: they choose chance, and nothing that one would tune."""

from __future__ import annotations

from stepscope.names.splits import words_of

_WHOLE = frozenset({"replicate", "replica", "repetition", "rep", "fold"})
"""Names of a setting that counts repeats of one configuration."""
_COUNTS = frozenset({"n", "num", "number", "max", "total", "use", "fix"})
"""Words before ``seeds`` that make it a setting like any other: how many there are, or whether."""


def is_seed(key: str) -> bool:
    """Return whether a setting is a seed: ``seed``, ``training.data_seed``, ``random_state``, ``fold``.

    Args:
        key: Its name; dots stand between the names of nested settings.
    """
    words = words_of(key.rpartition(".")[2])
    if not words or words[0] in _COUNTS:
        return False
    if words[-2:] == ["random", "state"] or "seed" in words or "seeds" in words:
        return True
    return len([word for word in words if not word.isdigit()]) == 1 and words[0] in _WHOLE
