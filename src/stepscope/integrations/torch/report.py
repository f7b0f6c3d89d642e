"""Finishes and records gradient statistics, on the rank that writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from stepscope.integrations.torch.clipping import ClipCall, Cut, cuts, norms, total
from stepscope.integrations.torch.parameters import TableLayout
from stepscope.integrations.torch.sample import SamplePlan
from stepscope.record import Run
from stepscope.record.statistics import GradientHook
from stepscope.record.statistics.hooks import ratios, totals
from stepscope.record.statistics.table import (
    COUNT,
    NONFINITE,
    SQUARES,
    Array,
    Round,
    StatisticsTable,
    StatisticsWriter,
    noise_scale,
    total_norm,
)

MEMORY = 0.99
"""Weight of the past in the running means of the noise scale; source as of its formula."""


class RoundsReport:
    """Records the results of the rounds of one optimizer.

    In the first step whose gradients are not finite, each layer's count of such values is recorded whether or
    not the step was to be measured: one step later they are everywhere.

    Args:
        run: The run.
        hook: Chooses the quantities.
        name: Stands between ``gradients`` and the name of a global statistic; "" for nothing.
        ranks: Number of ranks.
        onset: Called with the first step whose gradients are not finite, and again after finite ones.
    """

    def __init__(
        self, run: Run, hook: GradientHook, name: str, ranks: int, onset: Callable[[int], None]
    ) -> None:
        self._writer = StatisticsWriter(run, hook.stats)
        self._name = f"{name}/" if name else ""
        self._ranks = ranks
        self._noise = np.zeros(2)
        self._finite, self._onset = True, onset

    def clipped_only(self, step: int, noted: Sequence[ClipCall | Cut]) -> None:
        """Record clipping's report on all gradients, which may still be on a device."""
        clips = norms(noted)
        if clips and len(clips) == len(noted):
            before = total([clip.norm for clip in clips])
            numbers: dict[str, Any] = {
                self._tag("gradients", "norm"): before,
                self._tag("gradients", "clipped_norm"): total([clip.after() for clip in clips]),
            }
            if before.is_cpu:
                numbers[self._tag("gradients", "nonfinite_count")] = 0.0  # else it would have been measured
                self._finite = True
            self._writer.numbers(numbers, step)

    def norm_only(
        self, step: int, table: StatisticsTable, layout: TableLayout, layers: Callable[[], Array | None]
    ) -> None:
        """Record a step of which only the norm was measured, in one row for all, and nothing clipped.

        Args:
            step: Its number.
            table: The row.
            layout: The rows of the layers.
            layers: Measures these; None if the gradients are gone.
        """
        row = table.moments[0]
        if row[COUNT]:
            norm, nonfinite = float(np.sqrt(row[SQUARES])), float(row[NONFINITE])
            tags = self._tag("gradients", "nonfinite_count"), self._tag("gradients", "norm")
            self._writer.numbers({tags[0]: nonfinite, tags[1]: norm}, step)
            moments = layers() if nonfinite and self._finite else None
            self._finite = not nonfinite
            if moments is not None:
                self._counts(step, layout, moments, layout.wanted)

    def take(
        self,
        plan: SamplePlan,
        round_: Round,
        clips: Sequence[ClipCall | Cut],
        unclipped: Array | None = None,
    ) -> None:
        """Record a step with the table of all ranks.

        Args:
            plan: How it was measured.
            round_: What was.
            clips: Calls that clipped.
            unclipped: Moments, by row, of the gradients before a clipping that made all of them NaN;
                None: as in the table.
        """
        table = round_.table
        measure_raw(plan, table, round_.raw)
        gradients = table.moments[plan.block("gradients")]
        numbers = self._norms(gradients, clips, gone_by_cuts(plan, round_, gradients, clips))
        if unclipped is not None:
            numbers[self._tag("gradients", "nonfinite_count")] = float(unclipped[:, NONFINITE].sum())
        if len(round_.loose) and round_.loose[1] == self._ranks:
            before = numbers.get(self._tag("gradients", "norm"), float("nan"))
            numbers.update(self._noise_scale(round_.loose[0] / self._ranks, before**2))
        if plan.full and plan.chosen.all():
            numbers.update(totals({kind: table.moments[plan.block(kind)] for kind in plan.of}, self._name))
        self._writer.numbers(numbers, plan.number)
        if plan.full:
            self._rows(plan, table)
        nonfinite = bool(gradients[:, NONFINITE].any())
        if nonfinite and self._finite:
            counted = plan.chosen if plan.full and "gradients" in plan.of else np.zeros_like(plan.chosen)
            rows = plan.layout.wanted if unclipped is not None else plan.layout.wanted & ~counted
            self._counts(plan.number, plan.layout, gradients if unclipped is None else unclipped, rows)
        self._finite = not nonfinite

    def _counts(self, step: int, layout: TableLayout, moments: Array, rows: Any) -> None:
        """Record how many values of each of some layers' gradients are not finite."""
        self._onset(step)
        there = np.flatnonzero(rows & (moments[:, COUNT] > 0))
        tags = (f"gradients/{layout.names[row]}/nonfinite_count" for row in there)
        self._writer.numbers(dict(zip(tags, moments[there, NONFINITE].tolist(), strict=True)), step)

    def _norms(self, gradients: Array, clips: Sequence[ClipCall | Cut], cut: float) -> dict[str, float]:
        """Return the norm as it was before clipping, and after it if there was any."""
        after = total_norm(gradients)
        numbers = {self._tag("gradients", "nonfinite_count"): float(gradients[:, NONFINITE].sum())}
        before = after
        if clips:
            numbers[self._tag("gradients", "clipped_norm")] = after
            # What was not clipped is the same before and after.
            gone = sum(number(clip.norm) ** 2 - number(clip.after()) ** 2 for clip in norms(clips)) + cut
            before = float(np.sqrt(max(after**2 + gone, 0.0))) if np.isfinite(after) else after
        numbers[self._tag("gradients", "norm")] = before
        return {tag: value for tag, value in numbers.items() if gradients[:, COUNT].any()}

    def _noise_scale(self, local: float, reduced: float) -> dict[str, float]:
        trace, squared = noise_scale(local, reduced, self._ranks)
        if not np.isfinite([trace, squared]).all():
            return {}
        self._noise = MEMORY * self._noise + (1 - MEMORY) * np.array([trace, squared])
        if self._noise[1] <= 0:
            return {}
        return {self._tag("gradients", "noise_scale"): float(self._noise[0] / self._noise[1])}

    def _rows(self, plan: SamplePlan, table: StatisticsTable) -> None:
        names = [plan.layout.names[row] for row in np.flatnonzero(plan.chosen)]
        for kind in plan.of:
            moments = table.moments[plan.block(kind)][plan.chosen]
            self._writer.rows(kind, names, moments, plan.number)
            if plan.histograms:
                counts = table.counts[plan.block(kind)][plan.chosen]
                self._writer.histograms(kind, names, counts, plan.number)
        if "weights" in plan.of and "updates" in plan.of:
            both = (table.moments[plan.block(kind)][plan.chosen] for kind in ("weights", "updates"))
            self._writer.numbers(ratios(names, *both), plan.number)

    def _tag(self, kind: str, statistic: str) -> str:
        return f"{kind}/{self._name}{statistic}"


def gone_by_cuts(plan: SamplePlan, round_: Round, gradients: Array, clips: Sequence[ClipCall | Cut]) -> float:
    """Return by how much clipping values made the sum of squares smaller, over all ranks.

    If each rank holds everything, this one has measured it; otherwise all reported their parts.
    """
    if plan.layout.alone:
        return sum(cut.gone(gradients) for cut in cuts(clips))
    return float(round_.loose[2])


def number(value: Tensor) -> float:
    """Return a number from wherever it is, waiting for its device."""
    return float(value.item())


def measure_raw(plan: SamplePlan, table: StatisticsTable, raw: Array) -> None:
    """Measure the gradients that only the sum over the ranks made whole."""
    for row, at, elements in plan.layout.raw_rows if len(raw) else ():
        table.add(plan.block("gradients").start + row, raw[at : at + elements])
