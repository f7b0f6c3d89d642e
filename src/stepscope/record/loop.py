"""The part of a run that goes with the training loop: steps, hooks at their boundaries, requests to stop."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TypeVar

from stepscope.errors import HaltError, RecordError
from stepscope.kernels.steps import Step
from stepscope.record.arguments import integer
from stepscope.record.hooks.dispatch import Hooks
from stepscope.record.numbers import Numbers
from stepscope.record.steps import DATA_WAIT, STEP_TIME, StepFacts
from stepscope.record.stopping import Stop

T = TypeVar("T")


class Loop(Numbers):
    """The methods of a run that go with the training loop.

    Attributes:
        examples: Examples counted so far, those before a resume not included.
        tokens: Tokens, likewise.
    """

    examples: int
    tokens: int
    _hooks: Hooks
    _stop: Stop | None
    _total_given: bool
    _shares_stop = False
    """Whether a hook lets the other ranks know of a request to stop."""

    def steps(self, iterable: Iterable[T], *, start: int | None = None) -> Iterator[T]:
        """Loop over data, each item being one step; measure the step and how long it waited for its data.

        ``len()`` of the iterable, where it has one, gives ``total_steps``. Numbers count on over several
        loops. A step that ``break`` or an exception cuts short is counted, but its time is not recorded. The
        loop ends early where the run was asked to stop.

        Args:
            iterable: A data loader, say.
            start: Number of this loop's first step; by default the one after the last.
        """
        if start is not None:
            self._steps.next = integer("start", start)
        return self._steps.loop(self, iter(iterable), self._expect(iterable))

    def step(self) -> Step:
        """Begin a step by hand, where ``steps`` does not fit. There are two ways.

        As a call at the head of a loop, where a step lasts until the next call::

            while not run.should_stop:
                run.step()

        As a context, where what lies between two steps, an evaluation say, belongs to none::

            with run.step() as number:

        Returns:
            The context, which gives the step's number.
        """
        return self._steps.step()

    def _attach(self, every: int | None) -> None:
        """Have the boundaries of steps recorded, and everything written after every so many of them."""
        steps, points = self._steps, self._recorder.points
        steps.owner, steps.every = weakref.ref(self), every or 0
        for tag in (STEP_TIME, DATA_WAIT):  # the first of all tags: the kernel knows them by number
            points.admit(tag)
        if type(self).step is Loop.step:
            self.__dict__["step"] = steps.step

    def _withdraw(self) -> None:
        """End the hooks that are not meant for this rank."""
        self._hooks.withdraw(self)  # type: ignore[arg-type]

    def _accept_times(self, step: int, step_ms: float, wait_ms: float) -> None:
        """Record a step's times where more waits than usual."""
        wall = self._wall()
        self._accept(STEP_TIME, step_ms, step, wall)
        if wait_ms >= 0:
            self._accept(DATA_WAIT, wait_ms, step, wall)

    def _expect(self, iterable: object) -> int:
        """Know the number of steps from the length of the data; return that, -1 where it has none."""
        try:
            length = len(iterable)  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001  iterable data sets raise what they like where they have no length
            return -1
        if not self._total_given:
            self._recorder.expect(self._steps.next + length)
        return length

    def _expect_steps(self, total: int) -> None:
        """Know the number of steps from a hook, unless the user said it."""
        if not self._total_given:
            self._total_given = True
            self._recorder.expect(total)

    @property
    def current_step(self) -> int | None:
        """Number of the step that runs or ran last; None before the first."""
        return self._steps.current

    @property
    def last_step(self) -> StepFacts | None:
        """Times of the last step that came to its end; None before the first."""
        last = self._steps.last
        return None if last is None else StepFacts(*last)

    def count(self, examples: int = 0, tokens: int = 0) -> None:
        """Count what the running step processes, for examples and tokens per second.

        Args:
            examples: To add to ``examples``.
            tokens: To add to ``tokens``.
        """
        self.examples += examples
        self.tokens += tokens

    # --- stopping -----------------------------------------------------------------------------------

    def request_stop(self, reason: str, *, error: HaltError | None = None, alone: bool = False) -> None:
        """Ask for the training to end, from any thread: ``steps()`` ends its loop after the running step.

        Who begins steps by ``step()`` asks ``should_stop``.

        Args:
            reason: Why, for the page; of several requests the first counts.
            error: Raised in the training's own thread at the next boundary of a step, or by ``close()``.
            alone: Other ranks do not know of it. As they would wait for this one for ever, ``steps()`` then
                goes on in a job of several ranks until ``StopTogetherHook`` has told them; ``should_stop``
                says yes at once.
        """
        if self._stop is None:
            self._stop = Stop(reason, error, alone and self.role.world_size > 1)
            self._steps.stopping = True

    @property
    def should_stop(self) -> bool:
        """Whether the training was asked to end."""
        return self._stop is not None

    @property
    def stop_reason(self) -> str | None:
        """Why the training was asked to end; None where it was not."""
        return None if self._stop is None else self._stop.reason

    def _stop_together(self) -> None:
        """Stop, as every rank does at this step."""
        stop = self._stop
        if stop is None:
            self._stop, self._steps.stopping = Stop("another rank requested it"), True
        else:
            stop.alone = False

    def _stops(self) -> bool:
        """Raise what the request to stop carries; say whether the loop ends."""
        stop = self._stop
        if stop is None:
            return False
        stop.raise_error()
        if stop.alone and not stop.told and not self._shares_stop:
            stop.told = True
            found = f"a stop was requested ({stop.reason}), but the other ranks do not know of it"
            hint = "add StopTogetherHook, or ask run.should_stop and share the answer; training goes on"
            error = RecordError(found, hint=hint)
            self._recorder.problems.tell("stop", error, points=0)
        return not stop.alone
