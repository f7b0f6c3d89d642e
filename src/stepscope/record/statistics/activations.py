"""What statistics of layers' outputs come to in a run, whatever framework they were measured in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stepscope.record.run import Run
from stepscope.record.statistics.table import COUNT, Table, Writer, finish


class ActivationReport:
    """Records what samples of a model's layers come to.

    Args:
        run: Where to.
        stats: Which statistics.
        window: How many samples a unit must be silent to count as dead.
    """

    def __init__(self, run: Run, stats: Sequence[str], window: int) -> None:
        self._writer, self._window = Writer(run, stats), window
        self._silent: dict[str, NDArray[np.int64]] = {}
        self._samples: dict[str, int] = {}

    def take(
        self,
        step: int,
        names: Sequence[str],
        table: Table,
        *,
        saturated: Mapping[str, float],
        active: Mapping[str, NDArray[np.bool_]],
    ) -> None:
        """Record a sample.

        Args:
            step: When.
            names: Of the layers, which are the rows.
            table: Of their outputs; rows of layers that put out nothing are empty.
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
