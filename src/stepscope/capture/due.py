"""Reasons why a due capture is skipped or moved.

A line on the console and a mark in the run for the first capture that is skipped; those that follow it are
counted, and the next profile says how many. A capture that is moved says so on the console and in its notes,
with the steps of the captures that it also stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stepscope.capture.capture import Order
from stepscope.record.messages import write_above_bars
from stepscope.record.protocol import Hook
from stepscope.record.statistics.hooks import StatisticsHook

FURTHEST = 24
"""Most steps by which a capture is moved, to steps at which nothing is measured."""


def on_console(text: str) -> None:
    """Print a line above any progress bar."""
    write_above_bars(f"stepscope: {text}")


class Due:
    """Captures of one run that were due and did not begin.

    Args:
        mark: Leaves a mark in the run: order, step, why.
        every: Steps between two captures of the schedule; None if it does not go by steps.
    """

    def __init__(self, mark: Callable[[Order, int, str], None], every: int | None = None) -> None:
        self._mark, self._every = mark, every
        self._waits: tuple[Order, int, str, bool] | None = None
        self._skipped: tuple[str, int] | None = None
        self._more = 0

    def skip(self, order: Order, step: int, why: str) -> None:
        """Note a capture that is not made; the first of several is reported."""
        if self._skipped is not None and self._skipped[0] == order.cause:
            self._more += step != self._skipped[1]
            return
        self._skipped, self._more = (order.cause, step), 0
        on_console(f"no profile of step {step}: {why}")
        self._mark(order, step, f"skipped: {why}")

    def wait(self, order: Order, step: int, why: str, *, quiet: bool = False) -> None:
        """Note a capture that waits; with ``quiet``, print no line on the console."""
        if self._waits is None or (self._waits[3] and not quiet):
            self._waits = order, self._waits[1] if self._waits else step, why, quiet

    def waiting_since(self, order: Order, due: int) -> int:
        """Return the step at which the waiting capture was due, or ``due`` if none waits."""
        waits = self._waits
        return waits[1] if waits is not None and waits[0].cause == order.cause else due

    def begun(self, step: int, order: Order) -> list[str]:
        """Return the notes on earlier captures for one that begins with a step."""
        notes = []
        if self._waits is not None and order.cause == self._waits[0].cause:
            (_, due, why, quiet), self._waits = self._waits, None
            if due != step:
                others = self._passed(due, step)
                notes.append(f"due at step {due}, begun at step {step}{others}: {why}")
                if not quiet:
                    on_console(f"the profile due at step {due} begins at step {step}{others}: {why}")
        if self._skipped is not None and order.cause == self._skipped[0]:
            (_, first), self._skipped = self._skipped, None
            several = f"those of step {first} and of {self._more} later ones were" if self._more else ""
            notes.append(f"{several or f'that of step {first} was'} skipped before this one")
        return notes

    def _passed(self, due: int, step: int) -> str:
        """Return in words at which further steps captures were due meanwhile."""
        if self._every is None:
            return ""
        steps = list(range((due // self._every + 1) * self._every, step, self._every))
        if not steps:
            return ""
        if len(steps) > 2:
            return f", also in place of those of steps {steps[0]} to {steps[-1]}"
        of_steps = (
            f"that of step {steps[0]}" if len(steps) == 1 else f"those of steps {steps[0]} and {steps[1]}"
        )
        return f", also in place of {of_steps}"

    def close(self) -> None:
        """Report what still waits when the run ends."""
        if self._waits is not None:
            (order, due, why, _), self._waits = self._waits, None
            self.skip(order, due, f"{why}, until the run ended")


def measured(hooks: Iterable[Hook], steps: range) -> list[int]:
    """Return which of the steps to come other hooks of the run measure: they take longer than usual."""
    found: set[int] = set()
    for hook in hooks:
        if isinstance(hook, StatisticsHook):
            found.update(hook.sampled(steps))
    return sorted(found)


def measured_inside(steps: list[int], measured: list[int]) -> list[str]:
    """Return the note for the page on captured steps that other hooks measured."""
    inside = [step for step in measured if step in steps]
    if not inside:
        return []
    numbers = ", ".join(map(str, inside[:5])) + (", …" if len(inside) > 5 else "")
    which = f"step {numbers}, which takes" if len(inside) == 1 else f"steps {numbers}, which take"
    return [f"gradients or activations were measured in {which} longer because of that"]


def undisturbed(hooks: Iterable[Hook], step: int, count: int, total: int | None) -> int:
    """Return the first step, from the given one on, that begins a stretch without other measurements.

    Args:
        hooks: Of the run.
        step: The first that may be.
        count: Steps in a row.
        total: How many steps the run takes; None if that is not known.

    Returns:
        The step itself where there is none within ``FURTHEST`` steps, or none before the run ends.
    """
    last = step + FURTHEST if total is None else min(step + FURTHEST, total - count)
    busy = measured(hooks, range(step, max(last, step) + count))
    for first in range(step, last + 1):
        if not any(first <= each < first + count for each in busy):
            return first
    return step
