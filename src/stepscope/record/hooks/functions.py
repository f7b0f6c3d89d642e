"""Hooks made of the user's functions: LambdaHook, SummarySaverHook and CheckpointHook."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from stepscope.errors import RecordError, UsageError
from stepscope.events.messages import Event, SessionLog, SessionStatus, Tensor, Value
from stepscope.kernels.steps import Rest
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import word
from stepscope.record.hooks.timer import Timer, default_steps
from stepscope.record.info import CHECKPOINTS
from stepscope.record.problems import shown
from stepscope.record.protocol import Hook
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.record.run import Run

SAVE_TIME = "checkpoint/save_time_s"


class CheckpointHook(Hook):
    """Calls a function that saves the model, at intervals and at the end.

    Each save is recorded as a text under ``checkpoint/saved``, as its duration under
    ``checkpoint/save_time_s`` and, if the function returns a path, as an event ``SessionLog CHECKPOINT``, as
    TensorFlow does. If the function raises, that is reported, and it is called again at the next interval.
    Its time counts neither as the step's nor as Stepscope's.

    At the end it saves once more if the last step was completed and has not been saved yet; not after a
    failure, and not if Ctrl-C or SIGTERM interrupted a step.

    Args:
        save: Called with the number of steps done, in the training thread; returns the path of the
            checkpoint, or None.
        every_n_steps: Number of steps between two saves.
        every_secs: Seconds between two saves, instead; by default 600.
        at_end: Whether to save at the end.

    Raises:
        UsageError: ``save`` is not a function, or both intervals are given.
    """

    calls_user_code = True

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
        """Save the last steps, unless that is done."""
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
            message = f"{type(error).__name__}: {error}"
            _write(run, step, f"{counted(done, 'step')} done: not saved, {message}")
            refusal = RecordError(
                f"the checkpoint after {counted(done, 'step')} was not saved: {message}",
                hint="training goes on, and the next checkpoint is tried at its time",
            )
            refusal.__cause__ = error
            run.report("checkpoint", refusal, points=0)
            return
        seconds = run.clock.steady() - begun
        self._saved = step
        run.rewind.saved(done, where)
        record_checkpoint(run, step, done, seconds, where)


def record_checkpoint(run: Run, step: int, done: int, seconds: float, path: str | None) -> None:
    """Record that a checkpoint was saved.

    Args:
        run: The run.
        step: The last step before.
        done: Steps done by then.
        seconds: How long it took.
        path: Its file or folder, None if nobody said.
    """
    run.scalar(SAVE_TIME, seconds, step)
    _write(run, step, f"{counted(done, 'step')} done: {path or 'saved'} in {seconds:.3g} s")
    if path is not None:
        log = SessionLog(status=SessionStatus.CHECKPOINT, checkpoint_path=path)
        run.event(lambda: Event(session_log=log), step, tag=CHECKPOINTS)


def _write(run: Run, step: int, text: str) -> None:
    run.event(lambda: [text_value(CHECKPOINTS, text)], step, nbytes=len(text), tag=CHECKPOINTS)


def text_value(tag: str, text: str) -> Value:
    """Return a text as the value of a summary, in the format of TensorBoard's text plugin."""
    tensor = Tensor.of_texts(text.encode("utf-8", "replace"), sizes=(1,))
    return Value.of(tag, "text", tensor)


class LambdaHook(Hook):
    """Calls functions instead of methods. Their time counts as yours, not as Stepscope's.

    Args:
        begin: Called with the run.
        before_step: Called with the step's number.
        after_step: Called with the step's number.
        end: Called with the run and its status.
        ranks: "chief" or "all".

    Raises:
        UsageError: One of them cannot be called, or ``ranks`` is neither.
    """

    calls_user_code = True

    def __init__(
        self,
        *,
        begin: Callable[[Run], Any] | None = None,
        before_step: Callable[[int], Any] | None = None,
        after_step: Callable[[int], Any] | None = None,
        end: Callable[[Run, str], Any] | None = None,
        ranks: Literal["chief", "all"] = "chief",
    ) -> None:
        self.ranks = word("ranks", ranks, "chief", "all", hint="ranks='all'")
        self._begin = callable_or_none("begin", begin)
        self._end = callable_or_none("end", end)
        self._run: Run
        # As attributes, so that only what is given is called in the loop.
        if callable_or_none("before_step", before_step) is not None:
            self.before_step = self._caller(before_step)  # type: ignore[assignment]
        if callable_or_none("after_step", after_step) is not None:
            self.after_step = self._caller(after_step)  # type: ignore[assignment]

    def begin(self, run: Run) -> None:
        """Call ``begin``."""
        self._run = run
        if self._begin is not None:
            run.cost.call(self._begin, run)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Call ``end``."""
        if self._end is not None:
            run.cost.call(self._end, run, status)

    def _caller(self, function: Any) -> Callable[[int], None]:
        def call(step: int) -> None:
            self._run.cost.call(function, step)

        return call


def callable_or_none(name: str, function: Any) -> Any:
    """Return a function as it is.

    Raises:
        UsageError: It is something else.
    """
    if function is not None and not callable(function):
        raise UsageError(f"{name} must be a function, got {shown(function)}", hint=f"{name}=lambda …: …")
    return function


def needed(name: str, function: Any) -> Any:
    """Return a function that a hook requires.

    Raises:
        UsageError: It is something else.
    """
    if function is None:
        raise UsageError(f"{name} must be a function, got None", hint=f"{name}=lambda …: …")
    return callable_or_none(name, function)


class SummarySaverHook(Hook):
    """Calls a function that logs images, histograms and the like, which are too much for every step.

    The function is called at the end of the first step and of every N-th after it: 0, N, 2N … Whatever it
    logs belongs to that step.

    Args:
        save: Called with the step's number, in the training thread.
        every_n_steps: By default 100.
        every_secs: Seconds between two calls, instead.
        first: Whether the first step counts.

    Raises:
        UsageError: ``save`` is not a function, or both intervals are given.
    """

    def __init__(
        self,
        save: Callable[[int], Any],
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        *,
        first: bool = True,
    ) -> None:
        self._save = needed("save", save)
        self._timer = Timer(default_steps(every_n_steps, every_secs), every_secs, first=first)
        self._rest: Rest = Rest()
        self._run: Run

    def begin(self, run: Run) -> None:
        """Begin to count."""
        self._run = run
        self._timer.start(run.step_counter.next, run.clock.steady)

    def after_step(self, step: int) -> None:
        """Call the function when it is time."""
        due = self._timer.due(step)
        self._timer.rest(self._rest)
        if due:
            self._run.cost.call(self._save, step)
