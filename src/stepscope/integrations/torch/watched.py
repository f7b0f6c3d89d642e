"""The parameters that one measurement of gradients watches, and the layout that all ranks agree on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.integrations.torch import measure
from stepscope.integrations.torch.exchange import GroupExchange, agree
from stepscope.integrations.torch.ledger import Groups, parameters_of
from stepscope.integrations.torch.norms import Norms
from stepscope.integrations.torch.parameters import (
    ParameterEntry,
    ParameterShare,
    TableLayout,
    clean,
    entries,
    is_distributed,
    loose_entries,
    measurable,
    single,
)
from stepscope.record.statistics.table import Array, StatisticsTable

LEFT_OUT = "optimizer/left_out/"
"""Beginning of the names of parameters that have a gradient and are in no watched optimizer."""
MOST_LEFT_OUT = 20
AHEAD = 8
"""Steps from the agreement on a layout to its use: by then every rank has heard of it."""
LET_IN = 3
"""Samples in which a parameter that an optimizer has now is stated to be left out no more."""


class WatchedParameters:
    """The parameters of some optimizers: their names, which of them this rank holds, and their rows.

    Args:
        model: Names the parameters; None if nothing does.
        prefix: Stands before the parameters' names.
        optimizers: Whose parameters they are.
        wants: Returns whether separate statistics are wanted for a name and its parameter.
        ranks: The ranks that must agree on a layout; None for this process alone.
        norms: Whether the norm alone is measured at most steps.

    Attributes:
        entries: The parameters.
        layout: Their rows in the table of statistics.
        identities: ``id`` of each parameter of the layout.
        shares: This rank's shares of the parameters of an optimizer, by the optimizer's ``id``.
        plain: True if one optimizer's whole parameters are here.
        norms: Measures the norm alone; None if that cannot be done apart.
        coming: A layout that the ranks agreed on and that the next step begins to use.
        changed: True if the ranks have to agree again.
        stale: True if the layout is that of other parameters, until the ranks have agreed on one.
        asked: True if the ranks were asked for a layout in place of a stale one.
        interim: The parameters of a stale layout as they are now, if each rank has them whole.
    """

    layout: TableLayout
    identities: set[int]
    shares: dict[int, list[ParameterShare]]
    plain: bool
    norms: Norms | None

    def __init__(
        self,
        model: nn.Module | None,
        prefix: str,
        optimizers: Sequence[Optimizer],
        wants: Callable[[str, Any], bool],
        ranks: GroupExchange | None,
        *,
        norms: bool,
    ) -> None:
        self._model, self._prefix, self._optimizers = model, prefix, tuple(optimizers)
        self._wants, self._ranks, self._want_norms = wants, ranks, norms
        self.coming: TableLayout | None = None
        self.changed = self.stale = self.asked = False
        self.interim: TableLayout | None = None
        self._coming_from = -1
        self._groups = {id(optimizer): Groups(optimizer) for optimizer in self._optimizers}
        self.entries = self._list(check=ranks is not None)
        self._use(self._agree(0))

    def owned(self) -> Iterator[Tensor]:
        """Yield the optimizers' parameters that can be measured."""
        for optimizer in self._optimizers:
            yield from filter(measurable, parameters_of(optimizer))

    def squares(self, of: Collection[int] | None = None) -> Array | None:
        """Return moments of the gradients as they are, by row: counts and squares alone.

        Args:
            of: Identities of the parameters; None for all.

        Returns:
            None if a device would have to be waited for.
        """
        table = StatisticsTable(len(self.layout.names))
        parts = [
            (share.row, gradient)
            for share in self.layout.shares
            if (of is None or id(share.entry.parameter) in of)
            and (gradient := share.entry.parameter.grad) is not None
            and not is_distributed(gradient)
        ]
        return None if measure.measure(table, parts, squares_only=True) else table.moments

    def take_coming(self, step: int) -> bool:
        """Use the layout that the ranks have agreed on from a step on; return whether there is one."""
        if self.coming is None or step < self._coming_from:
            return False
        coming, self.coming = self.coming, None
        self._use(coming)
        return True

    def agree_again(self, version: int, step: int) -> None:
        """Make a new layout, on the thread of the rounds, on all ranks after the same round.

        If the parameters of a rank changed, all use it from the same step on.

        Args:
            version: Number of the layout.
            step: The one that the training is at.
        """
        coming = self._agree(version)
        if self._ranks is not None:
            latest = np.array([step, self.stale], np.float64)
            self._ranks.largest(latest)
            self._coming_from = int(latest[0]) + AHEAD if latest[1] else -1
        self.coming, self.changed = coming, False

    def moved(self, optimizer: Optimizer) -> bool:
        """Return whether an optimizer has other parameters than at the last look."""
        known = self._groups.get(id(optimizer))
        return known is None or not known.same(optimizer)

    def replace(self, old: Optimizer, new: Optimizer) -> bool:
        """Measure another optimizer in place of one; return whether it has other parameters."""
        self._optimizers = tuple(new if optimizer is old else optimizer for optimizer in self._optimizers)
        self._use(self.layout)
        return self.look_for_changes()

    def look_for_changes(self) -> bool:
        """Ask for a new layout if the optimizers have different parameters; return whether they have."""
        self._groups = {id(optimizer): Groups(optimizer) for optimizer in self._optimizers}
        if not self.changed and {id(parameter) for parameter in self.owned()} == self.identities:
            return False
        old = {id(entry.parameter): entry for entry in self.entries}
        fresh = self._list(check=False)
        for entry in fresh:
            known = old.get(id(entry.parameter))
            if known is not None:
                entry.spread, entry.content = known.spread, known.content
        self.entries = fresh
        if self._ranks is None:
            self._use(self._agree(0))
        else:
            whole = self.layout.alone and not any(is_distributed(entry.parameter) for entry in fresh)
            self.interim = single(fresh) if whole else None
            self.changed = self.stale = True
        return True

    def left_out(self, owned: set[int], known: dict[str, int]) -> Iterator[tuple[str, Tensor]]:
        """Yield tag and norm of gradients of the model that no optimizer works on: nothing trains these.

        Once an optimizer has such a parameter, or it is frozen, that norm is 0 for a few samples more.

        Args:
            owned: ``id`` of each parameter that any known optimizer has.
            known: How many samples more each tag has once its parameter is left out no more; changed here.
        """
        left = 0
        for name, parameter in () if self._model is None else self._model.named_parameters():
            gradient, tag = (
                parameter.grad,
                f"{LEFT_OUT}{self._prefix}{'.' if self._prefix else ''}{clean(name)}",
            )
            if id(parameter) in owned or not parameter.requires_grad:
                if tag in known:
                    known[tag] -= 1
                    yield tag, torch.zeros(())
                    if known[tag] == 0:
                        del known[tag]
                continue
            if gradient is None or is_distributed(gradient):
                continue
            left += 1
            if left <= MOST_LEFT_OUT:
                known[tag] = LET_IN
                yield tag, torch.linalg.vector_norm(gradient.detach())

    def _list(self, *, check: bool) -> list[ParameterEntry]:
        """List the parameters of the optimizers, with the model's names if it has them."""
        owned = {id(parameter): parameter for parameter in self.owned()}
        models = {} if self._model is None else {self._prefix: self._model}
        fresh = entries(models, self._wants, set(owned), check=check)
        named = {id(entry.parameter) for entry in fresh}
        return fresh + loose_entries([owned[key] for key in owned if key not in named], self._wants)

    def _agree(self, version: int) -> TableLayout:
        return single(self.entries) if self._ranks is None else agree(self._ranks, self.entries, version)

    def shares_of(self, optimizer: Optimizer, layout: TableLayout) -> list[ParameterShare]:
        """Return this rank's shares of an optimizer's parameters in a layout."""
        if layout is self.layout:
            return self.shares[id(optimizer)]
        own = set(map(id, parameters_of(optimizer)))
        return [share for share in layout.shares if id(share.entry.parameter) in own]

    def _use(self, layout: TableLayout) -> None:
        self.layout, self.interim, self.stale, self.asked = layout, None, False, False
        self.identities = {id(share.entry.parameter) for share in layout.shares}
        by_parameter = {id(share.entry.parameter): share for share in layout.shares}
        self.shares = {
            id(optimizer): [
                by_parameter[id(parameter)]
                for parameter in parameters_of(optimizer)
                if id(parameter) in by_parameter
            ]
            for optimizer in self._optimizers
        }
        self.plain = len(self._optimizers) == 1 and layout.alone
        norms = Norms(layout.shares) if self.plain and self._want_norms else None
        self.norms = norms if norms is not None and norms.able else None
