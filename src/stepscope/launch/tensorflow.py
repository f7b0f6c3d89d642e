"""TensorFlow: sessions of Estimators and ``MonitoredTrainingSession`` get our hook, functions are observed.

A ``tf.function`` in whose trace an optimizer applies gradients takes a step at each call, and so does an
optimizer that applies them outside of any function.
"""

from __future__ import annotations

from functools import wraps
from time import perf_counter
from types import ModuleType
from typing import Any

from stepscope.launch import printed
from stepscope.launch.loop import Loop
from stepscope.launch.process import process


def install(tensorflow: ModuleType) -> None:
    """Add the hook to sessions that are made from now on, and observe functions.

    Args:
        tensorflow: The package.
    """
    printed.install()
    updates.watch(tensorflow)
    train = tensorflow.compat.v1.train
    monitored = train.MonitoredSession
    original = monitored.__init__

    @wraps(original)
    def __init__(self: Any, session_creator: Any = None, hooks: Any = None, *more: Any, **named: Any) -> None:  # noqa: N807
        run = None if process.led else process.run()
        if run is not None:
            with process.apart():
                from stepscope.integrations.tensorflow import StepscopeHook

                hooks = list(hooks or ())
                if not any(isinstance(hook, StepscopeHook) for hook in hooks):
                    hooks.append(StepscopeHook(run))
        original(self, session_creator, hooks, *more, **named)

    monitored.__init__ = __init__


class Updates:
    """The updates of loops of the user's own."""

    def __init__(self) -> None:
        self._loop = Loop(process)
        self._function: Any = None
        self._updating: set[int] = set()

    def watch(self, tensorflow: ModuleType) -> None:
        """Observe the functions that are called from now on."""
        kind: Any = type(tensorflow.function(lambda: None))
        original = kind.__call__

        @wraps(original)
        def __call__(function: Any, *arguments: Any, **options: Any) -> Any:  # noqa: N807
            if self._function is not None or process.led or process.off:  # called by another, or by a trainer
                return original(function, *arguments, **options)
            known = id(function) in self._updating
            if known:
                self._loop.update_begins(function)
            self._function = function
            begun = perf_counter()
            try:
                result = original(function, *arguments, **options)
            finally:
                self._function = None
            if known:
                self._loop.update_ended(function)
            elif id(function) in self._updating:  # it was traced in this call
                self._loop.first_update(function, begun)
            return result

        kind.__call__ = __call__

    def of(self, optimizer: type) -> None:
        """Observe the optimizers of Keras.

        Args:
            optimizer: Their base class.
        """
        owner: Any = next((base for base in optimizer.__mro__ if "apply_gradients" in vars(base)), None)
        if owner is None:
            process.say("the steps: the optimizers of this version of Keras are not known here")
            return
        original = owner.apply_gradients

        @wraps(original)
        def apply_gradients(own: Any, *arguments: Any, **options: Any) -> Any:
            if self._function is not None:
                self._updating.add(id(self._function))
                return original(own, *arguments, **options)
            if process.led or process.off:
                return original(own, *arguments, **options)
            self._loop.update_begins(own)
            result = original(own, *arguments, **options)
            self._loop.update_ended(own)
            return result

        owner.apply_gradients = apply_gradients


updates = Updates()
"""Those of this process."""
