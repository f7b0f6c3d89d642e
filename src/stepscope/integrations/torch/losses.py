"""The loss of every step, seen at its computation; no device is waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.errors import UsageError
from stepscope.integrations.guard import guarded
from stepscope.integrations.torch.calls import after_forward, take_off
from stepscope.record import Run

TAG = "train/loss"


class Losses:
    """Records the mean of the losses that were computed in training since the last step, at each step.

    Args:
        run: The run to record into.
        model: Whose output may hold the loss.
        loss: The module that computes it, or the name under which the model's output holds it.
        optimizers: The first one's steps are those of the training.

    Raises:
        UsageError: The loss is neither.
    """

    def __init__(
        self, run: Run, model: nn.Module | None, loss: nn.Module | str, optimizers: Sequence[Optimizer]
    ) -> None:
        source = model if isinstance(loss, str) else loss
        if not isinstance(source, nn.Module) or not optimizers:
            raise UsageError(
                f"the loss of {type(loss).__name__} cannot be seen",
                hint="loss=torch.nn.CrossEntropyLoss(), or loss='loss' of a model's output; and an optimizer",
            )
        self._run = self.reporter = run
        self._name = loss if isinstance(loss, str) else ""
        self._sum: Tensor | None = None
        self._count = 0
        self._step: int | None = None
        self._optimizer = optimizers[0]
        self._handles = [
            after_forward(source, self._seen),
            self._optimizer.register_step_post_hook(self._stepped),
        ]

    @guarded
    def _seen(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Add a loss up; those of an evaluation have no gradient."""
        loss = self._loss_in(output)
        if loss is None or not loss.requires_grad:
            return
        if self._step != self._run.current_step:
            self._stepped()  # the optimizer left that step out, as a scaler does
        self._step = self._run.current_step
        with torch.no_grad():
            value = loss.detach().float().mean()
            self._sum = value if self._sum is None else self._sum + value
            self._count += 1

    def _loss_in(self, output: Any) -> Tensor | None:
        if self._name:
            held = output.get(self._name) if isinstance(output, Mapping) else None
            output = getattr(output, self._name, held)
        return output if isinstance(output, Tensor) else None

    @guarded
    def _stepped(self, *_: object) -> None:
        whole, count = self._sum, self._count
        self._sum, self._count = None, 0
        if whole is not None:
            with torch.no_grad():
                self._run.record({TAG: whole / count if count > 1 else whole}, self._step)

    def follow(self, old: Optimizer, new: Optimizer) -> None:
        """Take the steps of another optimizer in place of one that it replaced."""
        if self._optimizer is old:
            self._handles.pop().remove()
            self._optimizer = new
            self._handles.append(new.register_step_post_hook(self._stepped))

    def remove(self) -> None:
        """Record no more."""
        take_off(self._handles)
