"""Steps of a loop of the user's own, from the batches that it fetches and the updates that it makes.

One step is one update, or one batch if several optimizers share it. A step of a loop over a loader begins
when its batch is asked for and ends when the next one is; without a loader, one lasts from the end of an
update to the end of the next. A batch without a backward pass and without an update belongs to an
evaluation and is no step; several batches with backward passes and one update are one step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import Any

from stepscope.integrations.compiling import compilations
from stepscope.launch.process import Process
from stepscope.record import Run
from stepscope.record.clock import Deadline
from stepscope.record.hooks import Hook

NO_LOADER = "the wait for data: batches come from no loader that is known here; run.steps(loader) tells"
BY_HAND = "the steps: gradients were computed, but no optimizer stepped; run.step() marks updates by hand"


class LastStep(Hook):
    """Ends the last step of a loop while its run still takes times, however the run ends.

    Args:
        loop: The loop.
    """

    ranks = "all"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def end(self, run: Run, status: str, deadline: Deadline) -> None:
        """End the step."""
        self._loop.close()


class Loop:
    """The steps of one process.

    Args:
        process: Of the run.
        starts: Called with the run and the updater when the first update begins.
        learns: Returns whether gradients are recorded now: batches fetched without are no steps.
    """

    def __init__(
        self,
        process: Process,
        starts: Callable[[Run, Any], None] = lambda run, updater: None,
        learns: Callable[[], bool] = lambda: True,
    ) -> None:
        self._process, self._starts, self._learns = process, starts, learns
        self._run: Run | None = None
        self._thread = self._noted = 0
        self._asked = self._begun = -1.0
        self._waited = 0.0
        self._backward = self._fetched = False
        self._updated: set[int] = set()
        self._ended = self._evaluated = 0.0
        self._ahead = False
        self._eager = self._shared = False
        self._expected = 1
        self._number = -1
        self.updates = 0
        """How many updates were seen."""
        self.fetching = False
        """Whether a batch is being fetched: loaders may fetch through others."""

    def _mine(self) -> bool:
        """Return whether this thread trains, as far as is known, and no framework counts the steps."""
        process = self._process
        if process.off or process.led:
            return False
        return self._thread == get_ident() if self._thread else self._notes(threading.main_thread().ident)

    def _notes(self, trains: int | None) -> bool:
        """Return whether what this thread does is noted before the first update.

        Args:
            trains: The thread that trains if it does anything at all; what others did is forgotten then.
        """
        thread = get_ident()
        if thread != self._noted and (thread == trains or not self._noted):
            self._noted, self._backward, self._fetched = thread, False, False
            self._asked = self._begun = -1.0
            self._waited = 0.0
        return thread == self._noted

    def before_fetch(self) -> float:
        """Note that a batch is asked for; return the time."""
        now = perf_counter()
        run = self._run
        if not self._mine():
            return now
        if run is None:
            if not self._backward:
                self._asked, self._waited = now, 0.0
            return now
        steps = run.step_counter
        if steps.running and steps.current == self._number:
            if self._updated:
                steps.end(now)
            elif not self._backward:
                steps.abandon()
                steps.next = self._number
        return now

    def fetched(self, asked: float) -> None:
        """Note that the batch is there."""
        now = perf_counter()
        if not self._mine():
            return
        self._fetched = True
        run = self._run
        if run is None:
            self._waited += now - asked
        elif self._learns():
            steps = run.step_counter
            if steps.running and steps.current == self._number:
                steps.waited = (steps.waited or 0.0) + now - asked
            elif not steps.running:
                self._begin(run, asked, now - asked)

    def backward_begins(self, outputs: Any = None) -> None:
        """Note a backward pass."""
        if not self._backward and self._mine():
            self._backward = True
            if self._run is None:
                self._begun = perf_counter()

    def backward_ended(self) -> None:
        """Note that it is over."""

    def update_begins(self, updater: Any) -> None:
        """Note that an optimizer begins to step, or what else changes the parameters."""
        if self._run is None:
            self._notes(get_ident())  # the thread that updates is the one that trains
        if not self._mine():
            return
        run = self._run
        if run is None:
            run = self._first(updater)
            if run is None:
                return
        steps = run.step_counter
        if id(updater) in self._updated and not self._shared and steps.running:
            # No batch came since its last update: this is a step of its own.
            evaluated = self._evaluated
            divided = self._end_at_update(run)
            self._eager, self._expected = True, max(len(self._updated), 1)
            self._begin(run, self._ended, None)
            steps.leave_out(evaluated)
            if not divided and steps.stages is not None:
                steps.stages.drop()  # those that are over were counted for the step before
        if not steps.running:
            self._eager = True
            self._begin(run, self._ended or perf_counter(), None)

    def first_update(self, updater: Any, begun: float) -> None:
        """Take an update that is known as one only after its end, such as that of a function just traced.

        Args:
            updater: What made it.
            begun: When it began.
        """
        if self._run is None:
            self._notes(get_ident())
        if self._mine():
            if self._run is None:
                self._begun = begun
            self.update_begins(updater)
            self.update_ended(updater)

    def _first(self, updater: Any) -> Run | None:
        begun = perf_counter()
        self._thread = get_ident()
        run = self._run = self._process.run()
        if run is None:
            return None
        self._process.step_of_values, self._process.end_step = self.step_of_values, self.close
        run.add_hook(LastStep(self))
        backward, fetched = self._backward, self._fetched
        try:
            self._starts(run, updater)
        except Exception as error:  # noqa: BLE001  the model is not watched then
            self._process.say(f"the stages of the steps: {type(error).__name__}: {error}")
        if fetched:
            self._begin(run, self._asked, self._waited)
        else:
            self._process.say(NO_LOADER)
            self._begin(run, self._begun if self._begun >= 0 else begun, None)
        self._backward = backward
        now = perf_counter()
        run.step_counter.leave_out(now - begun)  # which is ours
        if run.step_counter.stages is not None:
            run.step_counter.stages.since = now  # what came before is not divided
        return run

    def update_ended(self, updater: Any) -> None:
        """Note that it has."""
        run = self._run
        if run is None or not self._mine():
            return
        self.updates += 1
        self._updated.add(id(updater))
        self._ended, self._evaluated = perf_counter(), 0.0
        if self._fetched and len(self._updated) > 1:
            self._shared = True
        if self._eager and not self._shared and len(self._updated) >= self._expected:
            run.step_counter.end(self._ended)
            self._begin(run, self._ended, None)
            self._ahead = True

    def evaluated(self, begun: float) -> None:
        """Note that an evaluation is over that began in the running step, whose time was left out of it."""
        self._evaluated += perf_counter() - max(begun, self._ended)

    def step_of_values(self) -> int | None:
        """Return the step to which a value belongs that the program gives now; None for the running one.

        Without a loader a step begins at the end of an update. Until its forward or backward pass begins, the
        program tells of the step before.
        """
        run = self._run
        if run is None or not self._ahead or self._backward or self._updated or self._process.led:
            return None
        steps = run.step_counter
        stages, last = steps.stages, steps.last
        if last is None or (stages is not None and stages.names[stages.running] == "forward"):
            return None
        return last[0]

    def _end_at_update(self, run: Run) -> bool:
        """End the running step where its last update ended; return whether its stages are known.

        Stages that began since are not parts of it, and what ran before them is not kept apart.
        """
        steps = run.step_counter
        steps.leave_out(-self._evaluated)  # which was after its end
        stages = steps.stages
        divided = stages is None or stages.since <= self._ended
        if stages is not None and not divided:
            stages.drop()
        steps.end(self._ended)
        return divided

    def step(self, begun: float, ended: float, compiled_s: float = 0.0) -> None:
        """Take a step that is known only afterwards, as of compiled functions.

        Args:
            begun: When it began ...
            ended: ... and ended.
            compiled_s: Its seconds of compilation.
        """
        run = self._run or self._process.run()
        if run is None or self._process.led:
            return
        self._run, self._thread = run, get_ident()
        steps = run.step_counter
        steps.begin(begun)
        if compiled_s > 0:
            compilations.took(compiled_s)
        steps.end(ended)

    def _begin(self, run: Run, asked: float, waited: float | None) -> None:
        self._number = run.step_counter.begin(asked, waited)
        self._updated.clear()
        self._backward = self._ahead = False
        self._evaluated = 0.0

    def close(self) -> None:
        """End the last step, if it was updated, at the end of the run; say if no update was seen."""
        run = self._run
        if run is None:
            if self._backward and self._process.opened is None:
                self._process.say(BY_HAND)
        elif self._updated and run.recording and run.step_counter.running:
            self._end_at_update(run)
