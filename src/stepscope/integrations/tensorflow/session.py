"""Hooks with a part in each session, and the session around a hook as far as its ``begin`` can see it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import tensorflow as tf

from stepscope.integrations.guard import guarded
from stepscope.integrations.tensorflow import runs
from stepscope.record import Run
from stepscope.record.problems import Problems, Reporter

FRAMES, FRAMES_OF_ESTIMATOR = 13, 40
SESSIONS = (tf.compat.v1.train.SingularMonitoredSession, tf.compat.v1.train.MonitoredSession)


class SessionPart:
    """The work of a hook in one session; by default nothing."""

    run: Any = None
    """Receives what it records; None while nothing is."""
    evaluates = False

    def begin(self, session: Any) -> None:
        """Prepare, now that the session is there."""

    def before(self, session: Any) -> Any:
        """Return the arguments of the step that begins, None for no more than others want."""

    def after(self, context: Any, values: Any) -> None:
        """Take the results of the step."""

    def end(self, session: Any) -> None:
        """Finish, while the session is there."""


class SessionHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc, unused-ignore]
    """Has a part in each session; evaluations take place within the session of the training."""

    def __init__(self) -> None:
        self._sessions: list[SessionPart] = []
        self._alone = Problems()

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        run = self._sessions[-1].run if self._sessions else None
        return self._alone if run is None else run

    def _enter(self, part: SessionPart) -> None:
        around = [other for other in self._sessions if part.evaluates and not other.evaluates]
        self._sessions = [*around, part]

    @guarded
    def after_create_session(self, session: Any, coord: Any) -> None:
        """Tell the part that its session is there."""
        if self._sessions:
            self._sessions[-1].begin(session)

    @guarded
    def before_run(self, run_context: Any) -> Any:
        """Begin a step."""
        return self._sessions[-1].before(run_context.session) if self._sessions else None

    @guarded
    def after_run(self, run_context: Any, run_values: Any) -> None:
        """End it."""
        if self._sessions:
            self._sessions[-1].after(run_context, run_values)

    @guarded
    def end(self, session: Any) -> None:
        """End the part, and leave its run."""
        if self._sessions:
            part = self._sessions.pop()
            part.end(session)
            if part.run is not None:
                runs.leave(part.run, self)


def hooks_beside() -> list[Any]:
    """Return all hooks of the session whose maker is calling this one's ``begin``.

    A session tells its hooks nothing of each other, so they are taken from the object that is being made.
    If that cannot be found the list is empty.
    """
    for frame in _callers(FRAMES):
        maker = frame.f_locals.get("self")
        hooks = getattr(maker, "_hooks", None)
        if isinstance(hooks, list) and isinstance(maker, SESSIONS):
            return hooks
    return []


class PausingListener(tf.compat.v1.train.CheckpointSaverListener):  # type: ignore[misc, unused-ignore]
    """Leaves the time in which a checkpoint is saved out of the step.

    Args:
        run: Whose step.
    """

    def __init__(self, run: Run) -> None:
        self._pause = run.pause("checkpoint")

    def before_save(self, session: Any, global_step_value: Any) -> None:
        """Begin to."""
        self._pause.__enter__()

    def after_save(self, session: Any, global_step_value: Any) -> None:
        """End that; the work of other listeners is no part of it."""
        self._pause.__exit__(None, None, None)


def leave_out_of_steps(run: Run) -> None:
    """Have checkpoints and evaluations within the session's steps count as pauses.

    The session's hooks act within its step. One saves checkpoints; in ``train_and_evaluate`` a listener of
    that one evaluates, and ``InMemoryEvaluatorHook`` does too.

    Args:
        run: Of the session whose hooks are about to begin.
    """
    for hook in hooks_beside():
        listeners = getattr(hook, "_listeners", None)
        if isinstance(hook, tf.compat.v1.train.CheckpointSaverHook) and isinstance(listeners, list):
            others = [one for one in listeners if not isinstance(one, PausingListener)]
            listeners[:] = [PausingListener(run), *others]
        for evaluator in (hook, *(listeners or ())):
            evaluate = getattr(type(evaluator), "_evaluate", None)
            if callable(evaluate):
                evaluator._evaluate = _pausing(run, evaluate.__get__(evaluator))


def _pausing(run: Run, evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that evaluates in a pause."""

    def call(*arguments: Any, **options: Any) -> Any:
        with run.pause("evaluation"):
            return evaluate(*arguments, **options)

    return call


def writes_summaries_to(log_dir: str) -> bool:
    """Return whether the session itself saves summaries into a directory."""
    target = os.path.realpath(log_dir)
    return any(
        os.path.realpath(str(hook._output_dir)) == target
        for hook in hooks_beside()
        if isinstance(hook, tf.compat.v1.train.SummarySaverHook) and getattr(hook, "_output_dir", None)
    )


def evaluates_into(log_dir: str) -> bool:
    """Return whether an Estimator evaluates, and itself writes the result into a directory afterwards."""
    for frame in _callers(FRAMES_OF_ESTIMATOR):
        names = frame.f_locals
        if frame.f_code.co_name == "_evaluate_run" and hasattr(names.get("self"), "eval_dir"):
            folder = names.get("output_dir")
            return bool(folder) and os.path.realpath(str(folder)) == os.path.realpath(log_dir)
    return False


def _callers(most: int) -> Iterator[FrameType]:
    """Yield the frames of the callers of the calling function, nearest first."""
    frame = sys._getframe(1)
    for _ in range(most):
        back = frame.f_back
        if back is None:
            return
        frame = back
        yield frame


def final_ops() -> dict[str, Any]:
    """Return the session's result of an evaluation, by name."""
    for hook in hooks_beside():
        if isinstance(hook, tf.compat.v1.train.FinalOpsHook):
            ops = getattr(hook, "_final_ops", None)
            return ops if isinstance(ops, dict) else {}
    return {}
