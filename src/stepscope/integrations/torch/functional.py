"""Activations that a model calls as functions, such as ``F.relu(self.fc(x))``, and that are not modules.

In a forward pass that is measured, calls of these functions are seen and attributed to the layer whose output
they are given. What is not a layer's output, such as a sum of two, is not measured.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

SILENT = frozenset((torch.relu, torch.relu_, Tensor.relu, Tensor.relu_, functional.relu, functional.relu6))
"""Functions whose output can be zero for every input."""
FAR: Mapping[Any, Callable[[Tensor], Tensor]] = {
    **dict.fromkeys((torch.tanh, Tensor.tanh, functional.tanh, functional.hardtanh), torch.abs),
    **dict.fromkeys((torch.sigmoid, Tensor.sigmoid, functional.sigmoid), lambda out: (2 * out - 1).abs()),
}
"""How close an output is to its bounds, from 0 to 1."""


class FunctionalCalls(TorchFunctionMode):
    """Sees calls of activation functions between ``__enter__`` and ``__exit__``.

    Args:
        seen: Called with the row of the layer, the function, and what it returned.
    """

    def __init__(self, seen: Callable[[int, Any, Tensor], None]) -> None:
        super().__init__()
        self._seen = seen
        self._made: dict[int, tuple[int, weakref.ref[Tensor]]] = {}
        self.within = 0
        """How many modules that are activations themselves are being called."""

    def made(self, row: int, out: Tensor) -> None:
        """Note the output of a layer."""
        self._made[id(out)] = row, weakref.ref(out)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.within or not (func in SILENT or func in FAR) or not args or not isinstance(out, Tensor):
            return out
        row, made = self._made.get(id(args[0]), (-1, None))
        if made is not None and made() is args[0]:
            self._seen(row, func, out)
        return out


def compiled(model: nn.Module) -> bool:
    """Return whether any part of a model is compiled: its calls cannot be seen, and must not be disturbed."""
    return any(
        hasattr(each, "_orig_mod") or getattr(each, "_compiled_call_impl", None) is not None
        for each in model.modules()
    ) or any(isinstance(each, torch.jit.ScriptModule) for each in model.modules())
