"""The measurements of one rank in one step of training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.optim import Optimizer

from stepscope.integrations.torch import measure
from stepscope.integrations.torch.clipping import ClipCall, Cut
from stepscope.integrations.torch.parameters import (
    ParameterShare,
    TableLayout,
    coordinates,
    is_distributed,
    local_part,
    pending,
)
from stepscope.record.statistics.table import StatisticsTable

Parts = list[tuple[int, Tensor]]
Tell = Callable[[str, str], None]


@dataclass
class SamplePlan:
    """How a step is to be measured.

    Attributes:
        number: Of the step.
        layout: The rows.
        of: The quantities: of ``gradients``, ``weights`` and ``updates``.
        full: Whether all statistics are wanted, or only the norm of the gradient.
        histograms: Whether histograms are, too.
        chosen: Which rows' own statistics.
        table: Whether anything is to be measured by this rank.
    """

    number: int
    layout: TableLayout
    of: tuple[str, ...]
    full: bool
    histograms: bool
    chosen: npt.NDArray[np.bool_]
    table: bool

    @property
    def whole(self) -> bool:
        """True if this rank measures everything itself, so that the others are not needed."""
        return not self.full and self.layout.alone

    def block(self, kind: str) -> slice:
        """Return the rows of the gradients, weights or updates."""
        kinds = blocks(self.of)
        size = len(self.layout.names)
        return slice(kinds.index(kind) * size, (kinds.index(kind) + 1) * size)


def blocks(of: Sequence[str]) -> tuple[str, ...]:
    """Return the quantities in a table's rows; gradients always, for their norm."""
    return ("gradients", *(kind for kind in of if kind != "gradients"))


@dataclass
class StepSample:
    """Measurements of one step as they arrive.

    Args:
        plan: How to measure.
        tell: Called with an omitted measurement, and a hint.

    Attributes:
        begun: Identities of the optimizers whose step has begun.
        clips: Calls that clipped.
        seen: Number of gradients seen.
        table: The rows; None if this rank measures nothing.
        pending_sums: Whether a gradient was seen that needs a new layout.
        closed: Whether the measurements were handed on.
        seconds: Time that measuring took.
    """

    plan: SamplePlan
    tell: Tell
    begun: set[int] = field(default_factory=set)
    clips: list[ClipCall | Cut] = field(default_factory=list)
    seen: int = 0
    table: StatisticsTable | None = None
    pending_sums: bool = False
    closed: bool = False
    seconds: float = 0.0

    def __post_init__(self) -> None:
        plan = self.plan
        if plan.table:
            rows = len(plan.layout.names) * len(blocks(plan.of))
            self.table = StatisticsTable(rows, histograms=plan.histograms)
        self._waits: list[Callable[[], None]] = []
        self._raw: list[tuple[int, Tensor]] = []
        self._before: dict[int, list[tuple[int, ParameterShare, Tensor]]] = {}
        self._trained: dict[int, set[int]] = {}

    # --- before the optimizer's step ----------------------------------------------------------------

    def gradients(self, optimizer: Optimizer, shares: Sequence[ParameterShare]) -> None:
        """Measure an optimizer's gradients, and its weights as they are before the step.

        Args:
            optimizer: The optimizer.
            shares: This rank's shares of its parameters.
        """
        if self.table is None:
            return
        trained = self.read(optimizer, shares)
        if self.plan.full:
            self._weights([share for share in shares if self.plan.chosen[share.row]])
            self._keep(id(optimizer), [share for share in trained if self.plan.chosen[share.row]])

    def weights(self, optimizer: Optimizer, shares: Sequence[ParameterShare]) -> None:
        """Measure an optimizer's weights as they are before a step that computes its own gradients."""
        if self.table is not None and self.plan.full:
            chosen = [share for share in shares if self.plan.chosen[share.row]]
            self._weights(chosen)
            self._keep(id(optimizer), chosen)

    def reading(self, optimizer: Optimizer, shares: Sequence[ParameterShare]) -> StepSample:
        """Return a reading of an optimizer's gradients as they are now, for ``absorb``."""
        sample_ = StepSample(self.plan, self.tell)
        trained = sample_.read(optimizer, shares)
        sample_._trained[id(optimizer)] = {share.row for share in trained}
        return sample_

    def absorb(self, reading: StepSample) -> None:
        """Add the reading of the gradients that the optimizer's step used."""
        self.seen += reading.seen
        self.pending_sums = self.pending_sums or reading.pending_sums
        self.clips.extend(reading.clips)
        self._trained.update(reading._trained)
        self._raw.extend(reading._raw)
        if self.table is None or reading.table is None:
            return
        table, other = self.table, reading.table
        if not reading._waits:
            table.merge(other)
            return

        def wait() -> None:
            for one in reading._waits:
                one()
            table.merge(other)

        self._waits.append(wait)

    def read(self, optimizer: Optimizer, shares: Sequence[ParameterShare]) -> list[ParameterShare]:
        """Measure an optimizer's gradients, and return the shares of those parameters that have one."""
        if self.table is None:
            return []
        norms: Parts = []
        thorough: Parts = []
        full, chosen, measured = self.plan.full, self.plan.chosen, "gradients" in self.plan.of
        scale = getattr(optimizer, "grad_scale", None)  # set where the optimizer unscales in its own kernel
        trained = []
        for share in shares:
            gradient = share.entry.parameter.grad
            if gradient is None:
                continue
            trained.append(share)
            part = self._part_of(share, gradient)
            if part is not None:
                if scale is not None:
                    part = part.to(torch.float32) / scale
                (thorough if full and measured and chosen[share.row] else norms).append((share.row, part))
        self.seen += len(trained)
        self._measure(norms, squares_only=True)
        self._measure(thorough)
        return trained

    def _part_of(self, share: ParameterShare, gradient: Tensor) -> Tensor | None:
        """Return the stretch of a gradient that this rank measures; None if it is measured otherwise."""
        if is_distributed(gradient) and not self._is_there(share, gradient):
            return None
        return part_of(share, gradient, self.plan.whole)

    def _is_there(self, share: ParameterShare, gradient: Any) -> bool:
        """Return whether a distributed gradient is complete and sharded like its parameter."""
        spread, mean = pending(gradient)
        name = share.entry.name
        if not spread:
            if coordinates(gradient) == coordinates(share.entry.parameter):
                return True
            self.tell(
                f"the gradient of {name}, which is sharded differently from the parameter",
                "give both the same placements",
            )
        elif share.offset >= 0:
            # Every holder of the part adds its share; replicas of the pending sum make it too large.
            weight = 1 / share.holders if mean else share.spread / share.holders
            self._raw.append((share.offset, local_part(gradient).reshape(-1).to(torch.float64) * weight))
        elif share.entry.spread != spread:
            share.entry.spread, self.pending_sums = spread, True
        else:
            self.tell(
                f"the gradient of {name}, a sum pending over ranks that is too large to be made here",
                "redistribute it before the optimizer's step",
            )
        return False

    def _weights(self, shares: Sequence[ParameterShare]) -> None:
        if "weights" in self.plan.of:
            first = self.plan.block("weights").start
            self._measure([(first + share.row, self._weight(share)) for share in shares])

    def _keep(self, optimizer: int, shares: Sequence[ParameterShare]) -> None:
        """Copy the weights that the step will change."""
        if "updates" in self.plan.of:
            first = self.plan.block("updates").start
            self._before[optimizer] = [
                (first + share.row, share, self._weight(share).clone()) for share in shares
            ]

    @staticmethod
    def _weight(share: ParameterShare) -> Tensor:
        return measure.stretch(local_part(share.entry.parameter), share.index, share.holders)

    # --- after it -----------------------------------------------------------------------------------

    def updates(self, optimizer: Optimizer) -> None:
        """Measure an optimizer's change of the weights."""
        changes: Parts = []
        trained = self._trained.pop(id(optimizer), None)
        for row, share, before in self._before.pop(id(optimizer), ()):
            if trained is not None and share.row not in trained:
                continue
            after = self._weight(share)
            if after.shape == before.shape:  # unless the parameter was given other data meanwhile
                changes.append((row, difference(after, before)))
        self._measure(changes)

    def _measure(self, parts: Parts, *, squares_only: bool = False) -> None:
        if parts and self.table is not None:
            wait = measure.measure(self.table, parts, squares_only=squares_only)
            if wait is not None:
                self._waits.append(wait)

    # --- at its end ---------------------------------------------------------------------------------

    @property
    def there(self) -> bool:
        """True if the table is filled, with no device to wait for."""
        return not self._waits and not self._raw

    def wait(self) -> npt.NDArray[np.float64]:
        """Wait for devices; return this rank's share of the pending sums."""
        for one in self._waits:
            one()
        raw = np.zeros(self.plan.layout.raw)
        for at, part in self._raw:
            raw[at : at + part.numel()] += part.cpu().numpy()
        return raw


def part_of(share: ParameterShare, gradient: Any, whole: bool) -> Tensor:
    """Return the stretch of a gradient that a rank measures.

    Args:
        share: Of the parameter.
        gradient: A gradient that is complete and sharded like its parameter.
        whole: Whether this rank measures all that it holds, so that the others are not needed.
    """
    if is_distributed(gradient):
        gradient = local_part(gradient)
    if share.holders == 1 or whole:
        return gradient  # type: ignore[no-any-return]
    return measure.stretch(gradient, share.index, share.holders)


def difference(after: Tensor, before: Tensor) -> Tensor:
    """Return the change by a step, exactly: the difference of narrow numbers in float32."""
    if before.element_size() < 4:
        return after.to(torch.float32).sub_(before.to(torch.float32))
    return before.neg_().add_(after)
