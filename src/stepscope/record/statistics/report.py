"""Statistics as series of a run: gradients measured inside a compiled step, and the outputs of layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stepscope.record.run import Run
from stepscope.record.statistics.hooks import GradientHook
from stepscope.record.statistics.table import (
    COUNT,
    NONFINITE,
    SQUARES,
    Array,
    Counts,
    StatisticsTable,
    StatisticsWriter,
    finish,
    total_norm,
)


class ActivationReport:
    """Records what samples of a model's layers come to.

    Args:
        run: Where to.
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
        found = dict(finish(table.moments))
        found["fraction_of_zero_values"] = found["zero_ratio"]
        numbers = {
            f"activations/{names[row]}/{stat}": float(found[stat][row])
            for row in np.flatnonzero(table.moments[:, COUNT]).tolist()
            for stat in self._writer.stats
            if stat in found
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


def table(sizes: Sequence[int], floats: Array, integers: Counts, counts: Counts | None) -> StatisticsTable:
    """Return packed statistics of arrays as a table.

    Args:
        sizes: Elements of each array.
        floats: [n, 4]: sum, sum of squares, least, most.
        integers: [n, 3]: zeros, non-finite, whether there was such an array.
        counts: [n, BUCKETS + 1]; None without histograms.
    """
    found = StatisticsTable(len(sizes), histograms=counts is not None)
    there = np.flatnonzero(integers[:, 2])
    moments = np.column_stack([sizes, floats[:, :2], integers[:, :2], floats[:, 2:]])
    rows = np.zeros((0, 0), np.int64) if counts is None else np.asarray(counts, np.int64)[there]
    found.add_rows(there, np.asarray(moments, np.float64)[there], rows)
    return found


def record(
    run: Run,
    hook: GradientHook,
    step: int,
    names: Sequence[str],
    tables: Mapping[str, StatisticsTable],
    *,
    norm: float | None,
    clipped: float | None = None,
    whole: bool = True,
) -> None:
    """Record what was measured in a step.

    Args:
        run: Where to.
        hook: Says what is wanted.
        step: When.
        names: Of the rows, in all tables.
        tables: By kind: gradients, weights, updates; none where only norms were measured.
        norm: Norm of the whole gradient; None if it was not measured.
        clipped: The same after clipping; None if nothing clips.
        whole: Whether the rows are all parameters, so that their sums are the model's.
    """
    writer = StatisticsWriter(run, hook.stats)
    writer.numbers({**norms(tables, norm, clipped, whole), **(totals(tables) if whole else {})}, step)
    for kind, found in tables.items():
        if kind in hook.of:
            writer.rows(kind, names, found.moments, step)
            writer.histograms(kind, names, found.counts, step)
    writer.numbers(ratios(tables, names), step)


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


def totals(tables: Mapping[str, StatisticsTable]) -> dict[str, float]:
    """Return the norms of all weights and updates, and their ratio."""
    kinds = [kind for kind in ("weights", "updates") if kind in tables]
    found = {f"{kind}/norm": total_norm(tables[kind].moments) for kind in kinds}
    if found.get("weights/norm", 0) > 0 and "updates/norm" in found:
        found["updates/weight_ratio"] = found["updates/norm"] / found["weights/norm"]
    return {tag: value for tag, value in found.items() if not np.isnan(value) or "weights/norm" in found}


def ratios(tables: Mapping[str, StatisticsTable], names: Sequence[str]) -> dict[str, float]:
    """Return the norm of each update over that of the weight before it."""
    if "weights" not in tables or "updates" not in tables:
        return {}
    old, new = tables["weights"].moments, tables["updates"].moments
    some = np.flatnonzero((old[:, SQUARES] > 0) & (new[:, COUNT] > 0)).tolist()
    return {
        f"updates/{names[at]}/weight_ratio": float(np.sqrt(new[at, SQUARES] / old[at, SQUARES]))
        for at in some
    }
