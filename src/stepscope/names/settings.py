"""Nested settings and values of a run as one level, by the names of all levels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def leaves(values: Mapping[Any, Any], sign: str, before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what nested mappings hold.

    Args:
        values: By name.
        sign: Stands between the names of two levels.
        before: Stands before all names.
    """
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from leaves(value, sign, f"{before}{name}{sign}")
        else:
            yield f"{before}{name}", value


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
