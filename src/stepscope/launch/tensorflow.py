"""TensorFlow: sessions of Estimators and of ``MonitoredTrainingSession`` get our hook."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from stepscope.launch import printed
from stepscope.launch.process import process


def install(tensorflow: ModuleType) -> None:
    """Add the hook to sessions that are made from now on.

    Args:
        tensorflow: The package.
    """
    printed.install()
    train = tensorflow.compat.v1.train
    monitored = train.MonitoredSession
    original = monitored.__init__

    @wraps(original)
    def __init__(self: Any, session_creator: Any = None, hooks: Any = None, *more: Any, **named: Any) -> None:  # noqa: N807
        run = None if process.led else process.run()
        if run is not None:
            from stepscope.integrations.tensorflow import StepscopeHook

            hooks = list(hooks or ())
            if not any(isinstance(each, StepscopeHook) for each in hooks):
                hooks.append(StepscopeHook(run))
        original(self, session_creator, hooks, *more, **named)

    monitored.__init__ = __init__
