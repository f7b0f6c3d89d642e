"""Checkpoints that TensorFlow saves, recorded in a run: place, time and duration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from stepscope.events.messages import Event, SessionLog, SessionStatus
from stepscope.integrations.tensorflow import runs
from stepscope.integrations.tensorflow.hooks import Where
from stepscope.record.hooks.functions import SAVE_TIME, text_value
from stepscope.record.info import CHECKPOINTS
from stepscope.text import counted


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
        run, step, seconds = self._run, int(global_step_value), time.perf_counter() - self._begun
        path = f"{self._path}-{step}" if self._path else ""
        text = f"{counted(step, 'step')} done: {path or 'saved'} in {seconds:.3g} s"
        log = SessionLog(status=SessionStatus.CHECKPOINT, checkpoint_path=path)
        run.scalar(SAVE_TIME, seconds, step)
        run.event(lambda: [text_value(CHECKPOINTS, text)], step, nbytes=len(text), tag=CHECKPOINTS)
        run.event(lambda: Event(session_log=log), step, tag=CHECKPOINTS)

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
