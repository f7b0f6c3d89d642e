"""Whether the gradients of an optimizer are ever set to zero: a fact of its first updates."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from stepscope.integrations.torch import backward
from stepscope.record import Run

UPDATES = 12
"""A program that keeps its gradients over so many updates does so for good."""
KEPT = {"gradients_kept": True}
"""The fact, in the run's configuration."""


class Zeroing:
    """Looks at one gradient after each of the first updates, and as each backward pass begins.

    A gradient that a pass finds as the update left it is added to. One that was set to zero in any way, by
    ``zero_grad``, None, ``zero_()`` or ``.data``, ends the looks: usually before the second update.

    Args:
        optimizer: Whose updates are observed.
        run: Whose configuration says so if the gradients are kept.
    """

    def __init__(self, optimizer: Optimizer, run: Run) -> None:
        self._run, self._over = run, False
        self._parameter: torch.Tensor | None = None
        self._gradient: torch.Tensor | None = None
        self._version, self._begun, self._updates = 0, False, 0
        # Read once at the end: a device is waited for only if all else says that gradients are kept.
        self._nonzero: list[torch.Tensor] = []
        self._handle: Any = optimizer.register_step_post_hook(self._updated)
        backward.listen(self)

    def remove(self) -> None:
        """Look no more."""
        self._end()
        self._handle.remove()
        backward.ignore(self)

    def backward_begins(self, outputs: Any) -> None:
        """Compare the gradient with the one that the last update left."""
        if self._over:
            self.remove()  # an optimizer that is stepping still goes through its hooks
            return
        gradient = self._gradient
        if gradient is None or self._parameter is None:
            return
        # A later pass before the next update finds what the first one added, or zeros.
        touched = not self._begun and gradient._version != self._version
        if touched or self._parameter.grad is not gradient:
            self.remove()
            return
        self._begun = True
        with torch.no_grad():
            self._nonzero.append(gradient.any())

    def backward_ended(self) -> None:
        """Nothing is to be done."""

    def _updated(self, optimizer: Optimizer, arguments: Any, options: Any) -> None:
        if self._over:
            return
        try:
            self._look(optimizer)
        except Exception:  # noqa: BLE001  gradients of any kind: what cannot be looked at says nothing
            self._end()

    def _look(self, optimizer: Optimizer) -> None:
        if self._parameter is None:
            known = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            plain = [one for one in known if type(one.grad) is torch.Tensor and not one.grad.is_sparse]
            if not plain:  # as of sharded models: their parameters are not gone through at each update
                self._end()
                return
            self._parameter = min(plain, key=torch.Tensor.numel)
        elif not self._begun:
            return  # a further update with the same gradient
        else:
            self._updates += 1
        if self._updates == UPDATES:
            if all(map(bool, self._nonzero)):
                self._run.describe(KEPT)
            self._end()
            return
        self._gradient, self._begun = self._parameter.grad, False
        if self._gradient is None:
            self._end()
        else:
            self._version = self._gradient._version

    def _end(self) -> None:
        self._over, self._parameter, self._gradient, self._nonzero = True, None, None, []
