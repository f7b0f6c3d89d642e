"""The function that trains one batch, seen from outside: when it has its data, its results and exceptions.

``fit`` gives a callback only converted numbers, which makes each step wait for the device, and on JAX fetches
data between two callbacks. So the model's ``train_function`` is wrapped for as long as ``fit`` runs.

Its stages are measured by the host's clock. If Keras calls the model and its optimizer in Python for each
batch, they are those of a PyTorch loop: ``forward``, ``backward``, ``optimizer``, whichever part of the model
a ``train_step`` calls. Elsewhere the step is one compiled call, ``dispatch``: it ends when the call returns,
which on a device need not be when the device is done.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import Any, Protocol

import keras

from stepscope.integrations.guard import guarded
from stepscope.integrations.keras.gradients import measure_activations
from stepscope.integrations.keras.statistics import KERAS3
from stepscope.integrations.stepper import examples
from stepscope.kernels.steps import Stages, Steps
from stepscope.record import Run
from stepscope.record.problems import Reporter
from stepscope.record.statistics import ActivationHook


class Watcher(Protocol):
    """A watcher that is informed of batches."""

    def watch(self, train: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Train one batch and return the result of ``train``."""


class TrainFunction:
    """Stands in for a model's ``train_function``.

    It keeps no watcher alive: if an exception left ``fit``, it may stay on the model, and then does nothing.

    Args:
        inner: The function that trains.
        watcher: Who watches.
    """

    def __init__(self, inner: Callable[..., Any], watcher: Watcher) -> None:
        self.inner = inner
        self._watcher = weakref.ref(watcher)

    def __call__(self, *arguments: Any) -> Any:
        """Train one batch, watched if the watcher is still there."""
        watcher = self._watcher()
        return self.inner(*arguments) if watcher is None else watcher.watch(self.inner, arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["inner"], name)

    def watched_by(self, watcher: Watcher) -> bool:
        """Return whether this wrapper, or one inside it, has this watcher."""
        return self._watcher() is watcher or watched_by(self.inner, watcher)


def watched_by(function: object, watcher: Watcher) -> bool:
    """Return whether a function reports to this watcher already."""
    return isinstance(function, TrainFunction) and function.watched_by(watcher)


class BatchParts:
    """The batches of one ``fit``: their data, their stages, the outputs of their layers.

    Args:
        run: The run to record into.
        model: The model that is trained.
        wrapped: Whether the function that trains is called through ``TrainFunction``.
    """

    def __init__(self, run: Run, model: Any, *, wrapped: bool) -> None:
        self._run = self.reporter = run
        self._taps: list[Any] = []
        self._state: Any = None
        self.retrace = False
        """True if the function that trains must be traced again, with the measurements of layers."""
        self._stages: BatchStages | None = None
        if wrapped and run.step_counter.stages is not None:
            self._stages = BatchStages(run.step_counter, model, run)
        self._tap(model)

    @guarded
    def _tap(self, model: Any) -> None:
        """Let an ``ActivationHook`` of the run measure the model's layers."""
        if not any(isinstance(hook, ActivationHook) for hook in self._run.hooks):
            return
        made = measure_activations(self._run, model)
        self._taps = [tap for tap in made if hasattr(tap, "given")]
        self.retrace = bool(made)

    def given(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of the function that trains; data fetched inside is timed."""
        self._state = arguments[0] if arguments else None
        return self._timed(arguments) or arguments

    @guarded
    def _timed(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Time the data of JAX, which is fetched inside; count the examples if they can be seen."""
        if not arguments or keras.backend.backend() == "tensorflow":
            return arguments
        *before, data = arguments
        if keras.backend.backend() == "jax":
            return (*before, TimedIterator(data, self._run.clock.steady, self._fetched))
        self._run.count(examples=examples(data))
        return arguments

    def _fetched(self, seconds: float, batch: Any) -> None:
        steps = self._run.step_counter
        steps.waited = (steps.waited or 0.0) + seconds
        self._run.count(examples=examples(batch))
        state, self._state = self._state, None
        if state is not None and batch is not None:
            for tap in self._taps:
                tap.given(state, batch)

    def open(self) -> AbstractContextManager[None]:
        """Mark the stages of one call of the function that trains."""
        return nullcontext() if self._stages is None else self._stages.open()

    @guarded
    def taken(self, result: Any) -> None:
        """Pass the result of a batch to the observer of the layers."""
        for tap in self._taps:
            tap.taken(result[0])

    def close(self) -> None:
        """Mark no more stages."""
        if self._stages is not None:
            self._stages.close()


class TimedIterator:
    """An iterator of batches that says how long each took to come.

    Args:
        items: The batches.
        now: Steady time in seconds.
        took: Called with the seconds, and the batch if there was one.
    """

    def __init__(
        self, items: Iterator[Any], now: Callable[[], float], took: Callable[[float, Any], None]
    ) -> None:
        self._items, self._now, self._took = items, now, took

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        begun, item = self._now(), None
        try:
            item = next(self._items)
            return item
        finally:
            self._took(self._now() - begun, item)


Marking = Callable[[], object]


def nothing() -> None:
    """Mark nothing."""


class EagerMarks(Protocol):
    """Marks the stages of one backend whose calls are seen in Python."""

    def open(self, model: Any) -> AbstractContextManager[object]:
        """Mark the stages of one call of the function that trains."""

    def close(self) -> None:
        """Stop marking."""


class BatchStages:
    """Marks the stages of the batches of one ``fit``.

    Args:
        steps: The steps of the run.
        model: The model that is trained.
        reporter: Warns the user if marking fails.
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
    """Stages on PyTorch: layers are its modules and gradients those of autograd.

    Args:
        steps: The steps of the run.
        model: The model that is trained.
        reporter: Warns the user if marking fails.
    """

    def __init__(self, steps: Steps, model: Any, reporter: Reporter) -> None:
        from stepscope.integrations.torch.stages import StageMarks
        from stepscope.kernels.marks import Phases

        assert steps.stages is not None
        self._marks = StageMarks(steps, model, (), None, reporter)
        self._phases: Phases = steps.stages.marker

    def open(self, model: Any) -> AbstractContextManager[object]:
        """Mark the optimizer, which is not PyTorch's."""
        phases, optimizer = self._phases, getattr(model, "optimizer", None)
        return marked(optimizer, "apply", phases.optimizer_begins, phases.optimizer_ended)

    def close(self) -> None:
        """Stop marking."""
        self._marks.remove()


class TapeMarks:
    """Stages on TensorFlow: a tape computes the gradients.

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
                *((part, "call", self._called, nothing) for part in (model, *parts_of(model))),
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
    """Return a function wrapped in two marks."""

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
