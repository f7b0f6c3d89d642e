"""TensorFlow 1's hooks, recording into a run: the originals' names, arguments and rhythm, and ``run=``.

Each is the original itself, given a run to write to. ``output_dir`` alone also names a run's directory, so
porting a script means changing its import.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.training import training_util

from stepscope.integrations.tensorflow import runs
from stepscope.integrations.tensorflow.writer import RunWriter
from stepscope.record import Run
from stepscope.record.hooks.functions import record_checkpoint

Where = Run | str | os.PathLike[str] | None


class Joined:
    """Joins a run when a session begins, and leaves it when that ends; a mixin for hooks of TensorFlow's."""

    _where: Where
    _theirs: Any = None

    def begin(self) -> None:
        """Join the run, unless there is a writer of TensorFlow's."""
        if self._theirs is None:
            self._run = runs.join(self._where, self)
            self._summary_writer = RunWriter(self._run)  # where hooks of TensorFlow's write, if they do
        super().begin()  # type: ignore[misc]

    def end(self, session: Any = None) -> None:
        """Leave the run."""
        super().end(session)  # type: ignore[misc]
        if self._theirs is None:
            runs.leave(self._run, self)


class StepCounterHook(Joined, tf.compat.v1.train.StepCounterHook):  # type: ignore[misc, unused-ignore]
    """Counts steps per second: ``global_step/sec``.

    Args:
        every_n_steps: Steps between two points.
        every_n_secs: Seconds between two, instead; ``every_n_steps`` is then None.
        output_dir: Directory of the run, if ``run`` is not given.
        summary_writer: A writer of TensorFlow's, to write there instead.
        run: The run or its directory.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        *,
        run: Where = None,
    ) -> None:
        super().__init__(every_n_steps, every_n_secs, None, summary_writer)
        self._where, self._theirs = run or output_dir, summary_writer


class SummarySaverHook(Joined, tf.compat.v1.train.SummarySaverHook):  # type: ignore[misc, unused-ignore]
    """Saves the graph's summaries, under their own tags.

    Args:
        save_steps: Steps between two.
        save_secs: Seconds between two, instead.
        output_dir: Directory of the run, if ``run`` is not given.
        summary_writer: A writer of TensorFlow's, to write there instead.
        scaffold: Whose summary op to run.
        summary_op: The operations to run; with neither, all summaries of the graph.
        run: The run or its directory.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
        *,
        run: Where = None,
    ) -> None:
        self._all = scaffold is None and summary_op is None
        super().__init__(
            save_steps, save_secs, None, summary_writer, scaffold, [] if self._all else summary_op
        )
        self._where, self._theirs = run or output_dir, summary_writer

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Find the summaries: the session's own op for them is there only now."""
        super().after_create_session(session, coord)
        if self._all:
            self._summary_op = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARY_OP)[:1]


class LoggingTensorHook(Joined, tf.compat.v1.train.LoggingTensorHook):  # type: ignore[misc, unused-ignore]
    """Prints tensors, and records those of one element under their tags.

    Args:
        tensors: Tensors or their names, by tag or alone.
        every_n_iter: Local steps between two lines.
        every_n_secs: Seconds between two, instead.
        at_end: Whether to print at the end as well.
        formatter: Makes the line.
        run: The run or its directory.
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Any = None,
        *,
        run: Where = None,
    ) -> None:
        super().__init__(tensors, every_n_iter, every_n_secs, at_end, formatter)
        self._where = run

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Know the step."""
        super().after_create_session(session, coord)
        self._session = session

    def _log_tensors(self, tensor_values: Any) -> None:
        super()._log_tensors(tensor_values)
        step = global_step(self._session)
        for tag, value in tensor_values.items():
            if np.size(value) == 1 and np.asarray(value).dtype.kind in "biuf":
                self._run.scalar(str(getattr(tag, "name", tag)), value, step)


class NanTensorHook(Joined, tf.compat.v1.train.NanTensorHook):  # type: ignore[misc, unused-ignore]
    """Ends the training when the loss is NaN, and records that in the run.

    Args:
        loss_tensor: The loss; by default the Estimator's.
        fail_on_nan_loss: Whether to raise ``NanLossDuringTrainingError``.
        run: The run or its directory.
    """

    def __init__(self, loss_tensor: Any = None, fail_on_nan_loss: bool = True, *, run: Where = None) -> None:
        super().__init__(loss_tensor, fail_on_nan_loss)
        self._where, self._given = run, loss_tensor

    def begin(self) -> None:
        """Join the run and find the loss."""
        super().begin()
        self._loss_tensor = loss_of_graph() if self._given is None else self._given

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Look at the loss."""
        if np.isnan(run_values.results):
            self._run.request_stop("Model diverged with loss = NaN.")
        super().after_run(run_context, run_values)


class StopAtStepHook(Joined, tf.compat.v1.train.StopAtStepHook):  # type: ignore[misc, unused-ignore]
    """Ends the training at a step, and records that in the run.

    Args:
        num_steps: Steps from now.
        last_step: Or the global step itself.
        run: The run or its directory.
    """

    def __init__(
        self, num_steps: int | None = None, last_step: int | None = None, *, run: Where = None
    ) -> None:
        super().__init__(num_steps, last_step)
        self._where = run

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Look at the step."""
        super().after_run(run_context, run_values)
        if run_context.stop_requested:
            self._run.request_stop(f"stopped at step {self._last_step}")


def global_step(session: Any) -> int:
    """Return the number of steps done."""
    return int(session.run(tf.compat.v1.train.get_global_step(session.graph)))


def step_before(graph: Any) -> Any:
    """Return the tensor that is the global step as a step begins; TensorFlow's own hooks read the same."""
    return training_util._get_or_create_global_step_read(graph)


def loss_of_graph() -> Any:
    """Return the loss that an Estimator trains with; None if the graph has none."""
    losses = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)
    return losses[-1] if losses else None


class CheckpointSaverListener(tf.compat.v1.train.CheckpointSaverListener):  # type: ignore[misc, unused-ignore]
    """Records the checkpoints that someone else saves: ``estimator.train(…, saving_listeners=[…])``.

    Args:
        run: The run or its directory.
        path: Path of the checkpoints, without the step.
    """

    def __init__(self, run: Where, path: str = "") -> None:
        self._where, self._path = run, path
        self._begun = 0.0

    def begin(self) -> None:
        """Join the run."""
        self._run = runs.join(self._where, self)

    def before_save(self, session: Any, global_step_value: Any) -> None:
        """Note the time."""
        self._begun = time.perf_counter()

    def after_save(self, session: Any, global_step_value: Any) -> None:
        """Record the checkpoint."""
        step, seconds = int(global_step_value), time.perf_counter() - self._begun
        record_checkpoint(self._run, step, step, seconds, f"{self._path}-{step}" if self._path else None)

    def end(self, session: Any, global_step_value: Any) -> None:
        """Leave the run."""
        runs.leave(self._run, self)


class CheckpointSaverHook(tf.compat.v1.train.CheckpointSaverHook):  # type: ignore[misc, unused-ignore]
    """Saves checkpoints as the original does, and records them.

    Args:
        checkpoint_dir: Directory of the checkpoints.
        save_secs: Seconds between two.
        save_steps: Steps between two, instead.
        saver: Saves; or that of ``scaffold``, or the graph's.
        checkpoint_basename: Begins the files' names.
        scaffold: Whose saver to use.
        listeners: Further listeners.
        save_graph_def: Whether to save the graph as well.
        run: The run or its directory; by default that of the checkpoints.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[Any] | None = None,
        save_graph_def: bool = True,
        *,
        run: Where = None,
    ) -> None:
        path = tf.io.gfile.join(checkpoint_dir, checkpoint_basename)
        ours = CheckpointSaverListener(run or checkpoint_dir, path)
        super().__init__(
            checkpoint_dir,
            save_secs,
            save_steps,
            saver,
            checkpoint_basename,
            scaffold,
            [*(listeners or ()), ours],
            save_graph_def,
        )
