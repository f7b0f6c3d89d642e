"""The stages of a batch that ``fit`` trains, by the clock of the host alone.

Where Keras calls the model and its optimizer in Python for each batch, as on PyTorch, they are those of a
PyTorch loop: ``copy``, ``forward``, ``backward``, ``optimizer``. Elsewhere the step is one compiled call,
``dispatch``: it ends when the call returns, which on a device need not be when the device is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import keras

from stepscope.integrations.keras.backends import KERAS3
from stepscope.kernels.steps import Stages


class BatchStages:
    """Marks the stages of the batches of one ``fit``.

    Args:
        stages: Of the run.
        model: The model that is trained.
    """

    def __init__(self, stages: Stages, model: Any) -> None:
        self._stages, self._model = stages, model
        self._before = stages.first
        self._eager = eager(model)
        if self._eager:
            names = ("copy", "forward", "backward", "optimizer")
            stages.first, self._forward, self._backward, self._optimizer = map(stages.number, names)
        else:
            self._dispatch = stages.number("dispatch")

    @contextmanager
    def open(self) -> Iterator[None]:
        """Mark the stages of one call of the function that trains."""
        if not self._eager:
            self._stages.mark(self._dispatch)
            try:
                yield
            finally:
                self._stages.mark(0)
            return
        optimizer = getattr(self._model, "optimizer", None)
        name = "apply" if KERAS3 else "apply_gradients"
        with (
            self._marked(self._model, "call", self._forward, self._backward),
            self._marked(optimizer, name, self._optimizer, 0),
        ):
            yield

    @contextmanager
    def _marked(self, owner: Any, name: str, during: int, after: int) -> Iterator[None]:
        """Mark a method of one object for as long as this is open; a copy of the object is not affected."""
        own = owner is not None and name not in vars(owner)
        if own:
            vars(owner)[name] = self._marking(getattr(owner, name), during, after)
        try:
            yield
        finally:
            if own:
                vars(owner).pop(name, None)

    def _marking(self, call: Callable[..., Any], during: int, after: int) -> Callable[..., Any]:
        mark = self._stages.mark

        @wraps(call)
        def marked(*arguments: Any, **named: Any) -> Any:
            mark(during)
            try:
                return call(*arguments, **named)
            finally:
                mark(after)

        return marked

    def close(self) -> None:
        """Stop marking; steps begin in the stage in which they began before."""
        if self._eager:
            self._stages.first = self._before


def eager(model: Any) -> bool:
    """Return whether the model and its optimizer are called in Python for every batch."""
    backend = keras.backend.backend()
    if backend == "torch":
        return not getattr(model, "jit_compile", False)
    return backend == "tensorflow" and bool(getattr(model, "run_eagerly", False))
