"""Marks where the stages of a training step begin, from hooks of PyTorch; no device is waited for.

From the data's arrival to the model's forward pass a step is ``copy``, then ``forward``; the time between
that and the optimizer is ``backward``, the loss included; then ``optimizer``, and what follows is the rest.
All is time of the host; where the model is on a device that has events, they are timed there, too
(``completion``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from stepscope.integrations.torch.completion import DeviceStages
from stepscope.kernels.steps import Stages


class StageMarks:
    """Marks the stages of steps in which a model is trained.

    Args:
        stages: Of the run.
        model: The outermost module; without one only the optimizer is told.
        optimizers: Those that train it.
        timer: Times the stages on the model's device; None if that cannot be.
    """

    def __init__(
        self,
        stages: Stages,
        model: nn.Module | None,
        optimizers: Iterable[Optimizer],
        timer: DeviceStages | None = None,
    ) -> None:
        self._stages = stages
        self._before, self._timer = stages.first, timer
        if timer is not None:
            stages.device = timer
        self._handles: list[RemovableHandle] = []
        if model is not None and seen(model):
            self._watch(model)
        number = stages.number("optimizer")
        mark = stages.mark

        def begin(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            mark(number)

        def end(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            mark(0)

        self._begin, self._end = begin, end
        for each in optimizers:
            self._add(each)

    def _add(self, optimizer: Optimizer) -> None:
        self._handles += [
            optimizer.register_step_pre_hook(self._begin),
            optimizer.register_step_post_hook(self._end),
        ]

    def follow(self, old: Optimizer, new: Optimizer) -> None:
        """Mark the steps of another optimizer, too, which replaced one."""
        self._add(new)

    def _watch(self, model: nn.Module) -> None:
        stages = self._stages
        copy, forward, backward = map(stages.number, ("copy", "forward", "backward"))
        mark, learns = stages.mark, torch.is_grad_enabled

        def begin(module: nn.Module, inputs: Any) -> None:
            if learns() and module.training:
                mark(forward)

        def end(module: nn.Module, inputs: Any, output: Any) -> None:
            if learns() and module.training:
                mark(backward)

        stages.first = copy
        self._handles.append(model.register_forward_pre_hook(begin))
        self._handles.append(model.register_forward_hook(end))

    def remove(self) -> None:
        """Stop marking; steps begin in the stage in which they began before."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
        self._stages.first = self._before
        if self._timer is not None:
            self._timer.stop()  # what waits is still taken


def seen(model: nn.Module) -> bool:
    """Return whether a model's calls pass through hooks that are not compiled or scripted with it."""
    compiled = getattr(model, "_compiled_call_impl", None) is not None
    return not compiled and not isinstance(model, torch.jit.ScriptModule)
