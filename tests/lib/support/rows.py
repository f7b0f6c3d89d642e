"""Rows of a table in the documentation, each held by a test that names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[3] / "docs"


class Rows:
    """The first column of one table, and the tests that hold it.

    Args:
        page: Below ``docs/``.
        head: The table's first line.
    """

    def __init__(self, page: str, head: str) -> None:
        text = (DOCS / page).read_text(encoding="utf-8")
        lines = text.partition(f"{head}\n")[2].partition("\n\n")[0].splitlines()[1:]
        self.names = [line.split(" | ")[0].removeprefix("| ") for line in lines]
        self.held: dict[str, Any] = {}

    def held_by(self, name: str) -> Callable[[Any], Any]:
        """Mark the test that holds a row."""

        def mark(test: Any) -> Any:
            self.held[name] = test
            return test

        return mark
