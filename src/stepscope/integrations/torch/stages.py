"""Marks the beginnings of a training step's stages, from hooks of PyTorch; no device is waited for.

``forward`` begins when a module of the model is called in training, whoever calls it and whichever module it
is; ``backward`` when autograd is asked for gradients, and it goes on to the optimizer; ``optimizer`` is the
call of its step, without a closure in it. If no module is called, as in a compiled or a functional model,
the time between the data's arrival and the backward pass is ``forward``. On an accelerator the time from
the data's arrival to the first call of a module is ``copy``. All other time is the rest: its use is not
known. All is time of the host; if the model is on a device that has events, they are timed there, too
(``completion``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from stepscope.integrations.guard import report_raised
from stepscope.integrations.torch import backward
from stepscope.integrations.torch.calls import after_forward, before_forward, callable_modules, take_off
from stepscope.integrations.torch.completion import DeviceStages
from stepscope.integrations.torch.updates import Joined
from stepscope.kernels.marks import Marks, Phases
from stepscope.kernels.steps import Steps
from stepscope.record.problems import Reporter

LEARNING = 3
"""Backward passes in which all modules have hooks, to learn which of them are called from outside."""
FURTHEST = 1 << 16
"""At most so many backward passes without a known forward pass lie between two attempts to learn anew."""


class StageMarks(Marks):
    """Marks the stages of steps in which a model is trained.

    Args:
        steps: The steps of the run.
        model: The model; without one only the optimizer and the backward pass are known.
        optimizers: Those that train it.
        timer: Times the stages on the model's device; None if that cannot be.
        reporter: Told if marking fails; nothing is marked from then on.
    """

    def __init__(
        self,
        steps: Steps,
        model: nn.Module | None,
        optimizers: Iterable[Optimizer],
        timer: DeviceStages | None,
        reporter: Reporter,
    ) -> None:
        assert steps.stages is not None
        self._stages, self._model, self._timer, self._reporter = steps.stages, model, timer, reporter
        phases = steps.stages.marker
        if not isinstance(phases, Phases):
            phases = steps.stages.marker = Phases(steps, torch.is_grad_enabled)
        phases.users += 1
        if timer is not None:
            steps.stages.device = timer
        first = None if model is None else next(model.parameters(), None)
        super().__init__(phases, first is not None and first.device.type not in ("cpu", "meta"))
        self._learned: dict[int, RemovableHandle] = {}
        self._learning: list[RemovableHandle] = []
        self._depth = self._unseen = 0
        self._again = 1
        self._handles: list[Joined] = []
        self._learn(LEARNING)
        for optimizer in optimizers:
            self.join(optimizer)
        backward.listen(self)

    def join(self, optimizer: Optimizer) -> None:
        """Mark the steps of a further optimizer."""
        self._handles.append(Joined(self, optimizer))

    def follow(self, old: Optimizer, new: Optimizer) -> None:
        """Mark the steps of another optimizer, too, which replaced one."""
        self.join(new)

    def remove(self) -> None:
        """Stop marking."""
        phases, self.phases = self.phases, None
        if phases is None:
            return
        backward.ignore(self)
        take_off([*self._handles, *self._learning, *self._learned.values()])
        self._handles, self._learning, self._learned = [], [], {}
        phases.users -= 1
        if not phases.users:
            self._stages.marker = None
        if self._timer is not None:
            self._timer.stop()  # what waits is still taken

    # --- which modules are called --------------------------------------------------------------------

    def _learn(self, passes: int) -> None:
        """Have every module tell that it is called, until some more backward passes have begun."""
        self.left = passes
        if self._model is None or self._learning:
            return
        self._depth = 0
        for module in callable_modules(self._model):
            self._learning.append(before_forward(module, self._enter))
            self._learning.append(after_forward(module, self._leave, always_call=True))

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self._depth += 1
        if self._depth > 1 or self.phases is None:
            return
        self.called(module, inputs)
        if id(module) not in self._learned and module.training and torch.is_grad_enabled():
            self._learned[id(module)] = before_forward(module, self.called)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._depth -= 1

    def look(self, seen: bool) -> None:
        """Learn from a backward pass whether the model is still called as before."""
        self._depth = 0
        if self.left:
            self.left -= 1
            if not self.left:
                take_off(self._learning)
        elif not seen:
            # Another part of the model may be used from now on. One that is never seen costs less and less.
            self._unseen += 1
            if self._unseen >= self._again:
                self._unseen, self._again = 0, min(2 * self._again, FURTHEST)
                self._learn(1)

    def fail(self, error: Exception) -> None:
        """Mark no more."""
        self.remove()
        report_raised(self._reporter, "watch: stages", error)
