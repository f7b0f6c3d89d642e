"""The loss of each step of a PyTorch loop: the sum of the numbers on which it calls ``backward``.

A program prints its loss now and then, or once an epoch, but computes it in each step. The gradients of
several passes add up, as those of parts of a batch do, and so do their losses.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Any

from stepscope.launch.loop import Loop
from stepscope.launch.process import process
from stepscope.names.own import BACKWARD_LOSS
from stepscope.record import Run
from stepscope.record.hooks import Hook


class Objective(Hook):
    """Records the sum of the roots of each step's backward passes, as one number.

    It stops at a step for which that is no loss of one model: several optimizers, another one than before, a
    root that is no single number, or one below 0, as of a policy.

    Args:
        torch: The package.
        loop: The steps.
    """

    def __init__(self, torch: ModuleType, loop: Loop) -> None:
        self._torch, self._loop = torch, loop
        self._run: Run | None = None
        self._sum: Any = None
        self._before: Any = None
        """The sum of an update whose step had not ended when the next pass began."""
        self._updates = 0
        self._updater: set[int] = set()
        self._whole, self._inside = True, False
        self._scaled: tuple[Any, Any] = None, None

    def watch(self, scaler: Any) -> None:
        """Hear of backward passes, and of the losses that a scaler scales.

        Args:
            scaler: The class of scalers.
        """
        original, scale = self._torch.autograd.backward, scaler.scale

        @wraps(original)
        def backward(tensors: Any, grad_tensors: Any = None, *arguments: Any, **options: Any) -> Any:
            # A checkpoint asks for a pass within a pass.
            if not self._whole or self._inside or process.led or process.off:
                return original(tensors, grad_tensors, *arguments, **options)
            self._inside = True
            try:
                with suppress(Exception):  # a tensor of a kind of its own: the program goes on
                    self._take(tensors, weighted=grad_tensors is not None)
                return original(tensors, grad_tensors, *arguments, **options)
            finally:
                self._inside = False

        @wraps(scale)
        def scaling(scaler: Any, outputs: Any) -> Any:
            scaled = scale(scaler, outputs)
            self._scaled = scaled, outputs
            return scaled

        self._torch.autograd.backward, scaler.scale = backward, scaling

    def _take(self, roots: Any, *, weighted: bool) -> None:
        root = roots[0] if isinstance(roots, tuple | list) and len(roots) == 1 else roots
        (scaled, outputs), self._scaled = self._scaled, (None, None)
        root = outputs if root is scaled else root
        plain = type(root) is self._torch.Tensor and root.numel() == 1 and root.is_floating_point()
        if weighted or not plain:
            self._stop()
            return
        if self._updates != self._loop.updates:
            self._updates, self._before, self._sum = self._loop.updates, self._sum, None
        value = root.item() if root.device.type == "cpu" else root.detach()  # no wait for a device
        self._sum = value if self._sum is None else self._sum + value

    def begin(self, run: Run) -> None:
        """Record from now on."""
        self._run = run

    def after_step(self, step: int) -> None:
        """Record the number of a step."""
        if self._before is not None:
            value, self._before = self._before, None
        else:
            value, self._sum = self._sum, None
        if not self._whole or value is None or self._run is None:
            return
        self._updater = self._updater or set(self._loop.updated)
        of_one = len(self._updater) == 1 and self._updater == self._loop.updated
        if of_one and not (type(value) is float and value < 0):
            self._run.scalar(BACKWARD_LOSS, value, step)
        else:
            self._stop()

    def _stop(self) -> None:
        self._whole, self._sum, self._before = False, None, None
