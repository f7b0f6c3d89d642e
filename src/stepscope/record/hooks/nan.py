"""NanHook: what to do when the loss is no number any more."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal

from stepscope.errors import DivergedError, UsageError
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks.hook import Hook
from stepscope.record.listeners import Wanted
from stepscope.record.problems import shown

if TYPE_CHECKING:
    from stepscope.record.run import Run

Action = Literal["raise", "stop", "warn"]
_LOSS = re.compile(r"(^|[^a-z])loss([^a-z]|$)", re.IGNORECASE)
_HINT = "look at the steps before it: the learning rate, the gradients' norm, the data of that step"
_FLUSH_SECS = 5.0


class NanHook(Hook):
    """Ends the training, or warns, when a logged value is NaN or infinite.

    It hears of values as the thread that writes does, a quarter of a second after they were logged or once
    their device has computed them, and so never makes the training wait. It acts at the next boundary of a
    step, or where the run is closed. It watches on every rank what is logged there.

    Args:
        tags: Names, or a function that says of a name whether it is watched; by default every tag with the
            word "loss" in it.
        action: "raise" a ``DivergedError`` in the loop, "stop" as ``run.request_stop`` does, or "warn" once a
            tag.

    Raises:
        UsageError: The action is none of these.
    """

    ranks = "all"

    def __init__(
        self, tags: Collection[str] | Callable[[str], bool] | None = None, *, action: Action = "raise"
    ) -> None:
        if action not in ("raise", "stop", "warn"):
            raise UsageError(
                f"action must be 'raise', 'stop' or 'warn', got {shown(action)}", hint="action='stop'"
            )
        self._tags: Wanted = is_loss if tags is None else tags
        self._action = action
        self._told: set[str] = set()
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to listen."""
        self._run = run
        run.listen(self._take, self._tags)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Hear of the last steps too."""
        if status == "finished":
            run.flush(timeout=deadline.left(_FLUSH_SECS))

    def _take(self, tag: str, steps: Any, values: Any, walls: Any) -> None:
        """Look at new values, on the thread that writes."""
        if tag in self._told:
            return
        finite = abs(values) < float("inf")  # False for NaN too
        if finite.all():
            return
        self._told.add(tag)
        at = int(finite.argmin())
        self._act(f"{tag} is {_spoken(float(values[at]))} at step {int(steps[at])}")

    def _act(self, found: str) -> None:
        run = self._run
        if self._action == "warn":
            error = DivergedError(found, hint=_HINT, path=run.log_dir)
            run.warn(str(error), later=True)
        elif self._action == "stop":
            run.request_stop(found, alone=True)
        else:
            run.request_stop(found, error=DivergedError(found, hint=_HINT, path=run.log_dir))


def is_loss(tag: str) -> bool:
    """Whether a tag has the word "loss" in it: ``train/loss`` and ``loss_g`` do, ``glossy`` does not."""
    return _LOSS.search(tag) is not None


def _spoken(value: float) -> str:
    return "NaN" if value != value else ("infinite" if value > 0 else "minus infinite")
