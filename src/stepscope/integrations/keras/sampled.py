"""When a compiled step measures, and how its results are recorded: the part outside of the step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import keras
import numpy as np

from stepscope.errors import RecordError
from stepscope.record import Run
from stepscope.record.protocol import Hook
from stepscope.record.statistics import GradientHook
from stepscope.record.statistics.hooks import record
from stepscope.record.statistics.sampling import ReadyPace, Sampling, SamplingBudget
from stepscope.record.statistics.table import Round, Rounds, StatisticsTable

OFF, NORM, FULL, HISTOGRAMS = range(4)
"""Levels: what is measured in a step."""
KINDS = ("norm", "norm", "full", "histograms")
"""Names of the levels for the pace; a step that measures nothing takes no longer than one with norms."""
NOTHING_CLIPS = -1.0
"""Value in place of the norm after clipping."""


class Left(Protocol):
    """The results of a step; reading them may wait for the step."""

    def number(self) -> int:
        """Return the count of steps that were measured until then."""

    def norms(self) -> tuple[float, float | None]:
        """Return the norm of the gradient, and that after clipping if something clips."""

    def tables(self) -> dict[str, StatisticsTable]:
        """Return the tables by kind."""


class SampledSteps:
    """Decides what to measure in each step of a run, and records it.

    Args:
        hook: Says what, when and of which parameters.
    """

    mixins: tuple[type, ...] = ()

    def __init__(self, hook: GradientHook) -> None:
        self.hook = hook
        self.level, self.part = OFF, 0
        self.optimizer: Any = None
        self.names: list[str] = []
        self.sizes: list[int] = []
        self.rows: dict[Any, int] = {}
        self.trained: list[Any] = []
        self.whole = True
        self._run: Run | None = None
        self._passes: int | None = None

    # --- what a backend gives -----------------------------------------------------------------------

    def make(self) -> None:
        """Create what a backend needs for these rows."""

    def wrapped_in(self, optimizer: Any) -> None:
        """Take the optimizer that contains this one."""

    def told(self, level: int, part: int) -> None:
        """Set the level of the next step's measurement, and the part of the parameters."""

    def left(self, level: int) -> Left | None:
        """Return what the last step left; with ``OFF`` only its number is asked for."""
        raise NotImplementedError

    def budget(self, sampling: Sampling) -> SamplingBudget:
        """Return what keeps samples within their share of the time: here one process decides for all."""
        return SamplingBudget(self.hook, sampling)

    # --- the optimizer ------------------------------------------------------------------------------

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Take the variables that the optimizer trains."""
        self.optimizer = optimizer
        wanted = [each for each in variables if sized(each) and self.hook.wants(name_of(each), each)]
        self.names, self.sizes = [name_of(each) for each in wanted], [sized(each) for each in wanted]
        self.rows = {optimizer._var_key(each): row for row, each in enumerate(wanted)}
        self.trained, self.whole = wanted, len(wanted) == len(variables)
        self.make()

    def in_rows(self, variables: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Return values of variables in the order of the rows, None if there is none."""
        found: list[Any] = [None] * len(self.names)
        for variable, value in zip(variables, values, strict=True):
            row = self.rows.get(self.optimizer._var_key(variable))
            if row is not None:
                found[row] = value
        return found

    # --- the run ------------------------------------------------------------------------------------

    def attach(self, run: Run) -> None:
        """Record into a run from its next step on."""
        if self._run is run:
            return
        self._run, self._sampling = run, self.hook.sampling()
        self._rounds = Rounds(lambda round_: round_.done and round_.done(), failed=self._post)
        self._pace, self._budget = ReadyPace(), self.budget(self._sampling)
        self._seen, self._passes = 0, None
        self._applies = self._timed = False
        if self.hook not in run.hooks:
            run.add_hook(self.hook)
        self.hook.parts.append(self)
        run.add_hook(StepMeter(self))

    def finish(self, timeout: float) -> None:
        """Record what is measured already."""
        self._budget.close()
        self._rounds.close(timeout)
        self._run = None
        self.level = OFF

    def begin_step(self, step: int) -> None:
        """Choose what to measure in a step, if the optimizer takes a step in it."""
        self._budget.asked(step)
        level = NORM if self.hook.norm_every_step else OFF
        self._applies = self._updates(step)
        if self._applies and self._sampling.due(step):
            level = HISTOGRAMS if self._sampling.histogram_due(step) else FULL
            self.part = self._sampling.turn(step, self.hook.rotate)
        self.level = level
        self._timed = level != OFF or self._budget.near(step)
        self.told(level, self.part)

    def end_step(self, step: int) -> None:
        """Take what a step left."""
        run, level = self._run, self.level
        if run is None or not self._timed or self._rounds.full:
            return
        if not (run.role.writes or (self._budget.shared and self._budget.bounded)):
            return
        found = self.left(level)
        if found is not None:
            kind = KINDS[level] if self._applies else "accumulates"
            program = f"{kind}:{self.part}" if level >= FULL else kind
            round_ = Round(step, StatisticsTable(0), level >= FULL)
            round_.done = lambda: self._take(run, step, level, found, kind, program)
            self._rounds.put(round_)

    def _updates(self, step: int) -> bool:
        """Return whether accumulated gradients are applied in a step; the count begins with the run's."""
        parts = getattr(self.optimizer, "gradient_accumulation_steps", None) or 1
        if parts == 1:
            return True
        if self._passes is None:
            self._passes = step - int(np.asarray(keras.ops.convert_to_numpy(self.optimizer._iterations)))
        return (step - self._passes + 1) % parts == 0

    def _take(self, run: Run, step: int, level: int, found: Left, kind: str, program: str) -> None:
        """Record, on the thread that may wait for the device."""
        number = found.number()
        self._pace.ready(step, kind, program)
        if level >= FULL:
            self._budget.spent(step, self._pace.sample_seconds, self._pace.step_seconds)
        if number != self._seen and run.role.writes and level != OFF:  # else the optimizer took no step
            self._write(run, step, level, found)
        self._seen = number

    def _write(self, run: Run, step: int, level: int, found: Left) -> None:
        norm, clipped = found.norms()
        tables = found.tables() if level >= FULL else {}
        whole = self.whole and self.hook.rotate == 1
        record(run, self.hook, step, self.names, tables, norm=norm, clipped=clipped, whole=whole)

    def _post(self, reason: str, words: str, hint: str, over: bool) -> None:
        error = RecordError(f"gradient statistics: {words}", hint=hint or "the training is not affected")
        if self._run is not None:
            self._run.report(reason, error, later=True)


class StepMeter(Hook):
    """Tells a meter of a run's steps.

    Args:
        meter: The meter.
    """

    ranks = "all"

    def __init__(self, meter: SampledSteps) -> None:
        self._meter = meter

    def before_step(self, step: int) -> None:
        """Choose what to measure."""
        self._meter.begin_step(step)

    def after_step(self, step: int) -> None:
        """Take what was measured."""
        self._meter.end_step(step)


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
    """Put a class before that of an object, keeping its name so that it is saved as what it was."""
    kind = type(one)
    words = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    mixins = dict.fromkeys((mixin, *one._stepscope.mixins))
    one.__class__ = type(kind.__name__, (*mixins, kind), words)
