"""Nested settings of a run as one level, by the names of all levels, and which of them are seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepscope.names.splits import words_of


def paths(values: Mapping[Any, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values of nested mappings, each with its names from the outermost in.

    Args:
        values: By name.
        before: Names that stand before all others.
    """
    for name, value in values.items():
        path = (*before, str(name))
        if isinstance(value, Mapping):
            yield from paths(value, path)
        else:
            yield path, value


def leaves(values: Mapping[Any, Any], sign: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings, each by one name.

    Args:
        values: By name.
        sign: Stands between the names of two levels.
    """
    for path, value in paths(values):
        yield sign.join(path), value


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings under dotted names, as ``optimizer.groups.0.lr``; other lists are values."""
    return dict(_flat(config, ""))


def _flat(config: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        inner = value
        if isinstance(value, (list, tuple)) and all(isinstance(entry, Mapping) for entry in value):
            inner = dict(enumerate(value))
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


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
