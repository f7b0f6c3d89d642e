"""One hook that records a session's training or evaluation."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from stepscope.integrations.guard import guarded
from stepscope.integrations.stepper import Stepper
from stepscope.integrations.tensorflow import runs
from stepscope.integrations.tensorflow.evaluation import Evaluation, evaluates
from stepscope.integrations.tensorflow.hooks import global_step, loss_of_graph, step_before
from stepscope.integrations.tensorflow.session import (
    SessionHook,
    SessionPart,
    leave_out_of_steps,
    writes_summaries_to,
)
from stepscope.integrations.tensorflow.writer import record_summary
from stepscope.record import Run

train = tf.compat.v1.train
LOSS = "loss"


class StepscopeHook(SessionHook):
    """Records an Estimator, or any session that takes hooks: steps, loss, summaries, evaluations.

    The same hook goes everywhere: ``estimator.train(…, hooks=[hook])``, ``TrainSpec(…, hooks=[hook])`` and
    ``EvalSpec(…, hooks=[hook])``. Steps are numbered by the global step, as it is after the step. Each
    process makes its own run when a session begins: the chief's has the summaries, a worker's its telemetry,
    a parameter server never begins one. Evaluations are under ``eval`` in the directory, as the Estimator's
    own are.

    Args:
        run: The run's directory; or a run of this process, which is then yours to close.
        save_steps: Steps between two records of the graph's summaries, under their own tags; None for none.
            If the session itself saves them into the same directory, they are not recorded twice.
        loss: The tensor to record at each step as ``loss``, or its name; by default the Estimator's.
        eval_name: The name of the ``EvalSpec``: evaluations are then under ``eval_<name>``.
        options: For ``Run``, if a directory is given.
    """

    def __init__(
        self,
        run: Run | str | os.PathLike[str],
        *,
        save_steps: int | None = 100,
        loss: Any = None,
        eval_name: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._where = run
        self._save_steps, self._loss, self._options = save_steps, loss, options
        self._eval_name = eval_name

    @guarded
    def begin(self) -> None:
        """Find out whether this session trains or evaluates; a training's session also evaluates."""
        if evaluates():
            self._enter(Evaluation(self._where, self._eval_name, self._options))
            return
        run = runs.join(self._where, self, **self._options)
        self._enter(Training(run, self._save_steps, self._loss))
        leave_out_of_steps(run)


class Training(SessionPart):
    """One session that trains.

    Args:
        run: The run to record into.
        save_steps: Steps between two records of the summaries; None for none.
        loss: A tensor or its name; None for the Estimator's.
    """

    def __init__(self, run: Run, save_steps: int | None, loss: Any) -> None:
        graph = tf.compat.v1.get_default_graph()
        self.run, self._stepper, self._save_steps = run, Stepper(run), save_steps
        loss = loss_of_graph() if loss is None else loss
        loss = graph.as_graph_element(loss) if isinstance(loss, str) else loss
        self._step, self._alone = step_before(graph), run.role.world_size == 1
        self._fetches: dict[str, Any] = {"step": self._step}
        if loss is not None:
            self._fetches["loss"] = loss
        self._theirs = writes_summaries_to(run.log_dir)
        self._summaries: Any = None
        self._next_save = 0

    def begin(self, session: Any) -> None:
        """Note the step; the session's summary op is there only now."""
        step = global_step(session)
        ops = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARY_OP)
        self._summaries = ops[0] if ops and self._save_steps and not self._theirs else None
        self._next, self._next_save = step + 1, step + 1

    def before(self, session: Any) -> Any:
        """Begin a step and return the tensors to fetch in it."""
        fetches = dict(self._fetches)
        if self._summaries is not None and self._next >= self._next_save:
            fetches["summaries"] = self._summaries
        self._stepper.begin(self._next)
        return train.SessionRunArgs(fetches)

    def after(self, context: Any, values: Any) -> None:
        """Record a step; ask the session to stop if the run is to.

        The fetched number is from before or after the train op, as it happens: if only this process trains,
        it is read once more. Among several processes it is never certain whose step it counts, and asking
        costs a call; but each step of our own adds at least one, so no two have the same number, and none is
        more than one too high.
        """
        run, fetched = self.run, values.results
        step = (
            int(context.session.run(self._step)) if self._alone else max(int(fetched["step"]) + 1, self._next)
        )
        if "loss" in fetched and self._theirs:
            run.note_loss(float(fetched["loss"]), step)
        elif "loss" in fetched:
            run.scalar(LOSS, fetched["loss"], step)
        if "summaries" in fetched:
            record_summary(run, fetched["summaries"], step, skip=LOSS if "loss" in fetched else "")
            self._next_save = step + (self._save_steps or 1)
        self._end(step)
        self._next = step + 1
        if run.should_stop:
            context.request_stop()

    def _end(self, step: int) -> None:
        stepper = self._stepper
        if stepper.running:
            stepper.renumber(step)
            stepper.end()
