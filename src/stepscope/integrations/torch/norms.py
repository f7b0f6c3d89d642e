"""The norm of all gradients in every step, with as little Python as can be.

Training has just gone through more memory than any cache holds, so that each object touched here costs far
more than in a loop of its own. What does not change from step to step is prepared once; what is left is to
ask each gradient where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from stepscope.integrations.torch import measure
from stepscope.integrations.torch.parameters import ParameterShare, is_distributed
from stepscope.record.statistics.table import StatisticsTable


class Norms:
    """Sums the squares of gradients where they lie on the CPU, whole and dense.

    Args:
        shares: The parameters, each measured whole.

    Attributes:
        able: Whether the parameters are of such a kind.
    """

    def __init__(self, shares: Sequence[ParameterShare]) -> None:
        parameters = [share.entry.parameter for share in shares]
        self.able = bool(shares) and all(map(is_plain, parameters))
        self._parts = [(each, each.dtype, each.numel()) for each in parameters]
        self._columns = np.zeros((4, len(parameters)), np.int64)
        if self.able:
            self._columns[1] = [size for _, _, size in self._parts]
            self._columns[2] = [measure.TYPES[dtype] for _, dtype, _ in self._parts]

    def table(self) -> StatisticsTable | None:
        """Return one row for all gradients together; None where one of them is to be looked at closer."""
        columns, kept = self._columns, []
        addresses: list[int] = []
        try:
            for parameter, dtype, size in self._parts:
                gradient = parameter.grad
                if gradient is None:
                    addresses.append(0)
                    continue
                alike = type(gradient) is Tensor and gradient.dtype is dtype and gradient.numel() == size
                if not (alike and gradient.is_cpu):
                    return None
                if not gradient.is_contiguous():
                    if gradient.layout is not torch.strided:
                        return None
                    gradient = measure.flat(gradient)
                    kept.append(gradient)
                addresses.append(gradient.data_ptr())
        except RuntimeError:  # a layout that has no memory to point to
            return None
        columns[0] = addresses
        there = columns[0] != 0
        found = StatisticsTable(1)
        measure.add(found, columns if there.all() else columns[:, there].copy(), squares_only=True)
        return found


def is_plain(parameter: Tensor) -> bool:
    """Return whether gradients of a parameter are usually on the CPU, dense, of a type that is measured."""
    usual = parameter.is_cpu and parameter.layout is torch.strided and parameter.dtype in measure.TYPES
    return usual and not is_distributed(parameter)
