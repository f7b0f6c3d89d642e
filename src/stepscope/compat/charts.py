"""The layout of custom scalars as it grows: TensorBoard shows the newest, so each is written whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Charts:
    """All charts so far, by category and title."""

    def __init__(self) -> None:
        self._categories: dict[str, dict[str, Sequence[Any]]] = {}

    def add(self, layout: Any) -> Any:
        """Take more charts and return all of them; what is no layout is returned as it is, to be refused."""
        if not isinstance(layout, Mapping) or not all(isinstance(each, Mapping) for each in layout.values()):
            return layout
        for category, charts in layout.items():
            self._categories.setdefault(category, {}).update(charts)
        return {category: dict(charts) for category, charts in self._categories.items()}
