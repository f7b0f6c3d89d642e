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
from stepscope.integrations.torch.calls import after_forward, before_forward, callable_modules
from stepscope.integrations.torch.completion import DeviceStages
from stepscope.kernels.steps import Steps
from stepscope.record.problems import Reporter

LEARNING = 3
"""Backward passes in which all modules have hooks, to learn which of them are called from outside."""
FURTHEST = 1 << 16
"""At most so many backward passes without a known forward pass lie between two attempts to learn anew."""


class Phases:
    """Which stage of its step a run is in, as far as calls of PyTorch tell; one for all models of a run.

    Args:
        steps: The steps of the run.
    """

    def __init__(self, steps: Steps) -> None:
        assert steps.stages is not None
        self._steps, self._stages = steps, steps.stages
        names = ("copy", "forward", "backward", "optimizer")
        self._copy, self._forward, self._backward, self._optimizer = map(self._stages.number, names)
        self._differentiating = self._after_backward = False
        self._stepping = 0
        self._entered = self._new = False
        """Whether the running step of the optimizer has called no closure yet, and is the first."""
        self.users = 0
        self.seen = True
        """Whether the forward pass before the last backward pass was seen."""

    def _begin(self) -> None:
        """Forget the stages of a step that did not come to its end."""
        if self._stages.fresh:
            self._stepping = 0
            self._entered = self._after_backward = self._differentiating = False

    def called(self, module: nn.Module, copies: bool) -> None:
        """Note that a module is called.

        Args:
            module: The module.
            copies: Whether the data has to be copied to another device before.
        """
        stages = self._stages
        running = stages.running
        if running == self._forward or stages.held or not stages.mine:
            return
        self._begin()
        if self._differentiating:  # a checkpoint computes it again
            return
        if copies and running == 0 and stages.fresh and stages.arrived:
            stages.rename(self._copy)
            stages.mark(0)
        if not module.training or not torch.is_grad_enabled():
            return  # a rollout, a target, an evaluation: what it is, is not known
        if running == self._optimizer and self._entered:
            self._closure(0)  # before it called the model
        self._entered = self._after_backward = False
        stages.mark(self._forward)

    def backward_begins(self) -> None:
        """Note that gradients are asked for."""
        stages = self._stages
        self._begin()
        if self._differentiating or stages.held or not stages.mine:
            return
        running = stages.running
        self.seen = running == self._forward
        if not self.seen:
            if running == self._optimizer and self._entered:
                self._closure(self._forward)
            elif running == 0 and (stages.arrived or not stages.fresh):
                stages.rename(self._forward)
        self._differentiating, self._entered = True, False
        stages.mark(self._backward)

    def _closure(self, number: int) -> None:
        """Give the time since the optimizer's step began to another stage, as a closure is called."""
        self._stages.rename(number)
        if self._new:  # the optimizer itself has not worked yet: it follows the stages of the closure
            self._stages.order.remove(self._optimizer)

    def backward_ended(self) -> None:
        """Note that the gradients are there."""
        if not self._differentiating:
            return
        self._differentiating = False
        if self._stepping:
            self._stages.mark(self._optimizer)
        else:
            self._stages.mark(0)
            self._after_backward = True

    def optimizer_begins(self) -> None:
        """Note that an optimizer steps."""
        stages = self._stages
        self._steps.optimized()
        self._begin()
        if stages.held or not stages.mine:
            return
        if stages.running == 0 and self._after_backward and not stages.fresh:
            stages.rename(self._backward)  # clipping, and waiting for other ranks
        elif stages.running == self._forward:
            stages.rename(0)  # nothing says where the backward pass began
        self._stepping += 1
        self._entered, self._after_backward = True, False
        self._new = self._optimizer not in stages.order
        stages.mark(self._optimizer)

    def optimizer_ended(self) -> None:
        """Note that it has stepped."""
        if not self._stepping:
            return
        self._stepping -= 1
        self._entered = False
        self._stages.mark(self._backward if self._differentiating else 0)


class StageMarks:
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
            phases = steps.stages.marker = Phases(steps)
        phases.users += 1
        self._phases: Phases | None = phases
        if timer is not None:
            steps.stages.device = timer
        first = None if model is None else next(model.parameters(), None)
        self._copies = first is not None and first.device.type not in ("cpu", "meta")
        self._learned: dict[int, RemovableHandle] = {}
        self._learning: list[RemovableHandle] = []
        self._depth = self._left = self._unseen = 0
        self._again = 1
        self._handles: list[RemovableHandle] = []
        self._learn(LEARNING)
        for optimizer in optimizers:
            self.join(optimizer)
        backward.listen(self)

    def join(self, optimizer: Optimizer) -> None:
        """Mark the steps of a further optimizer."""
        self._handles += [
            optimizer.register_step_pre_hook(self._begin),
            optimizer.register_step_post_hook(self._end),
        ]

    def follow(self, old: Optimizer, new: Optimizer) -> None:
        """Mark the steps of another optimizer, too, which replaced one."""
        self.join(new)

    def remove(self) -> None:
        """Stop marking."""
        phases, self._phases = self._phases, None
        if phases is None:
            return
        backward.ignore(self)
        for handle in (*self._handles, *self._learning, *self._learned.values()):
            handle.remove()
        self._handles, self._learning, self._learned = [], [], {}
        phases.users -= 1
        if not phases.users:
            self._stages.marker = None
        if self._timer is not None:
            self._timer.stop()  # what waits is still taken

    # --- which modules are called --------------------------------------------------------------------

    def _learn(self, passes: int) -> None:
        """Have every module tell that it is called, until some more backward passes have begun."""
        self._left = passes
        if self._model is None or self._learning:
            return
        self._depth = 0
        for module in callable_modules(self._model):
            self._learning.append(before_forward(module, self._enter))
            self._learning.append(after_forward(module, self._leave, always_call=True))

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self._depth += 1
        if self._depth > 1 or self._phases is None:
            return
        self._called(module, inputs)
        if id(module) not in self._learned and module.training and torch.is_grad_enabled():
            self._learned[id(module)] = before_forward(module, self._called)

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._depth -= 1

    def _called(self, module: nn.Module, inputs: Any) -> None:
        phases = self._phases
        try:
            if phases is not None:
                phases.called(module, self._copies)
        except Exception as error:  # noqa: BLE001  the module's own attributes
            self._fail(error)

    # --- what else is called -------------------------------------------------------------------------

    def backward_begins(self, outputs: Any) -> None:
        """Begin the backward stage."""
        if self._phases is None:
            return
        try:
            self._phases.backward_begins()
            self._look(self._phases.seen)
        except Exception as error:  # noqa: BLE001  the training goes on, whatever is wrong here
            self._fail(error)

    def _look(self, seen: bool) -> None:
        """Learn from a backward pass whether the model is still called as before."""
        self._depth = 0
        if self._left:
            self._left -= 1
            if not self._left:
                for handle in self._learning:
                    handle.remove()
                self._learning = []
        elif not seen:
            # Another part of the model may be used from now on. One that is never seen costs less and less.
            self._unseen += 1
            if self._unseen >= self._again:
                self._unseen, self._again = 0, min(2 * self._again, FURTHEST)
                self._learn(1)

    def backward_ended(self) -> None:
        """End the backward pass; the time after it belongs to its stage if the optimizer comes next."""
        if self._phases is not None:
            self._phases.backward_ended()

    def _begin(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._phases is not None:
            self._phases.optimizer_begins()

    def _end(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._phases is not None:
            self._phases.optimizer_ended()

    def _fail(self, error: Exception) -> None:
        self.remove()
        report_raised(self._reporter, "watch: stages", error)
