"""Steps of a loop of the user's own, from the batches that it fetches and the updates that it makes.

One step is one update, or one batch if several optimizers share it. A step of a loop over a loader begins
when its batch is asked for and ends when the next one is; without a loader, one lasts from the end of an
update to the end of the next. A batch without a backward pass and without an update belongs to an
evaluation and is no step; several batches with backward passes and one update are one step.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import enumerate as threads
from threading import get_ident
from typing import Any

from stepscope.integrations.compiling import compilations
from stepscope.kernels.marks import LoopMarks
from stepscope.kernels.steps import Steps
from stepscope.launch.process import Process
from stepscope.record import Run
from stepscope.record.card import DATA_WAIT
from stepscope.record.clock import Deadline
from stepscope.record.hooks import Hook

NO_LOADER = f"{DATA_WAIT}: batches come from no loader that is known here; run.steps(loader) tells"
BY_HAND = "the steps: gradients were computed, but no optimizer stepped; run.step() marks updates by hand"
ELSEWHERE = "the steps of a second thread, as one trained already; train each in a process of its own"


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


class Loop(LoopMarks):
    """The steps of one process.

    Args:
        process: Of the run.
        starts: Called with the run and the updater when the first update begins.
        learns: Returns whether gradients are recorded now: batches fetched without are no steps.
        steady: Gives the time in seconds; by default ``time.perf_counter``.

    Attributes:
        evaluating: Whether the model is evaluated, between its ``eval`` and its ``train``.
        objective: Records the loss of each step; None if no backward passes are heard.
    """

    process: Process

    def __init__(
        self,
        process: Process,
        starts: Callable[[Run, Any], None] = lambda run, updater: None,
        learns: Callable[[], bool] = lambda: True,
        steady: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(process, learns, steady)
        self._starts, self.evaluating = starts, False
        self.objective: Hook | None = None

    def take_update(self, updater: Any, begun: float) -> None:
        """Take an update that is known as one only after its end, such as that of a function just traced.

        Args:
            updater: What made it.
            begun: When its step began, if it is the first.
        """
        if self.note_updater():
            if self.run is None:
                self.begun = begun
            self.update_begins(updater)
            self.update_ended(updater)

    def first(self, updater: Any) -> bool:
        """Make the run at the first update; return whether there is one."""
        begun = self.now()
        self.thread = get_ident()
        run = self.run = self.process.run()
        if run is None:
            return False
        self.steps = run.step_counter
        self.process.step_of_values, self.process.end_step = self.step_of_values, self.close
        run.add_hook(LastStep(self))
        differentiated, fetched = self.differentiated, self.got
        try:
            self._starts(run, updater)
        except Exception as error:  # noqa: BLE001  the model is not watched then
            self.process.say(f"the stages of the steps: {type(error).__name__}: {error}")
        if fetched:
            self.begin_step(self.asked, self.waited)
        else:
            self.process.say(NO_LOADER)
            self.eager = self.by_hand is not None  # known only at the next backward pass
            self.begin_step(self.begun if self.begun >= 0 else begun)
        self.differentiated = differentiated
        now = self.now()
        run.step_counter.leave_out(now - begun)  # which is ours
        if run.step_counter.stages is not None:
            run.step_counter.stages.since = now  # what came before is not divided
        return True

    def succeeds(self) -> bool:
        """Take over from the training thread if it has ended, and return whether; say if it goes on."""
        if any(thread.ident == self.thread for thread in threads()):
            self.process.say(ELSEWHERE)
            return False
        steps: Steps = self.run.step_counter
        if steps.running and self.updated:
            self.end_at_update()
        elif steps.running and self.ahead:
            self.drop_step()
        self.thread = get_ident()
        if not steps.running:  # what lies between the two trainings belongs to no step
            self.begin_step(self.now())
        return True

    def evaluated(self, begun: float) -> None:
        """Note that an evaluation is over that began in the running step, whose time was left out of it."""
        self.evaluated_s += self.now() - max(begun, self.ended)

    def step_of_values(self) -> int | None:
        """Return the step to which a value belongs that the program gives now; None for the running one.

        Without a loader a step begins at the end of an update. Until its forward or backward pass begins, the
        program tells of the step before. So it does while it evaluates, also if a batch of the evaluation was
        taken for the next step's.
        """
        run: Run | None = self.run
        between = self.ahead or self.evaluating
        if run is None or not between or self.differentiated or self.updated or self.process.led:
            return None
        steps = run.step_counter
        stages, last = steps.stages, steps.last
        if last is None or (stages is not None and stages.names[stages.running] == "forward"):
            return None
        return last[0]

    def step(self, begun: float, ended: float, compiled_s: float = 0.0) -> None:
        """Take a step that is known only afterwards, as of compiled functions.

        Args:
            begun: When it began ...
            ended: ... and ended.
            compiled_s: Its seconds of compilation.
        """
        run = self.run or self.process.run()
        if run is None or self.process.led:
            return
        self.run, self.thread = run, get_ident()
        steps = self.steps = run.step_counter
        steps.begin(begun)
        if compiled_s > 0:
            compilations.took(compiled_s)
        steps.end(ended)

    def close(self) -> None:
        """End the last step, if it was updated, at the end of the run; say if no update was seen."""
        run = self.run
        if self.by_hand is not None:
            self.by_hand.close()
        if run is None:
            if not self.process.counted and (unseen := self.process.uncounted()):
                self.process.say(unseen)
        elif self.updated and run.recording and run.step_counter.running:
            self.end_at_update()
