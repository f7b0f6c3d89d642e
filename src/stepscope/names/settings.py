"""The settings of a run by name: nested configuration as one level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings under dotted names, as ``optimizer.groups.0.lr``; other lists are values."""
    return dict(_flat(config, ""))


def _flat(config: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        inner = value
        if isinstance(value, (list, tuple)) and all(isinstance(each, Mapping) for each in value):
            inner = dict(enumerate(value))
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
