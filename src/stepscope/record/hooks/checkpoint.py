"""CheckpointHook: calls the user's saver, and records where and when."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from stepscope.errors import RecordError
from stepscope.events.messages import Event, Metadata, SessionLog, SessionStatus, Shape, Tensor, Value
from stepscope.kernels.steps import Rest
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.hooks.functions import needed
from stepscope.record.hooks.hook import Hook
from stepscope.record.hooks.timer import Timer

if TYPE_CHECKING:
    from stepscope.record.run import Run

TAG = "checkpoint/saved"
SAVE_TIME = "checkpoint/save_time_s"
DT_STRING = 7


class CheckpointHook(Hook):
    """Calls a function that saves the model, every so often and at the end.

    Each save is recorded as a text under ``checkpoint/saved``, as its duration under
    ``checkpoint/save_time_s``, and, where the function returns a path, as TensorFlow does: an event
    ``SessionLog CHECKPOINT``. A function that raises is reported, and called again next time. Its time counts
    neither as a step's nor as Stepscope's.

    At the end it saves where the last step came to its end and was not saved yet: not after a failure, and
    not where Ctrl-C or SIGTERM cut a step in two.

    Args:
        save: Called with the number of steps done, in the training thread; returns where it saved, or None.
        every_n_steps: Steps done between two saves.
        every_secs: Seconds between two, instead; by default 600.
        at_end: Whether to save at the end.

    Raises:
        UsageError: ``save`` is no function, or both intervals are given.
    """

    def __init__(
        self,
        save: Callable[[int], str | os.PathLike[str] | None],
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        *,
        at_end: bool = True,
    ) -> None:
        self._save = needed("save", save)
        if every_n_steps is None and every_secs is None:
            every_secs = 600.0
        self._timer = Timer(every_n_steps, every_secs, first=False)
        self._at_end = at_end
        self._rest: Rest = Rest()
        self._saved: int | None = None
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to count."""
        self._run = run
        self._timer.start(run.step_counter.next, run.clock.steady)

    def after_step(self, step: int) -> None:
        """Save when it is time."""
        due = self._timer.due(step + 1)
        self._timer.rest(self._rest, 1)
        if due:
            self._do(step)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Save what is not saved yet."""
        last = run.last_step
        if not self._at_end or last is None or self._saved == last.step or status == "failed":
            return
        if status == "finished" or (last.step == run.current_step and not run.step_counter.running):
            self._do(last.step)

    def _do(self, step: int) -> None:
        run, done = self._run, step + 1
        begun = run.clock.steady()
        try:
            path = run.cost.call(self._save, done)
            where = None if path is None else os.fsdecode(os.fspath(path))
        except Exception as error:  # noqa: BLE001  the user's own code, their framework, their disk
            found = f"{type(error).__name__}: {error}"
            self._write(step, f"{done} steps done: not saved, {found}", None)
            refusal = RecordError(
                f"the checkpoint after {done} steps was not saved: {found}",
                hint="training goes on, and the next checkpoint is tried at its time",
            )
            refusal.__cause__ = error
            run.report("checkpoint", refusal, points=0)
            return
        seconds = run.clock.steady() - begun
        self._saved = step
        run.scalar(SAVE_TIME, seconds, step)
        self._write(step, f"{done} steps done: {where or 'saved'} in {seconds:.3g} s", where)

    def _write(self, step: int, text: str, path: str | None) -> None:
        self._run.event(lambda: [text_value(TAG, text)], step, nbytes=len(text), tag=TAG)
        if path is not None:
            log = SessionLog(status=SessionStatus.CHECKPOINT, checkpoint_path=path)
            self._run.event(lambda: Event(session_log=log), step, tag=TAG)


def text_value(tag: str, text: str) -> Value:
    """Return a text as the value of a summary, as TensorBoard's text plugin has it."""
    tensor = Tensor(dtype=DT_STRING, tensor_shape=Shape.of(1), string_val=[text.encode("utf-8", "replace")])
    return Value(tag=tag, tensor=tensor, metadata=Metadata.of("text", data_class=2))
