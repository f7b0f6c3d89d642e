"""The number of tokens that each expert of a mixture gets: an optional hook."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from stepscope.errors import RecordError
from stepscope.integrations.torch.calls import after_forward, before_forward, take_off
from stepscope.integrations.torch.parameters import clean
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.protocol import Hook

if TYPE_CHECKING:
    from stepscope.record import Run

ROUTERS = ("router", "gate", "gating", "router_gate", "switch", "wg")
COUNTS = ("num_experts", "n_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
CHOSEN = ("top_k", "num_experts_per_tok", "topk", "n_activated_experts", "k")
"""Names under which models keep their router, the number of experts and how many of them a token gets."""


class RouterHook(Hook):
    """Records the share of tokens that each expert of each mixture receives.

    A mixture is a module with ``experts``. In the training passes of a sampled step, the choice of its router
    is taken from the indices that it returns; otherwise from the number of rows with which each expert is
    called; otherwise from the largest of the logits or weights that it returns, if it or its mixture says how
    many experts a token gets. If all experts get all rows and nothing says how many count, nothing is
    recorded.

    - ``router/LAYER/load/EXPERT``: share of all choices of this rank, before any capacity is applied.
    - ``router/LAYER/imbalance``: the largest share over that of a fair router; 1 is balanced.

    Args:
        model: The model.
        every_n_steps: Distance between sampled steps.
        top_k: Number of experts per token, if the model does not say.
    """

    def __init__(self, model: nn.Module, *, every_n_steps: int = 20, top_k: int | None = None) -> None:
        self._every = max(every_n_steps, 1)
        self._mixtures = list(mixtures(model, top_k))
        self._handles: list[Any] = []
        self._told = False
        self._run: Run

    def begin(self, run: Run) -> None:
        """Know the run."""
        self._run = run
        if not self._mixtures:
            problem = "expert loads are not recorded: the model has no module with experts"
            run.report("router", RecordError(problem, hint="a mixture is a module with .experts"), points=0)

    def before_step(self, step: int) -> None:
        """Observe the next passes, if it is due."""
        if step % self._every == 0 and self._run.role.writes:
            for mixture in self._mixtures:
                self._handles += mixture.look()

    def after_step(self, step: int) -> None:
        """Record the observed loads."""
        if not self._handles:
            return
        self._release()
        values: dict[str, Any] = {}
        for mixture in self._mixtures:
            counts = mixture.take()
            if counts is None:
                continue
            shares = counts.double() / counts.sum().clamp_min(1)
            values[f"router/{mixture.name}/imbalance"] = shares.amax() * len(shares)
            values |= {f"router/{mixture.name}/load/{at}": share for at, share in enumerate(shares.unbind())}
        if values:
            self._run.record(values, step)
        elif self._mixtures and not self._told:
            self._told = True
            text = "expert loads are not recorded: nothing says which experts a token gets"
            hint = "RouterHook(model, top_k=2), where the router returns logits"
            self._run.report("router", RecordError(text, hint=hint), points=0)

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Take the hooks off."""
        self._release()

    def _release(self) -> None:
        take_off(self._handles)


@dataclass
class Mixture:
    """A layer of experts.

    Attributes:
        name: Of the layer.
        count: Number of experts.
        router: Chooses; None if there is none by name.
        experts: The single experts, if they are separate modules.
        top_k: Experts that a token gets, None if that is not said.
    """

    name: str
    count: int
    router: nn.Module | None
    experts: tuple[nn.Module, ...]
    top_k: int | None
    _chosen: list[Tensor] = field(default_factory=list)
    _guessed: list[Tensor] = field(default_factory=list)
    _rows: dict[int, int] = field(default_factory=dict)

    def look(self) -> Iterator[Any]:
        """Register hooks, and yield their handles."""
        if self.router is not None:
            yield after_forward(self.router, self._routed)
        for at, expert in enumerate(self.experts):
            yield before_forward(expert, partial(self._called, at))

    def take(self) -> Tensor | None:
        """Return how often each expert was chosen since the last time, None if that cannot be told."""
        chosen, guessed, rows = self._chosen, self._guessed, self._rows
        self._chosen, self._guessed, self._rows = [], [], {}
        if chosen:
            return torch.stack(chosen).sum(0)
        counted = [rows.get(at, 0) for at in range(self.count)]
        if self.experts and len(set(counted)) > 1:
            return torch.tensor(counted)
        return torch.stack(guessed).sum(0) if guessed else None

    def _called(self, at: int, module: nn.Module, inputs: Any) -> None:
        with contextlib.suppress(Exception):  # inputs of any kind; what is not counted is not recorded
            self._count_rows(at, module, inputs)

    def _count_rows(self, at: int, module: nn.Module, inputs: Any) -> None:
        first = next((tensor for tensor in inputs if isinstance(tensor, Tensor)), None)
        if module.training and first is not None and first.ndim:
            self._rows[at] = self._rows.get(at, 0) + first.numel() // max(first.shape[-1], 1)

    def _routed(self, module: nn.Module, inputs: Any, output: Any) -> None:
        with contextlib.suppress(Exception):
            self._read(module, output)

    def _read(self, module: nn.Module, output: Any) -> None:
        if not module.training:
            return
        tensors = [tensor for tensor in flat(output) if tensor.ndim and tensor.numel()]
        whole = [
            tensor for tensor in tensors if not tensor.is_floating_point() and tensor.shape[-1] <= self.count
        ]
        real = [tensor for tensor in tensors if tensor.is_floating_point() and tensor.shape[-1] == self.count]
        with torch.no_grad():
            if whole:
                self._chosen.append(self._counted(whole[0]))
            elif real and self.top_k is not None:
                best = real[0].topk(min(self.top_k, self.count), dim=-1).indices
                self._guessed.append(torch.bincount(best.flatten(), minlength=self.count))

    def _counted(self, chosen: Tensor) -> Tensor:
        if chosen.shape[-1] == self.count and (self.top_k or 1) < self.count:
            return chosen.flatten(0, -2).sum(0).long()  # a mask of zeros and ones
        return torch.bincount(chosen.flatten().long(), minlength=self.count)[: self.count]


def mixtures(model: nn.Module, top_k: int | None) -> Iterator[Mixture]:
    """Yield the layers of a model that have experts."""
    for name, module in model.named_modules():
        experts = getattr(module, "experts", None)
        if not isinstance(experts, nn.Module):
            continue
        router = next(
            (r for r in (getattr(module, n, None) for n in ROUTERS) if isinstance(r, nn.Module)), None
        )
        single: tuple[nn.Module, ...] = ()
        if isinstance(experts, nn.ModuleList | nn.ModuleDict):
            single = tuple(experts.values() if isinstance(experts, nn.ModuleDict) else experts)
        places = [place for place in (router, module, experts) if place is not None]
        count = len(single) or number(places, COUNTS)
        if count is not None and count > 1:
            chosen = top_k if top_k is not None else number(places, CHOSEN)
            yield Mixture(clean(name) or "experts", count, router, single, chosen)


def number(places: list[nn.Module], names: tuple[str, ...]) -> int | None:
    """Return the first of these attributes that is an integer."""
    values = (getattr(place, name, None) for place in places for name in names)
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), None)


def flat(output: Any) -> Iterator[Tensor]:
    """Yield the tensors of a module's result."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, dict):
        for item in output.values():
            yield from flat(item)
    elif isinstance(output, tuple | list):
        for item in output:
            yield from flat(item)
