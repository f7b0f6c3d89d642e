"""The session that is being made around a hook, as far as it can be seen from its ``begin``."""

from __future__ import annotations

import os
import sys
from typing import Any

import tensorflow as tf

FRAMES, FRAMES_OF_ESTIMATOR = 12, 40
SESSIONS = (tf.compat.v1.train.SingularMonitoredSession, tf.compat.v1.train.MonitoredSession)


def hooks_beside() -> list[Any]:
    """Return all hooks of the session whose maker is calling this one's ``begin``.

    A session tells its hooks nothing of each other, so they are taken from the object that is being made.
    Where that cannot be found the list is empty.
    """
    frame = sys._getframe(1)
    for _ in range(FRAMES):
        back = frame.f_back
        if back is None:
            break
        frame = back
        maker = frame.f_locals.get("self")
        hooks = getattr(maker, "_hooks", None)
        if isinstance(hooks, list) and isinstance(maker, SESSIONS):
            return hooks
    return []


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
    frame = sys._getframe(1)
    for _ in range(FRAMES_OF_ESTIMATOR):
        names = frame.f_locals
        if frame.f_code.co_name == "_evaluate_run" and hasattr(names.get("self"), "eval_dir"):
            folder = names.get("output_dir")
            return bool(folder) and os.path.realpath(str(folder)) == os.path.realpath(log_dir)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def final_ops() -> dict[str, Any]:
    """Return what the session gives as the result of an evaluation, by name."""
    for hook in hooks_beside():
        if isinstance(hook, tf.compat.v1.train.FinalOpsHook):
            found = getattr(hook, "_final_ops", None)
            return found if isinstance(found, dict) else {}
    return {}
