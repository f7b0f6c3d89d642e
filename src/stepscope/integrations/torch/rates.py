"""Learning rates and the loss scale, recorded at the steps of the optimizer."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from stepscope.integrations.guard import guarded
from stepscope.integrations.torch.updates import Joined
from stepscope.kernels.marks import RateMarks, alike
from stepscope.record import Run
from stepscope.record.hooks import Hook

LOSS_SCALE = "gradients/loss_scale"
SKIPPED = "gradients/skipped_steps"


class LearningRates(RateMarks):
    """Records the learning rate that each step of an optimizer used.

    The tag is ``optimizer/lr``. From the step at which the rates of parameter groups differ, it is
    ``optimizer/lr/…`` with the group's ``name``, or its number.

    Args:
        optimizer: Whose rates.
        run: The run to record into.
        name: Of the optimizer, if there are several: the tag is then ``optimizer/NAME/lr``.
    """

    def __init__(self, optimizer: Optimizer, run: Run, name: str = "") -> None:
        self._first, self._whose = type(optimizer), f"optimizer/{name}" if name else "optimizer"
        super().__init__(optimizer, run, f"{self._whose}/lr")
        self._run = self.reporter = run
        self._handle = Joined(self, optimizer)

    def follow(self, old: Optimizer, new: Optimizer) -> None:
        """Record the rates of another optimizer in place of one that it replaced.

        A rate means something else to another kind of optimizer: it gets a series of its own, with the kind's
        name in its tag.
        """
        if self.optimizer is old:
            self._handle.remove()
            if type(new) is not type(old):
                kind = "" if type(new) is self._first else f"/{type(new).__name__}"
                self.tag, self.apart = f"{self._whose}{kind}/lr", False
            self.optimizer, self._handle = new, Joined(self, new)

    @guarded
    def record(self) -> None:
        """Record the rates, each under its tag."""
        run, groups = self._run, self.optimizer.param_groups
        if not run.role.writes:  # every rank has the same rates
            return
        if not self.apart and not (len(groups) == 1 or alike(groups)):
            self.apart = True
        if not self.apart:
            run.scalar(self.tag, groups[0]["lr"])
            return
        for number, group in enumerate(groups):
            run.scalar(f"{self.tag}/{group.get('name', number)}", group["lr"])

    def remove(self) -> None:
        """Record no more."""
        self._handle.remove()


class LossScaleRecorder(Hook):
    """Records the loss scale of a ``GradScaler`` after each step of the run, and how often it was lowered.

    If a step found non-finite gradients, the scaler leaves out the optimizer's step and lowers the scale.
    Neither is read here: both stay on the device until the run's own thread takes them.

    Args:
        scaler: Of ``torch.amp``.
        run: The run to record into.
    """

    def __init__(self, scaler: Any, run: Run) -> None:
        self._scaler, self._run = scaler, run
        self._before: torch.Tensor | None = None
        self._skipped: torch.Tensor | None = None
        run.add_hook(self)

    def after_step(self, step: int) -> None:
        """Record the scale that the next step will use, and the steps skipped so far."""
        if self._scaler is None or not self._scaler.is_enabled():
            return
        scale = getattr(self._scaler, "_scale", None)
        if not isinstance(scale, torch.Tensor):
            return  # nothing was scaled yet
        with torch.no_grad():
            if self._before is None or self._skipped is None:
                self._before, self._skipped = scale.clone(), torch.zeros_like(scale)
            self._skipped += scale < self._before
            self._before.copy_(scale)
        self._run.record({LOSS_SCALE: scale, SKIPPED: self._skipped})

    def remove(self) -> None:
        """Record no more."""
        self._scaler = None
