"""Each rank's own gradient in DistributedDataParallel, before the ranks' mean replaces it.

Torch calls a parameter's post-accumulate hook when its gradient of this rank is complete, and only then
reduces it. The hooks are there for the steps that are measured, and for no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from stepscope.integrations.torch import measure
from stepscope.integrations.torch.calls import take_off
from stepscope.record.statistics.table import SQUARES, StatisticsTable


def replicated(model: nn.Module | None) -> bool:
    """Return whether a model is in DistributedDataParallel over several ranks."""
    if not isinstance(model, nn.parallel.DistributedDataParallel):
        return False
    return bool(torch.distributed.get_world_size(model.process_group) > 1)


class OwnGradients:
    """Squared norms of a rank's own gradients in one step.

    Args:
        parameters: Of the model.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._handles: list[Any] = []
        self._squares: dict[int, Any] = {}
        self.armed = False

    def arm(self) -> None:
        """Observe the gradients of the next backward passes, of which the last one counts."""
        if not self.armed:
            self._squares.clear()
            for parameter in self._parameters:
                self._handles.append(_hook(parameter, self._look))
            self.armed = True

    def disarm(self) -> None:
        """Look no more."""
        take_off(self._handles)
        self.armed = False

    def take(self, seen: int) -> Tensor | float | None:
        """Return the squared norm of the whole gradient, and stop observing; None if parts were not seen.

        Args:
            seen: How many parameters have a gradient.
        """
        self.disarm()
        squares = list(self._squares.values())
        self._squares.clear()
        if not squares or len(squares) != seen:
            return None
        if isinstance(squares[0], float):
            return float(np.sum(squares))
        return torch.stack(squares).sum()

    def _look(self, parameter: Tensor) -> None:
        gradient = parameter.grad
        if gradient is None or gradient.layout is not torch.strided:
            return
        with torch.no_grad():
            if gradient.device.type == "cpu":
                table = StatisticsTable(1)
                measure.measure(table, [(0, gradient)], squares_only=True)
                self._squares[id(parameter)] = float(table.moments[0, SQUARES])
            else:
                norm = torch.linalg.vector_norm(measure.as_real(gradient), dtype=torch.float32)
                self._squares[id(parameter)] = norm.square()


def _hook(parameter: Any, look: Any) -> Any:
    return parameter.register_post_accumulate_grad_hook(look)
