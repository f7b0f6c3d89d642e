"""Functions of the user's that hooks call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from stepscope.record.run import Run

T = TypeVar("T")


def call(run: Run, function: Callable[..., T], *arguments: object) -> T:
    """Call a function of the user's: its time is not this package's, but what it logs in it is.

    Args:
        run: The run whose cost it would otherwise count in.
        function: What to call.
        *arguments: What to call it with.
    """
    recorder, now = run._recorder, run._steady
    begun, spent = now(), recorder.spent
    try:
        return function(*arguments)
    finally:
        recorder.cost.theirs += now() - begun - (recorder.spent - spent)
