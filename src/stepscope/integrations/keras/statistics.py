"""When a compiled step measures gradients or outputs of layers, and how its results are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import keras
import numpy as np

from stepscope.errors import RecordError
from stepscope.integrations.guard import report_raised
from stepscope.record import Run
from stepscope.record.problems import Reporter
from stepscope.record.protocol import Hook
from stepscope.record.statistics import ActivationHook, GradientHook
from stepscope.record.statistics.hooks import ActivationReport, StatisticsHook, record
from stepscope.record.statistics.sampling import ReadyPace, Sampling, SamplingBudget
from stepscope.record.statistics.table import (
    FULL,
    HISTOGRAMS,
    NORM,
    OFF,
    Round,
    Rounds,
    StatisticsTable,
    StatisticsWriter,
    StepResult,
)

KERAS3 = not keras.__version__.startswith("2.")
KINDS = ("norm", "norm", "full", "histograms")
"""Names of the levels for the pace; a step that measures nothing takes no longer than one with norms."""
SILENT = ("relu", "relu6", "hard_swish", "hard_silu", "threshold")
BOUNDED = ("tanh", "sigmoid", "hard_tanh", "hard_sigmoid")
NAMES = {"ReLU": "relu"}
"""Activation layers without a function of that name."""
See = Callable[[str, Any], None]


class SampledSteps(Hook):
    """Chooses the measurements of each step, and has its results recorded once the device has them.

    Args:
        hook: Chooses the quantities and the steps.
        words: Names the measurement in a problem.

    Attributes:
        level: The level of the current step.
        part: Which part of the parameters or layers.
    """

    ranks = "all"

    def __init__(self, hook: StatisticsHook, words: str) -> None:
        self.level, self.part, self.timed = OFF, 0, False
        self._words, self._settings = words, hook
        self._run: Run | None = None

    def budget(self, sampling: Sampling) -> SamplingBudget:
        """Return the budget of samples, a share of the time: here one process decides for all."""
        return SamplingBudget(self._settings, sampling)

    def start(self, run: Run) -> None:
        """Sample the steps of a run from the next one on."""
        self._run, self._sampling = run, self._settings.sampling()
        self._rounds = Rounds(lambda round_: round_.done and round_.done(), failed=self._failed)
        self._pace, self._budget = ReadyPace(), self.budget(self._sampling)

    def choose(self, step: int, otherwise: int, *, possible: bool = True) -> None:
        """Choose the level of a step.

        Args:
            step: Number of the step.
            otherwise: The level if no sample is due.
            possible: Whether there may be a sample.
        """
        self._budget.asked(step)
        self.level = otherwise
        if possible and self._sampling.due(step):
            self.level = HISTOGRAMS if self._sampling.histogram_due(step) else FULL
            self.part = self._sampling.turn(step, self._settings.rotate)
        self.timed = self.level != OFF or self._budget.near(step)

    def record_later(
        self, step: int, kind: str, wait: Callable[[], Any], write: Callable[[Any], None]
    ) -> None:
        """Record a step on the thread that may wait for the device.

        Args:
            step: Number of the step.
            kind: The level compiled into it, for the pace.
            wait: Returns when the step is done.
            write: Records the step; it is given the result of ``wait``.
        """
        sampled = self.level >= FULL
        program = f"{kind}:{self.part}" if sampled else kind

        def done() -> None:
            result = wait()
            self._pace.ready(step, kind, program)
            if sampled:
                self._budget.spent(step, self._pace.sample_seconds, self._pace.step_seconds)
            write(result)

        round_ = Round(step, StatisticsTable(0), sampled)
        round_.done = done
        self._rounds.put(round_)

    def finish(self, timeout: float) -> None:
        """Record the measurements so far, and stop measuring."""
        self.level, self.timed = OFF, False
        self._budget.close()
        self._rounds.close(timeout)

    def _failed(self, reason: str, words: str, hint: str, over: bool) -> None:
        if self._run is not None:
            error = RecordError(f"{self._words}: {words}", hint=hint or "the training is not affected")
            self._run.report(reason, error, later=True)


# --- gradients --------------------------------------------------------------------------------------


class GradientMeter(SampledSteps):
    """Measures an optimizer whose step is compiled.

    Args:
        hook: Chooses the quantities, the steps and the parameters.
    """

    mixins: tuple[type, ...] = ()

    def __init__(self, hook: GradientHook) -> None:
        super().__init__(hook, "gradient statistics")
        self.hook = hook
        self.optimizer: Any = None
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.rows: dict[Any, int] = {}
        self.trained: list[Any] = []
        self.whole = True
        self._passes: int | None = None

    # --- what a backend gives -----------------------------------------------------------------------

    def make(self) -> None:
        """Create a backend's objects for these rows."""

    def wrapped_in(self, optimizer: Any) -> None:
        """Take the optimizer that contains this one."""

    def request(self, level: int, part: int) -> None:
        """Set the level of the next step."""

    def result(self, level: int) -> StepResult | None:
        """Return the last step's measurements; with ``OFF`` only its number is asked for."""
        raise NotImplementedError

    # --- the optimizer ------------------------------------------------------------------------------

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Take the variables that the optimizer trains."""
        self.optimizer = optimizer
        wanted = [
            variable
            for variable in variables
            if sized(variable) and self.hook.wants(name_of(variable), variable)
        ]
        self.names, self.sizes = (
            [name_of(variable) for variable in wanted],
            [sized(variable) for variable in wanted],
        )
        self.rows = {optimizer._var_key(variable): row for row, variable in enumerate(wanted)}
        self.trained, self.whole = wanted, len(wanted) == len(variables)
        self.make()

    def in_rows(self, variables: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Return values of variables in the order of the rows, None if there is none."""
        rows: list[Any] = [None] * len(self.names)
        for variable, value in zip(variables, values, strict=True):
            row = self.rows.get(self.optimizer._var_key(variable))
            if row is not None:
                rows[row] = value
        return rows

    # --- the run ------------------------------------------------------------------------------------

    def attach(self, run: Run) -> None:
        """Record into a run from its next step on."""
        if self._run is run:
            return
        self.start(run)
        self._writer = StatisticsWriter(run, self.hook.stats)
        self._seen, self._passes, self._applies = 0, None, False
        if self.hook not in run.hooks:
            run.add_hook(self.hook)
        self.hook.parts.append(self)
        run.add_hook(self)

    def finish(self, timeout: float) -> None:
        """Record the measurements so far, and stop measuring."""
        super().finish(timeout)
        self._run = None

    def before_step(self, step: int) -> None:
        """Choose the level of a step, if the optimizer takes a step in it."""
        if self._run is None:
            return
        self._applies = self._updates(step)
        self.choose(step, NORM if self.hook.norm_every_step else OFF, possible=self._applies)
        self.request(self.level, self.part)

    def after_step(self, step: int) -> None:
        """Take the measurements of a step."""
        run, level = self._run, self.level
        if run is None or not self.timed or self._rounds.full:
            return
        if not (run.role.writes or (self._budget.shared and self._budget.bounded)):
            return
        result = self.result(level)
        if result is None:
            return

        def write(number: int) -> None:
            if number != self._seen and run.role.writes and level != OFF:  # else the optimizer took no step
                norm, clipped = result.norms()
                tables = result.tables() if level >= FULL else {}
                whole = self.whole and self.hook.rotate == 1
                names = dict.fromkeys(tables, self.names)
                record(self._writer, self.hook, step, names, tables, norm=norm, clipped=clipped, whole=whole)
            self._seen = number

        self.record_later(step, KINDS[level] if self._applies else "accumulates", result.number, write)

    def _updates(self, step: int) -> bool:
        """Return whether accumulated gradients are applied in a step; the count begins with the run's."""
        parts = getattr(self.optimizer, "gradient_accumulation_steps", None) or 1
        if parts == 1:
            return True
        if self._passes is None:
            self._passes = step - int(np.asarray(keras.ops.convert_to_numpy(self.optimizer._iterations)))
        return (step - self._passes + 1) % parts == 0


def name_of(variable: Any) -> str:
    """Return the name that a variable has in tags: that of the callback's weights."""
    return str(getattr(variable, "path", variable.name)).removesuffix(":0").replace(":", "_")


def sized(variable: Any) -> int:
    """Return how many numbers a variable holds, 0 if they are not numbers to measure."""
    kind = getattr(variable.dtype, "name", str(variable.dtype))
    if "float" not in kind and "complex" not in kind:
        return 0
    return int(np.prod([int(size) for size in variable.shape], dtype=np.int64)) * (
        2 if "complex" in kind else 1
    )


def become(one: Any, mixin: type) -> None:
    """Put a class before that of an object, keeping its name so that it is saved as before."""
    kind = type(one)
    words = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    mixins = dict.fromkeys((mixin, *one._stepscope.mixins))
    one.__class__ = type(kind.__name__, (*mixins, kind), words)


# --- outputs of layers ------------------------------------------------------------------------------


class Taps:
    """The layers of a model that are measured.

    Args:
        model: The model.
        hook: Says which of its layers: by default all that hold no other.
        reporter: Receives exceptions from looking at a layer.

    Attributes:
        names: Of the layers.
        rows: Their numbers by name.
        kinds: "relu" for layers whose units can be dead; "tanh", "sigmoid" for those that can be saturated.
    """

    def __init__(self, model: Any, hook: ActivationHook, reporter: Reporter) -> None:
        self._reporter = reporter
        wanted: dict[str, Any] = {}
        for name, layer in named(model, str(model.name)):
            leaf = not holds_layers(layer) and type(layer).__name__ != "InputLayer"
            if leaf if hook.all_layers else hook.wants(name, layer):
                wanted.setdefault(name, layer)
        self._layers = wanted
        self.names = list(wanted)
        self.rows = {name: row for row, name in enumerate(wanted)}
        self.kinds = {name: kind for name, layer in wanted.items() if (kind := kind_of(layer))}

    @contextmanager
    def open(self, see: See) -> Iterator[None]:
        """Call something with the name and the output of each layer, for as long as this is open.

        The training goes on, whatever it raises.
        """
        for name, layer in self._layers.items():
            layer.__dict__["call"] = tapped(layer.call, name, see, self._failed)
        try:
            yield
        finally:
            for layer in self._layers.values():
                layer.__dict__.pop("call", None)

    def _failed(self, error: Exception) -> None:
        report_raised(self._reporter, "measuring a layer", error)


def holds_layers(layer: Any) -> bool:
    """Return whether a layer consists of others, in Keras 3 or in Keras 2."""
    flatten = getattr(layer, "_flatten_layers", None)
    return any(member is not layer for member in flatten()) if flatten else False


def named(model: Any, scope: str) -> Iterator[tuple[str, Any]]:
    """Yield the layers of a model and of those within it, by names as in its graph."""
    for layer in getattr(model, "layers", ()):
        name = f"{scope}/{layer.name}"
        yield name, layer
        yield from named(layer, name)


def tapped(
    call: Callable[..., Any], name: str, see: See, failed: Callable[[Exception], None]
) -> Callable[..., Any]:
    """Return a function that calls a layer and looks at its output."""

    @wraps(call)
    def look(*arguments: Any, **named: Any) -> Any:
        result = call(*arguments, **named)
        try:
            out = first_array(result)
            if out is not None:
                see(name, out)
        except Exception as error:  # noqa: BLE001  the layer's own work is done
            failed(error)
        return result

    return look


def kind_of(layer: Any) -> str:
    """Return the kind of a layer by its activation, "" for one that cannot be dead or saturated."""
    function = getattr(layer, "activation", None)
    word = str(getattr(function, "__name__", "")) or NAMES.get(type(layer).__name__, "")
    if word in SILENT:
        return "relu"
    return word.removeprefix("hard_") if word in BOUNDED else ""


def first_array(result: Any) -> Any:
    """Return a layer's output, or the first of several; None for none of floating point."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, tuple | list):
        result = next((part for part in result if hasattr(part, "dtype")), None)
    dtype = getattr(result, "dtype", None)
    return result if "float" in str(getattr(dtype, "name", dtype)) else None


class ActivationMeter(SampledSteps):
    """Measures the outputs of a model's layers in training.

    Args:
        run: The run.
        hook: Chooses the quantities and the steps.
        taps: The layers that are measured.
    """

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps) -> None:
        super().__init__(hook, "activation statistics")
        self.hook, self.taps = hook, taps
        self._report = ActivationReport(run, hook.stats, hook.window)
        self._opened = ExitStack()
        self.start(run)

    def before_step(self, step: int) -> None:
        """Choose the level."""
        assert self._run is not None
        possible = self._budget.shared or (self._run.role.writes and not self._rounds.full)
        self.choose(step, OFF, possible=possible)
        self.timed = self.timed and possible

    def in_turn(self, name: str) -> bool:
        """Return whether a layer is in the part that is measured."""
        return self.taps.rows[name] % self.hook.rotate == self.part

    def report_later(
        self, step: int, wait: Callable[[], Any], write: Callable[[ActivationReport], None] | None
    ) -> None:
        """Report a sample once the device has it.

        Args:
            step: Number of the step.
            wait: Returns when the step is done.
            write: Reports the sample; None for a step that is only timed.
        """
        run = self._run
        if run is None or self._rounds.full:
            return

        def report(_: Any) -> None:
            if write is not None and run.role.writes:
                write(self._report)

        self.record_later(step, KINDS[self.level], wait, report)

    def finish(self, timeout: float) -> None:
        """Record the measurements so far, and stop measuring."""
        self._opened.close()
        super().finish(timeout)
