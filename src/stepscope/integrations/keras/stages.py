"""The stages of a batch that ``fit`` trains, by the clock of the host alone.

Where Keras calls the model and its optimizer in Python for each batch, they are those of a PyTorch loop:
``forward``, ``backward``, ``optimizer``, whichever part of the model a ``train_step`` calls. Elsewhere the
step is one compiled call, ``dispatch``: it ends when the call returns, which on a device need not be when the
device is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any, Protocol

import keras

from stepscope.integrations.keras.backends import KERAS3
from stepscope.kernels.steps import Stages, Steps
from stepscope.record.problems import Reporter

Marking = Callable[[], object]


def nothing() -> None:
    """Mark nothing."""


class EagerMarks(Protocol):
    """Marks the stages of one backend whose calls are seen in Python."""

    def open(self, model: Any) -> AbstractContextManager[object]:
        """Mark the stages of one call of the function that trains."""

    def close(self) -> None:
        """Mark no more."""


class BatchStages:
    """Marks the stages of the batches of one ``fit``.

    Args:
        steps: Of the run.
        model: The model that is trained.
        reporter: Told if marking fails.
    """

    def __init__(self, steps: Steps, model: Any, reporter: Reporter) -> None:
        assert steps.stages is not None
        self._stages, self._model = steps.stages, model
        self._marks: EagerMarks | None = None
        if not eager(model):
            self._dispatch = self._stages.number("dispatch")
        elif keras.backend.backend() == "torch":
            self._marks = TorchMarks(steps, model, reporter)
        else:
            self._marks = TapeMarks(self._stages)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Mark the stages of one call of the function that trains."""
        if self._marks is not None:
            with self._marks.open(self._model):
                yield
            return
        self._stages.mark(self._dispatch)
        try:
            yield
        finally:
            self._stages.mark(0)

    def close(self) -> None:
        """Stop marking."""
        if self._marks is not None:
            self._marks.close()


class TorchMarks:
    """Stages on PyTorch, where layers are its modules and gradients those of autograd.

    Args:
        steps: Of the run.
        model: The model that is trained.
        reporter: Told if marking fails.
    """

    def __init__(self, steps: Steps, model: Any, reporter: Reporter) -> None:
        from stepscope.integrations.torch.stages import Phases, StageMarks

        assert steps.stages is not None
        self._marks = StageMarks(steps, model, (), None, reporter)
        self._phases: Phases = steps.stages.marker

    def open(self, model: Any) -> AbstractContextManager[object]:
        """Mark the optimizer, which is not PyTorch's."""
        phases, optimizer = self._phases, getattr(model, "optimizer", None)
        return marked(optimizer, "apply", phases.optimizer_begins, phases.optimizer_ended)

    def close(self) -> None:
        """Mark no more."""
        self._marks.remove()


class TapeMarks:
    """Stages on TensorFlow, where a tape computes the gradients.

    Args:
        stages: Of the run.
    """

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._forward, self._backward, self._optimizer = map(
            stages.number, ("forward", "backward", "optimizer")
        )

    @contextmanager
    def open(self, model: Any) -> Iterator[None]:
        """Mark calls of the model, of a tape's gradients, and of the optimizer."""
        import tensorflow as tf

        stages = self._stages
        name = "apply" if KERAS3 else "apply_gradients"
        optimizer = getattr(model, "optimizer", None)
        with ExitStack() as stack:
            for owner, call, begins, ends in (
                *((each, "call", self._called, nothing) for each in (model, *parts_of(model))),
                (optimizer, name, lambda: stages.mark(self._optimizer), lambda: stages.mark(0)),
            ):
                stack.enter_context(marked(owner, call, begins, ends))
            original = tf.GradientTape.gradient
            tf.GradientTape.gradient = marking(original, lambda: stages.mark(self._backward), nothing)
            stack.callback(setattr, tf.GradientTape, "gradient", original)
            yield

    def _called(self) -> None:
        if self._stages.running == 0:
            self._stages.mark(self._forward)

    def close(self) -> None:
        """Mark no more; everything has been undone after each batch."""


def parts_of(model: Any) -> list[Any]:
    """Return the models and layers that a model has as attributes, which a ``train_step`` may call."""
    return list(getattr(model, "layers", ()))


@contextmanager
def marked(owner: Any, name: str, begins: Marking, ends: Marking) -> Iterator[None]:
    """Mark a method of one object for as long as this is open; a copy of the object is not affected."""
    own = owner is not None and hasattr(owner, name) and name not in vars(owner)
    if own:
        vars(owner)[name] = marking(getattr(owner, name), begins, ends)
    try:
        yield
    finally:
        if own:
            vars(owner).pop(name, None)


def marking(call: Callable[..., Any], begins: Marking, ends: Marking) -> Callable[..., Any]:
    """Return a function that does what it did between two marks."""

    @wraps(call)
    def calling(*arguments: Any, **named: Any) -> Any:
        begins()
        try:
            return call(*arguments, **named)
        finally:
            ends()

    return calling


def eager(model: Any) -> bool:
    """Return whether the model and its optimizer are called in Python for every batch."""
    backend = keras.backend.backend()
    if backend == "torch":
        return not getattr(model, "jit_compile", False)
    return backend == "tensorflow" and bool(getattr(model, "run_eagerly", False))
