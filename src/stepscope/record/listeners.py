"""Who wants to hear of the numbers that a run records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from stepscope.errors import RecordError
from stepscope.record.encode import Columns
from stepscope.record.problems import Problems
from stepscope.record.steps import STEP_TIME

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Take = Callable[[str, "NDArray[np.int64]", "NDArray[np.float64]", "NDArray[np.float64]"], Any]
"""Called with a tag and its steps, values and wall times in seconds, in the order of recording."""
Wanted = Collection[str] | Callable[[str], bool] | None


class Listeners:
    """Tells listeners, on the thread that writes, of the numbers that are recorded.

    Args:
        names: Tags by number; may grow.
        problems: Told of what a listener raises; that one is then told no more.
    """

    def __init__(self, names: Sequence[str], problems: Problems) -> None:
        self._names, self._problems = names, problems
        self._all: list[tuple[Take, Callable[[str], bool]]] = []
        self._by_tag: dict[int, list[Take]] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, take: Take, tags: Wanted) -> None:
        """Tell ``take`` from now on.

        Args:
            take: Called on the writer's thread.
            tags: Names, or what says of a name whether it is wanted; None for all.
        """
        if tags is None:
            wanted: Callable[[str], bool] = _any
        elif callable(tags):
            wanted = tags
        else:
            wanted = frozenset([tags] if isinstance(tags, str) else tags).__contains__
        self._all.append((take, wanted))
        self._by_tag = {}

    def tell(self, columns: Columns, begin: int, end: int) -> None:
        """Tell of rows from ``begin`` to ``end``."""
        import numpy as np

        size = columns.size
        tags = np.frombuffer(columns.tags, np.int32, size)[begin:end]
        numbers = np.unique(tags)
        wanted = [(number, takes) for number in numbers.tolist() if (takes := self._takes(number))]
        if not wanted:
            return
        rows = [
            np.frombuffer(column, kind, size)[begin:end]
            for column, kind in (
                (columns.steps, np.int64),
                (columns.values, np.float64),
                (columns.walls, np.float64),
            )
        ]
        # A step's time is told last: by then what was logged in it is known.
        wanted.sort(key=lambda entry: self._names[entry[0]] == STEP_TIME)
        for number, takes in wanted:
            at = np.flatnonzero(tags == number)
            found = [column[at] for column in rows]
            for take in takes:
                self._call(take, self._names[number], *found)

    def _takes(self, number: int) -> list[Take]:
        found = self._by_tag.get(number)
        if found is None:
            name = self._names[number]
            found = self._by_tag[number] = [take for take, wanted in self._all if wanted(name)]
        return found

    def _call(self, take: Take, *arguments: Any) -> None:
        try:
            take(*arguments)
        except Exception as error:  # noqa: BLE001  a listener's own code must not end the writer's thread
            self._all = [entry for entry in self._all if entry[0] is not take]
            self._by_tag = {}
            name = getattr(take, "__qualname__", type(take).__name__)
            found = f"the listener {name} raised {type(error).__name__}: {error}; it is told no more"
            self._problems.post("hook", RecordError(found, hint="the run itself is not affected"))


def _any(name: str) -> bool:
    return True
