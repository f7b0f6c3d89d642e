"""TensorFlow: hooks for the Estimator and other sessions. The names below load on first use.

Loops of TensorFlow 2 need none of them: ``run.steps(dataset)`` and ``run.scalar`` are enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.integrations.tensorflow.hooks import CheckpointSaverHook as CheckpointSaverHook
    from stepscope.integrations.tensorflow.hooks import (
        CheckpointSaverListener as CheckpointSaverListener,
    )
    from stepscope.integrations.tensorflow.hooks import LoggingTensorHook as LoggingTensorHook
    from stepscope.integrations.tensorflow.hooks import NanTensorHook as NanTensorHook
    from stepscope.integrations.tensorflow.hooks import StepCounterHook as StepCounterHook
    from stepscope.integrations.tensorflow.hooks import StopAtStepHook as StopAtStepHook
    from stepscope.integrations.tensorflow.hooks import SummarySaverHook as SummarySaverHook
    from stepscope.integrations.tensorflow.recording import StepscopeHook as StepscopeHook
    from stepscope.integrations.tensorflow.session_activations import (
        ActivationSessionHook as ActivationSessionHook,
    )
    from stepscope.integrations.tensorflow.session_gradients import (
        GradientSessionHook as GradientSessionHook,
    )
    from stepscope.integrations.tensorflow.session_profiler import LambdaProfilerHook as LambdaProfilerHook
    from stepscope.integrations.tensorflow.session_profiler import ProfilerHook as ProfilerHook
    from stepscope.integrations.tensorflow.writer import RunWriter as RunWriter

_HOMES = {
    "ActivationSessionHook": "session_activations",
    "CheckpointSaverHook": "hooks",
    "CheckpointSaverListener": "hooks",
    "GradientSessionHook": "session_gradients",
    "LambdaProfilerHook": "session_profiler",
    "LoggingTensorHook": "hooks",
    "NanTensorHook": "hooks",
    "ProfilerHook": "session_profiler",
    "RunWriter": "writer",
    "StepCounterHook": "hooks",
    "StepscopeHook": "recording",
    "StopAtStepHook": "hooks",
    "SummarySaverHook": "hooks",
}
"""Which module of this package each public name is in; add a line for a new one, and one above."""

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
