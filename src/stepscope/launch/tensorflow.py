"""TensorFlow: sessions of Estimators and ``MonitoredTrainingSession`` get our hook, functions are observed.

A ``tf.function`` in whose trace an optimizer applies gradients takes a step at each call, and so does an
optimizer that applies them outside of any function. A program without an optimizer takes one where it assigns
to a variable whose gradient it has asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from time import perf_counter
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary

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
        self._differentiated: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """Variables whose gradients were asked for, while no optimizer is known."""
        self._assigned = self._optimizes = False

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
                self._loop.take_update(function, begun)
            return result

        kind.__call__ = __call__
        self._watch_assignments(tensorflow)

    def _watch_assignments(self, tensorflow: ModuleType) -> None:
        variable: Any = getattr(
            sys.modules.get("tensorflow.python.ops.resource_variable_ops"), "ResourceVariable", None
        )
        names = [name for name in ("assign", "assign_add", "assign_sub") if hasattr(variable, name)]
        if not names:
            process.say(
                "the steps of updates by hand: the variables of this version of TensorFlow are not known here"
            )
            return
        tape = tensorflow.GradientTape
        original = tape.gradient

        @wraps(original)
        def gradient(own: Any, target: Any, sources: Any, *arguments: Any, **options: Any) -> Any:
            if not self._optimizes:
                self._assigned = False
                for source in tensorflow.nest.flatten(sources):
                    if isinstance(source, variable):
                        self._differentiated[id(source)] = source
            return original(own, target, sources, *arguments, **options)

        tape.gradient = gradient
        for name in names:
            setattr(variable, name, self._assigning(getattr(variable, name)))

    def _assigning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that assigns to a variable: the first one after gradients is an update."""

        @wraps(original)
        def assign(own: Any, *arguments: Any, **options: Any) -> Any:
            if self._assigned or self._optimizes or id(own) not in self._differentiated:
                return original(own, *arguments, **options)
            if self._function is not None:
                self._updating.add(id(self._function))
            elif not process.led and not process.off:
                self._assigned = True
                self._loop.update_begins(own)
                result = original(own, *arguments, **options)
                self._loop.update_ended(own)
                return result
            return original(own, *arguments, **options)

        return assign

    def of(self, optimizer: type) -> None:
        """Observe the optimizers of Keras.

        Args:
            optimizer: Their base class.
        """
        name = "apply" if hasattr(optimizer, "apply") else "apply_gradients"  # which calls it in Keras 3
        owner: Any = next((base for base in optimizer.__mro__ if name in vars(base)), None)
        if owner is None:
            process.say("the steps: the optimizers of this version of Keras are not known here")
            return
        original = getattr(owner, name)

        @wraps(original)
        def apply(own: Any, *arguments: Any, **options: Any) -> Any:
            self._optimizes = True
            if self._function is not None:
                self._updating.add(id(self._function))
                return original(own, *arguments, **options)
            if process.led or process.off:
                return original(own, *arguments, **options)
            self._loop.update_begins(own)
            result = original(own, *arguments, **options)
            self._loop.update_ended(own)
            return result

        setattr(owner, name, apply)


updates = Updates()
"""Those of this process."""
