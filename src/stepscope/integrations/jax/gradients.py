"""When to measure in JAX, and how results are recorded; and statistics in an optax state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from stepscope.errors import RecordError, UsageError
from stepscope.integrations.jax.statistics import MeasuredTree, measure, parts_of
from stepscope.integrations.jax.store import budget
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook, GradientHook
from stepscope.record.statistics.hooks import ActivationReport, StatisticsHook, record
from stepscope.record.statistics.sampling import ReadyPace, Sampling, SamplingBudget
from stepscope.record.statistics.table import (
    Round,
    Rounds,
    StatisticsTable,
    StatisticsWriter,
)


class Watched:
    """Chooses and records the measurements of each step, for the run's ``GradientHook``.

    An ``ActivationHook`` of the run adds the layers whose activations are recorded, and further steps.

    Args:
        run: The run.
        hook: Chooses the quantities, the steps and the layers; None for the one that takes part in the run.
    """

    def __init__(self, run: Run, hook: GradientHook | None = None) -> None:
        given = next((candidate for candidate in run.hooks if isinstance(candidate, GradientHook)), None)
        if hook is None and given is None:
            hook = GradientHook()
        if hook is not None and hook not in run.hooks:
            run.add_hook(hook)
        self._run, self._hook = run, hook or given or GradientHook()
        self._taps = next(
            (candidate for candidate in run.hooks if isinstance(candidate, ActivationHook)), None
        )
        self._sampling = self._hook.sampling()
        self._tapping = None if self._taps is None else self._taps.sampling()
        self._writer = StatisticsWriter(run, self._hook.stats)
        taps = self._taps or ActivationHook()
        self._saturated = taps.saturated
        self._activations = ActivationReport(run, taps.stats, taps.window)
        self._rounds = Rounds(lambda round_: round_.done and round_.done(), failed=self._post)
        self._pace = ReadyPace()
        self._budget: SamplingBudget | None = None
        self._hook.parts.append(self)
        if self._taps is not None:
            self._taps.parts.append(self)

    def level(self, step: int) -> str:
        """Return the level of measuring in a step, for the static argument; asking marks the step.

        Args:
            step: Its number. All processes must ask with the same numbers.
        """
        samplings = [sampling for sampling in (self._sampling, self._tapping) if sampling is not None]
        if self._budget is None:  # not before the loop: by now the processes know of each other
            self._budget = budget(self._hook, *samplings, failed=self._post)
        self._budget.asked(step)
        marked_due = [(sampling, sampling.due(step)) for sampling in samplings]
        due = [sampling for sampling, is_due in marked_due if is_due]
        if not due:
            return "norm" if self._hook.norm_every_step else "off"
        marked = [sampling.histogram_due(step) for sampling in due]  # of each, for asking marks
        word = "histograms" if any(marked) else "full"
        turns = [turn_of(self._sampling, self._hook, step)]
        if self._tapping is not None and self._taps is not None and self._taps.rotate > 1:
            turns.append(turn_of(self._tapping, self._taps, step))
        return word if turns == ["0/1"] else f"{word}:{','.join(turns)}"

    def measure(
        self, level: str, *, activations: Mapping[str, Any] | None = None, **trees: Any
    ) -> MeasuredTree | None:
        """Compute the hook's statistics of trees of arrays, inside the jitted step: see ``measure``."""
        wanted = {name: tree for name, tree in trees.items() if self._wants(name)}
        tapped = activations
        if activations is not None:
            wants = (self._taps or self._hook).wants
            tapped = {name: activation for name, activation in activations.items() if wants(name, activation)}

        def layers(name: str, array: Any) -> bool:
            return (tapped is not None and array is tapped.get(name)) or self._hook.wants(name, array)

        return measure(level, layers=layers, activations=tapped, saturated=self._saturated, **wanted)

    def record(self, measured: MeasuredTree | None, step: int) -> None:
        """Record the result of a step, without waiting.

        Args:
            measured: The result of ``measure``.
            step: Its number.
        """
        shared = self._budget is not None and self._budget.shared and self._budget.bounded
        if measured is None or self._rounds.full or not (self._run.role.writes or shared):
            return
        round_ = Round(step, StatisticsTable(0), measured.level != "norm")
        round_.done = lambda: self._take(measured, step)
        self._rounds.put(round_)

    def finish(self, timeout: float) -> None:
        """Record the measurements so far."""
        if self._budget is not None:
            self._budget.close()
        self._rounds.close(timeout)

    def _wants(self, name: str) -> bool:
        return name not in ("weights", "updates") or name in self._hook.of

    def _take(self, measured: MeasuredTree, step: int) -> None:
        """Record, on the thread that may wait for the device."""
        word, _ = parts_of(measured.level)
        if measured.norm is not None:
            np.asarray(addressable(measured.norm))
        self._pace.ready(step, word, measured.level)
        if self._run.role.writes:
            self._write(measured, step)
        if word != "norm" and self._budget is not None:
            self._budget.spent(step, self._pace.sample_seconds, self._pace.step_seconds)

    def _write(self, measured: MeasuredTree, step: int) -> None:
        norm, clipped, loss = (
            None if value is None else float(addressable(value))
            for value in (measured.norm, measured.clipped, measured.loss)
        )
        if loss is not None:
            self._run.scalar("train/loss", loss, step)
        kinds = [kind for kind in measured.rows if kind != "activations"]
        tables = {kind: here(measured.rows[kind]).table() for kind in kinds}
        names = {kind: measured.rows[kind].names for kind in kinds}
        whole = measured.whole
        record(self._writer, self._hook, step, names, tables, norm=norm, clipped=clipped, whole=whole)
        if "activations" in measured.rows:
            record_activations(self._activations, measured, step)

    def _post(self, reason: str, words: str, hint: str, over: bool) -> None:
        error = RecordError(f"gradient statistics: {words}", hint=hint or "return them from the jitted step")
        self._run.report(reason, error, later=True)


def watch(run: Run, hook: GradientHook | None = None) -> Watched:
    """Return a ``Watched``, which decides when to measure and records the results.

    Args:
        run: The run.
        hook: As for ``Watched``.
    """
    return Watched(run, hook)


def turn_of(sampling: Sampling, hook: StatisticsHook, step: int) -> str:
    """Return which part is measured at a step, and the number of parts."""
    return f"{sampling.turn(step, hook.rotate)}/{hook.rotate}"


def record_activations(report: ActivationReport, measured: MeasuredTree, step: int) -> None:
    """Record the activations that a step returned; waits for the device."""
    rows = measured.rows["activations"]
    sizes = dict(zip(rows.names, rows.sizes, strict=True))
    saturated = {
        name: float(addressable(number)) / sizes[name]
        for name, number in measured.saturated.items()
        if sizes[name]
    }
    active = {name: addressable(units) for name, units in measured.active.items()}
    report.take(step, rows.names, here(rows).table(), saturated=saturated, active=active)


def here(rows: Any) -> Any:
    """Return statistics of which this process holds a copy."""
    return jax.tree_util.tree_map(addressable, rows)


def addressable(array: Any) -> Any:
    """Return an array's copy in this process."""
    if getattr(array, "is_fully_addressable", True):
        return np.asarray(array)
    return np.asarray(array.addressable_data(0))


# --- optax ------------------------------------------------------------------------------------------


class StatisticsState(NamedTuple):
    """State of ``with_statistics``, with the same shape for all measurements.

    Attributes:
        inner: The states of clipping and of the optimizer.
        measured: The last update's measurements; zeros for the others.
    """

    inner: Any
    measured: MeasuredTree


def with_statistics(
    optimizer: Any,
    *,
    clip: Any = None,
    of: tuple[str, ...] = ("weights", "updates"),
    histograms: bool = False,
    layers: Callable[[str, Any], bool] | None = None,
) -> Any:
    """Wrap an optax optimizer so that its state holds statistics of gradients, weights and updates.

    ``update`` takes an additional argument, ``level``, which must be static under ``jit``; it is that of
    ``measure``, by default "norm".

    Args:
        optimizer: An ``optax.GradientTransformation``.
        clip: A transformation that comes first, such as ``optax.clip_by_global_norm(1.0)``: the norm is
            measured both before and after it, layers after it.
        of: Quantities to measure besides gradients.
        histograms: Whether the state has room for histograms, some 4 kB for each array.
        layers: A function of name and array that returns whether its own statistics are wanted.
    """
    import optax

    inner = optax.with_extra_args_support(optimizer)
    first = optax.with_extra_args_support(optax.identity() if clip is None else clip)
    top = "histograms" if histograms else "full"

    def look(wanted_level: str, applied: Any, before: Any, weights: Any, updates: Any) -> MeasuredTree:
        level, _ = parts_of(wanted_level)
        measured = measure(
            top if level == "histograms" else level,
            gradients=applied,
            clipped=None if clip is None else before,
            weights=weights if "weights" in of else None,
            updates=updates if "updates" in of else None,
            layers=layers,
        )
        if measured is None:
            return MeasuredTree(level, None, None, {})
        # Layers are measured as the optimizer applies them; of the whole gradient the norm comes first.
        return measured if clip is None else replace(measured, norm=measured.clipped, clipped=measured.norm)

    def room(tree: Any) -> MeasuredTree:
        shapes = jax.eval_shape(lambda some: look(top, some, some, some, some), tree)
        return jax.tree_util.tree_map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)  # type: ignore[no-any-return]

    def init(params: Any) -> StatisticsState:
        return StatisticsState((first.init(params), inner.init(params)), room(params))

    def update(
        updates: Any, state: StatisticsState, params: Any = None, *, level: str = "norm", **more: Any
    ) -> tuple[Any, StatisticsState]:
        clipped, clip_state = first.update(updates, state.inner[0], params, **more)
        changes, inner_state = inner.update(clipped, state.inner[1], params, **more)
        measured = look(level, clipped, updates, params, changes)
        return changes, StatisticsState((clip_state, inner_state), filled(measured, room(params)))

    return optax.GradientTransformationExtraArgs(init, update)


def filled(measured: MeasuredTree, room: MeasuredTree) -> MeasuredTree:
    """Return the measurements, with zeros for the rest."""
    rows = dict(room.rows)
    for kind, one in measured.rows.items():
        rows[kind] = replace(one, counts=rows[kind].counts if one.counts is None else one.counts)
    norm = room.norm if measured.norm is None else measured.norm
    return MeasuredTree(
        room.level, norm, room.clipped if measured.clipped is None else measured.clipped, rows
    )


def statistics_in(state: Any, level: str) -> MeasuredTree | None:
    """Return the last update's measurements, from an optax state that contains that of ``with_statistics``.

    It is a copy, so that the state may be donated to the next step.

    Args:
        state: The state.
        level: The level of the update.

    Raises:
        UsageError: There are no statistics in it.
    """
    leaves = jax.tree_util.tree_leaves(state, is_leaf=lambda one: isinstance(one, StatisticsState))
    states = [state.measured for state in leaves if isinstance(state, StatisticsState)]
    if not states:
        raise UsageError(
            "no statistics in this optimizer state", hint="tx = with_statistics(optax.adam(1e-3))"
        )
    level, _ = parts_of(level)
    if level == "off":
        return None
    rows = states[0].rows if level != "norm" else {}
    if level != "histograms":
        rows = {kind: replace(one, counts=None) for kind, one in rows.items()}
    measured = MeasuredTree(level, states[0].norm, states[0].clipped, rows)
    return jax.tree_util.tree_map(jnp.copy, measured)  # type: ignore[no-any-return]
