"""Steps of a run that a trainer's callbacks begin and end, if the user has no loop."""

from __future__ import annotations

from stepscope.record import Run


class Stepper:
    """Begins and ends the steps of a run from callbacks.

    A trainer asks for data somewhere between two callbacks. ``asking`` is called at the last one before it
    does, so the time until ``begin`` is the step's wait for data.

    Args:
        run: Whose steps.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._asked: float | None = None
        self._waited: float | None = None
        self._fetched: float | None = None
        self._number: int | None = None

    @property
    def running(self) -> bool:
        """True if a step has begun here and not ended."""
        return self._number is not None

    def asking(self) -> None:
        """Note that the trainer asks for data from now on."""
        self._asked, self._fetched = self._run.clock.steady(), None

    def fetched(self, seconds: float) -> None:
        """Note how long a batch took to come, by a clock around the loader alone; those of a step add up.

        Args:
            seconds: The wait.
        """
        if self._asked is not None:
            self._fetched = (self._fetched or 0.0) + seconds

    def got(self) -> None:
        """Note that the data is there: for trainers that do more before they begin the step.

        If a running step asks for a further part of its data, that wait is added.
        """
        if self._asked is None:
            return
        waited = self._run.clock.steady() - self._asked
        steps = self._run.step_counter
        if self.running and steps.current == self._number:
            steps.waited = (steps.waited or 0.0) + waited
            self._asked = None
        else:
            self._waited = waited

    def begin(self, number: int | None = None) -> None:
        """Begin a step; one that still runs is dropped unmeasured.

        Args:
            number: Its number; by default the one after the last.
        """
        run = self._run
        self.abandon()
        run.step_counter.led = True
        if number is not None and number >= 0:
            run.step_counter.next = number
        now, asked, waited, fetched = run.clock.steady(), self._asked, self._waited, self._fetched
        self._asked = self._waited = self._fetched = None
        if asked is None:
            self._number = run.step_counter.begin(now)
            return
        waited = now - asked if waited is None else waited
        self._number = run.step_counter.begin(now - waited, waited if fetched is None else fetched)
        run.step_counter.asked = asked

    def renumber(self, number: int) -> None:
        """Change the number of the running step, if it is known late; the next one follows it."""
        steps = self._run.step_counter
        self._number = steps.current = number
        steps.next = number + 1

    def end(self) -> None:
        """End the running step and record its times."""
        run, number = self._run, self._number
        self._number = None
        if number is not None and run.step_counter.current == number:
            run.step_counter.end(run.clock.steady())

    def abandon(self) -> None:
        """Drop the running step unmeasured, as it did not come to its end; another loop may count steps."""
        if self._number is not None and self._run.step_counter.current == self._number:
            self._run.step_counter.abandon()
        self._number = None
        self._run.step_counter.led = False
