"""The stages of a step; the training loop or a framework says when each begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from stepscope.kernels.steps import Stages


class Stage:
    """A stage that lasts as long as a block; what ran before goes on after it. May be entered again.

    Args:
        stages: Of the run.
        name: Its name.
    """

    def __init__(self, stages: Stages, name: str) -> None:
        self._stages, self._number = stages, stages.number(name)
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(self._stages.mark(self._number))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stages.mark(self._before.pop())
