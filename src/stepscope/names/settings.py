"""Nested settings and values of a run as one level, by the names of all levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


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
