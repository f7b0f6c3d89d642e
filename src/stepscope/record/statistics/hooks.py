"""The hooks that choose what to measure, and the resulting series; an integration measures."""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import RecordError, UsageError
from stepscope.kernels.steps import MAX_STEP, Rest
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import integer, positive, share
from stepscope.record.protocol import Hook
from stepscope.record.statistics.sampling import DENSE_STEPS, Sampling
from stepscope.record.statistics.table import (
    COUNT,
    NONFINITE,
    SQUARES,
    STATISTICS,
    Array,
    StatisticsTable,
    StatisticsWriter,
    finish,
    total_norm,
)

if TYPE_CHECKING:
    from stepscope.record.run import Run

Layers = str | Callable[..., bool] | None
STATS = (*STATISTICS, "histogram")
OF = ("gradients", "weights", "updates")
ACTIVATION_STATS = (
    "mean",
    "std",
    "min",
    "max",
    "fraction_of_zero_values",
    "saturation_ratio",
    "dead_ratio",
    "nonfinite_count",
    "histogram",
)
FINISH_SECS = 5.0
SILENT_TURNS = 3
"""Steps whose turn it was, after which a hook that has nothing to measure says so."""
ATTACH = {
    "keras": "compile the model with stepscope.integrations.keras.measured(optimizer, hook)",
    "torch": "call stepscope.integrations.torch.watch(model, optimizer, run) once the hook is in it",
    "jax": "call stepscope.integrations.jax.watch(run, hook), and record what measure(…) returns",
}
"""How to give a hook something to measure in each framework."""


def how_to_attach(imported: Container[str]) -> str:
    """Return the instructions for the frameworks that are imported, or for PyTorch if none is."""
    hints = [text for name, text in ATTACH.items() if name in imported]
    return "; or ".join(hints or [ATTACH["torch"]])


class AttachedPart(Protocol):
    """A part that an integration attached to a model or an optimizer for a hook."""

    def finish(self, timeout: float) -> None:
        """Record the measurements so far, waiting at most this many seconds, and stop measuring."""


class StatisticsHook(Hook):
    """The common base of the hooks of this module: when they measure, and which layers.

    Args:
        every_n_steps: Distance of measured steps in the long run.
        layers: Which layers: a regular expression that is searched in the name, or a function of the name and
            the parameter or module; None for all.
        stats: Which statistics; None for all.
        known: The statistics that exist.
        histograms_every: Distance in steps of samples with histograms; None for ten times ``every_n_steps``,
            0 for none.
        dense_steps: How many first steps are all measured, before the distance grows to ``every_n_steps``.
        probability: With which a step of those is measured; the same steps on all ranks.
        rotate: Number of parts into which the layers are divided; each sample measures one part.
        max_overhead: Share of the time that measuring may take, from 0 to 1; beyond it the distances are
            multiplied, by the same number on all ranks. None for no bound.
        steps: Further steps to measure, a function of the number; it must say the same on all ranks.
    """

    ranks = "all"
    _rest: Rest
    kind = "statistics"
    """Name of its statistics, in the plural."""

    def __init__(
        self,
        every_n_steps: int,
        *,
        layers: Layers,
        stats: Iterable[str] | None,
        known: tuple[str, ...],
        histograms_every: int | None,
        dense_steps: int,
        probability: float,
        rotate: int,
        max_overhead: float | None,
        steps: Callable[[int], bool] | None,
    ) -> None:
        self.every_n_steps = positive("every_n_steps", every_n_steps) or 1
        self.histograms_every = (
            10 * self.every_n_steps
            if histograms_every is None
            else integer("histograms_every", histograms_every)
        )
        self.stats = chosen("stats", stats, known)
        if "histogram" not in self.stats:
            self.histograms_every = 0
        self.dense_steps = integer("dense_steps", dense_steps)
        self.probability = share("probability", probability)
        self.rotate = positive("rotate", rotate) or 1
        self.max_overhead = None if max_overhead is None else share("max_overhead", max_overhead)
        self.steps = steps
        self._layers = layer_test(layers)
        self.run: Run | None = None
        self.parts: list[AttachedPart] = []
        self._samplings: weakref.WeakSet[Sampling] = weakref.WeakSet()
        self._rest: Rest = Rest()
        self._turns = Sampling(self.every_n_steps, dense_steps=self.dense_steps)
        self._missed: list[int] = []

    def sampling(self) -> Sampling:
        """Return a new count of which steps are measured."""
        made = Sampling(
            self.every_n_steps,
            histograms_every=self.histograms_every,
            dense_steps=self.dense_steps,
            probability=self.probability,
            wanted=self.steps,
        )
        self._samplings.add(made)
        return made

    def sampled(self, steps: range) -> list[int]:
        """Return which of the steps to come will be measured, in order."""
        return sorted({step for sampling in tuple(self._samplings) for step in sampling.sampled(steps)})

    def wants(self, name: str, layer: Any) -> bool:
        """Return whether a layer is measured."""
        return self._layers(name, layer)

    def begin(self, run: Run) -> None:
        """Know the run."""
        self.run = run

    def after_step(self, step: int) -> None:
        """Say so if there is still nothing to measure after some steps whose turn it was."""
        if self.run is None or not self.run.role.writes:
            return
        is_silent = len(self._missed) == SILENT_TURNS
        if self.parts:
            if is_silent:
                self.run.measured_again(self.kind, step)
            if type(self).before_step is Hook.before_step:  # a resting hook is not called before steps either
                self._rest.until(MAX_STEP)
        elif not is_silent and self._turns.due(step):
            self._missed.append(step)
            if len(self._missed) == SILENT_TURNS:
                why = f"{type(self).__name__} has nothing to measure; {how_to_attach(sys.modules)}"
                self.run.unmeasured(self.kind, why, self._missed[0])

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Record the measurements so far."""
        if not self.parts and run.current_step is not None and len(self._missed) < SILENT_TURNS:
            kind = type(self).__name__
            error = RecordError(
                f"{kind} had nothing to measure",
                hint=how_to_attach(sys.modules),
                path=run.log_dir,
            )
            run.report("watch", error, points=0)
        parts, self.parts = self.parts, []
        for part in parts:
            part.finish(deadline.left(FINISH_SECS if status == "finished" else 1.0))


class GradientHook(StatisticsHook):
    """Measures gradients, weights and updates of a model, for the whole job, however it is sharded.

    In every step: the norm of the whole gradient, and whether it is finite. Every ``every_n_steps`` steps,
    for the gradient, weight and update of each parameter: norm, mean, standard deviation, minimum, maximum,
    share of zeros and number of non-finite values, and the ratio of update to weight; less often their
    histograms.

    Add it to a run, and tell it about a model with ``integrations.torch.watch`` or its equivalent in your
    framework.

    Args:
        every_n_steps: Distance between measured steps in the long run; steps are those of the run, or those
            of the optimizer if the run counts none.
        layers: Which parameters: a regular expression to search for in the name, a function of name and
            parameter, or None for all. The norm of the whole gradient always covers all parameters.
        stats: Any of ``norm mean std min max zero_ratio nonfinite_count histogram``; None for all.
        of: Any of ``gradients weights updates``.
        histograms_every: Distance in steps between samples with histograms; None for ten times
            ``every_n_steps``, 0 for none.
        norm_every_step: Whether to record the norm of the whole gradient in every step; None for as many
            steps as ``max_overhead`` allows, if one process trains a model of PyTorch, and else in samples.
        noise_scale: Whether to estimate the gradient noise scale if the gradients of single ranks can be seen
            before they are reduced, as in DistributedDataParallel.
        dense_steps: The number of steps at the beginning that are all measured, before the distance grows to
            ``every_n_steps``.
        probability: The probability with which each of these steps is measured; the same steps on all ranks.
        rotate: The number of parts into which parameters are divided; each sample measures one part.
        max_overhead: The share of the time that measuring may take, from 0 to 1; beyond it the distances are
            multiplied by the same number on all ranks. None for no limit.
        steps: Additional steps to measure: a function of the step number that returns the same on all ranks.

    Raises:
        UsageError: An argument is invalid.
    """

    def __init__(
        self,
        every_n_steps: int = 50,
        *,
        layers: Layers = None,
        stats: Iterable[str] | None = None,
        of: Iterable[str] = OF,
        histograms_every: int | None = None,
        norm_every_step: bool | None = True,
        noise_scale: bool = True,
        dense_steps: int = DENSE_STEPS,
        probability: float = 1.0,
        rotate: int = 1,
        max_overhead: float | None = 0.01,
        steps: Callable[[int], bool] | None = None,
    ) -> None:
        super().__init__(
            every_n_steps,
            layers=layers,
            stats=stats,
            known=STATS,
            histograms_every=histograms_every,
            dense_steps=dense_steps,
            probability=probability,
            rotate=rotate,
            max_overhead=max_overhead,
            steps=steps,
        )
        self.kind = "gradients"
        self.of = chosen("of", of, OF)
        self.norm_every_step = None if norm_every_step is None else bool(norm_every_step)
        self.noise_scale = bool(noise_scale)


class ActivationHook(StatisticsHook):
    """Measures the outputs of layers in training mode.

    For the output of each layer: mean, standard deviation, minimum, maximum, ``fraction_of_zero_values`` and
    the number of non-finite values; for sigmoids and tanhs the share of saturated values; for ReLUs and
    similar layers the share of units whose outputs were all zero in the last ``window`` samples; less often a
    histogram. Statistics cover the outputs of the whole job.

    Args:
        every_n_steps: Distance between measured steps in the long run.
        layers: Which layers: a regular expression to search for in the module's name, or a function of name
            and module; None for all layers that contain no other module.
        stats: Any of ``mean std min max fraction_of_zero_values saturation_ratio dead_ratio nonfinite_count
            histogram``; None for all.
        histograms_every: Distance in steps between samples with histograms; None for ten times
            ``every_n_steps``, 0 for none.
        window: The number of samples for which a unit must be silent to count as dead.
        saturated: The magnitude from which on the output of a tanh counts as saturated; for a sigmoid, the
            distance from 0.5 relative to 0.5.
        dense_steps: The number of steps at the beginning that are all measured, before the distance grows to
            ``every_n_steps``.
        probability: The probability with which each of these steps is measured.
        rotate: The number of parts into which layers are divided; each sample measures one part.
        max_overhead: The share of the time that measuring may take, from 0 to 1; None for no limit.
        steps: Additional steps to measure: a function of the step number.

    Raises:
        UsageError: An argument is invalid.
    """

    def __init__(
        self,
        every_n_steps: int = 100,
        *,
        layers: Layers = None,
        stats: Iterable[str] | None = None,
        histograms_every: int | None = None,
        window: int = 10,
        saturated: float = 0.99,
        dense_steps: int = DENSE_STEPS,
        probability: float = 1.0,
        rotate: int = 1,
        max_overhead: float | None = 0.01,
        steps: Callable[[int], bool] | None = None,
    ) -> None:
        super().__init__(
            every_n_steps,
            layers=layers,
            stats=stats,
            known=ACTIVATION_STATS,
            histograms_every=histograms_every,
            dense_steps=dense_steps,
            probability=probability,
            rotate=rotate,
            max_overhead=max_overhead,
            steps=steps,
        )
        self.kind = "activations"
        self.all_layers = layers is None
        self.window = positive("window", window) or 1
        self.saturated = share("saturated", saturated)


def chosen(name: str, wanted: Iterable[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Return a choice among known words, in their order."""
    if wanted is None:
        return known
    words = [wanted] if isinstance(wanted, str) else list(wanted)
    wrong = [word for word in words if word not in known]
    if wrong or not words:
        problem = (
            f"{name} must be of {', '.join(known)}; got {wrong[0]!r:.40}" if wrong else f"{name} is empty"
        )
        raise UsageError(problem, hint=f"{name}={known[:2]!r}")
    return tuple(word for word in known if word in words)


def layer_test(layers: Layers) -> Callable[[str, Any], bool]:
    """Return a function that says whether a name and its layer are wanted."""
    if layers is None:
        return lambda name, layer: True
    if isinstance(layers, str):
        try:
            search = re.compile(layers).search
        except re.error as error:
            raise UsageError(
                f"layers is not a regular expression: {error}: {layers!r:.60}", hint=r"layers=r'\.weight$'"
            ) from error
        return lambda name, layer: search(name) is not None
    if not callable(layers):
        raise UsageError(
            f"layers must be a regular expression or a function, got {type(layers).__name__}",
            hint="layers=lambda name, parameter: parameter.ndim > 1",
        )
    test = layers
    return lambda name, layer: bool(test(name, layer))


# --- what they measured, as series ------------------------------------------------------------------


class ActivationReport:
    """Records the statistics of samples of a model's layers.

    Args:
        run: The run to record into.
        stats: Which statistics.
        window: How many samples a unit must be silent to count as dead.
    """

    def __init__(self, run: Run, stats: Sequence[str], window: int) -> None:
        self._writer, self._window = StatisticsWriter(run, stats), window
        self._silent: dict[str, NDArray[np.int64]] = {}
        self._samples: dict[str, int] = {}

    def take(
        self,
        step: int,
        names: Sequence[str],
        table: StatisticsTable,
        *,
        saturated: Mapping[str, float],
        active: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """Record a sample.

        Args:
            step: When.
            names: Names of the layers, which are the rows.
            table: Statistics of their outputs; rows of layers without output are empty.
            saturated: Share of saturated outputs, of layers that can saturate.
            active: Which units put out anything but zeros, of layers whose units can be dead.
        """
        values = dict(finish(table.moments))
        values["fraction_of_zero_values"] = values["zero_ratio"]
        numbers = {
            f"activations/{names[row]}/{stat}": float(values[stat][row])
            for row in np.flatnonzero(table.moments[:, COUNT]).tolist()
            for stat in self._writer.stats
            if stat in values
        }
        dead = {}
        for name, units in active.items():
            share = self._dead(name, units)
            if share is not None:
                dead[name] = share
        for stat, ratios in (("saturation_ratio", saturated), ("dead_ratio", dead)):
            if stat in self._writer.stats:
                numbers.update({f"activations/{name}/{stat}": ratio for name, ratio in ratios.items()})
        self._writer.numbers(numbers, step)
        self._writer.histograms("activations", names, table.counts, step)

    def _dead(self, name: str, active: NDArray[np.bool_]) -> float | None:
        """Return the share of units that were silent for the last samples; None before there were enough."""
        silent = self._silent.get(name)
        if silent is None or len(silent) != len(active):
            silent, self._samples[name] = np.zeros(len(active), np.int64), 0
        self._samples[name] += 1
        self._silent[name] = silent = np.where(active, 0, silent + 1)
        return float((silent >= self._window).mean()) if self._samples[name] >= self._window else None


def record(
    writer: StatisticsWriter,
    hook: GradientHook,
    step: int,
    names: Mapping[str, Sequence[str]],
    tables: Mapping[str, StatisticsTable],
    *,
    norm: float | None,
    clipped: float | None = None,
    whole: bool = True,
) -> None:
    """Record the measurements of a step.

    Args:
        writer: Of the run to record into.
        hook: Chooses the quantities.
        step: When.
        names: Of the rows of each table.
        tables: By kind: gradients, weights, updates; none if only norms were measured.
        norm: Norm of the whole gradient; None if it was not measured.
        clipped: The same after clipping; None if nothing clips.
        whole: Whether the rows are all parameters, so that their sums are the model's.
    """
    moments = {kind: table.moments for kind, table in tables.items()}
    writer.numbers({**norms(tables, norm, clipped, whole), **(totals(moments) if whole else {})}, step)
    for kind, table in tables.items():
        if kind in hook.of:
            writer.rows(kind, names[kind], table.moments, step)
            writer.histograms(kind, names[kind], table.counts, step)
    if "weights" in tables and "updates" in tables and names["weights"] == names["updates"]:
        writer.numbers(ratios(names["weights"], moments["weights"], moments["updates"]), step)


def norms(
    tables: Mapping[str, StatisticsTable], norm: float | None, clipped: float | None, whole: bool
) -> dict[str, float]:
    """Return the numbers about the whole gradient."""
    numbers = {}
    if norm is not None:
        numbers["gradients/norm"] = norm
    if clipped is not None:
        numbers["gradients/clipped_norm"] = clipped
    if norm is not None and np.isfinite(norm):
        numbers["gradients/nonfinite_count"] = 0.0
    elif whole and "gradients" in tables:
        numbers["gradients/nonfinite_count"] = float(tables["gradients"].moments[:, NONFINITE].sum())
    return numbers


def totals(moments: Mapping[str, Array], name: str = "") -> dict[str, float]:
    """Return the norms of all weights and updates, as far as they were measured, and their ratio.

    Args:
        moments: By kind, one row for each parameter.
        name: Stands before the statistic's name.
    """
    kinds = [kind for kind in ("weights", "updates") if kind in moments and moments[kind][:, COUNT].any()]
    norms = {kind: total_norm(moments[kind]) for kind in kinds}
    numbers = {f"{kind}/{name}norm": norm for kind, norm in norms.items()}
    if len(norms) == 2 and norms["weights"] > 0:
        ratio = f"{name}weight_ratio"
        numbers[f"updates/{ratio}"] = norms["updates"] / norms["weights"]
    return numbers


def ratios(names: Sequence[str], weights: Array, updates: Array) -> dict[str, float]:
    """Return the norm of each update over that of the weight before it, from the moments of both."""
    some = np.flatnonzero((weights[:, SQUARES] > 0) & (updates[:, COUNT] > 0))
    shares = np.sqrt(updates[some, SQUARES] / weights[some, SQUARES]).tolist()
    return {
        f"updates/{names[at]}/weight_ratio": share for at, share in zip(some.tolist(), shares, strict=True)
    }
