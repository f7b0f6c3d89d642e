"""A request to stop."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.errors import HaltError


@dataclass
class Stop:
    """A request to stop.

    Attributes:
        reason: Why.
        error: To be raised in the training's own thread, once.
        alone: The other ranks of the job do not know of it.
        told: The user knows that it is alone.
    """

    reason: str
    error: HaltError | None = None
    alone: bool = False
    told: bool = False

    def raise_error(self) -> None:
        """Raise the error, the first time."""
        error, self.error = self.error, None
        if error is not None:
            raise error
