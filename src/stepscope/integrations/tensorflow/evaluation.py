"""Evaluations of the Estimator, in a run of their own under ``eval`` of the training's directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from stepscope.integrations.tensorflow import runs
from stepscope.integrations.tensorflow.session import SessionPart, evaluates_into, final_ops
from stepscope.integrations.tensorflow.writer import record_summary
from stepscope.record import Run
from stepscope.record.roles import detect
from stepscope.record.roles.role import evaluator_directory

STEP = "global_step"


def evaluates() -> bool:
    """Return whether the graph of a new session belongs to an evaluation."""
    return bool(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.EVAL_STEP))


class Evaluation(SessionPart):
    """One session that evaluates.

    Its run stays open to the end of the process: a training is evaluated many times. Of the processes that
    train, only the chief has one. The Estimator's own files in the same directory are left to it.

    Args:
        where: The training's run, or its directory.
        name: Of the evaluation.
        options: For ``Run``.
    """

    evaluates = True

    def __init__(
        self, where: Run | str | os.PathLike[str], name: str | None, options: Mapping[str, Any]
    ) -> None:
        self.run = run_of(where, name, options)
        theirs = self.run is not None and evaluates_into(os.fspath(self.run.log_dir))
        self._ops = {} if theirs else final_ops()

    def end(self, session: Any) -> None:
        """Record the metrics, at the global step of the checkpoint that was evaluated."""
        run = self.run
        if run is None or not self._ops:
            return
        values = session.run(self._ops)
        step = int(values[STEP]) if STEP in values else None
        for tag, value in sorted(values.items()):
            if isinstance(value, bytes):
                record_summary(run, value, step)
            elif tag != STEP and np.size(value) == 1:
                run.scalar(tag, value, step)
        run.flush_soon()


def run_of(where: Run | str | os.PathLike[str], name: str | None, options: Mapping[str, Any]) -> Run | None:
    """Return the run for evaluations; None in a process that does not write."""
    if isinstance(where, Run):
        role, directory = where.role, where.log_dir
        if role.name == "evaluator":
            return where
    else:
        role, directory = detect(environ=os.environ, modules=sys.modules), os.fspath(where)
    if not role.writes:
        return None
    facts = {"rank": 0, "world_size": 1, "role": "evaluator", **options, "hooks": ()}
    return runs.join(evaluator_directory(directory, name), KEEP, **facts)


class Keeper:
    """Keeps the runs of evaluations open."""


KEEP = Keeper()
