"""Activations that a model calls as functions, such as ``F.relu(self.fc(x))``, and that are not modules.

They are attributed to the layer whose output they are given; other values, such as a sum of two outputs, are
not measured. While the whole model is called, calls of these functions are seen. If a model is used by its
parts, such a mode has no known end, so autograd's graph is read before the backward pass: it holds the
results of the functions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from stepscope.integrations.torch.calls import is_compiled

SILENT = frozenset((torch.relu, torch.relu_, Tensor.relu, Tensor.relu_, functional.relu, functional.relu6))
"""Functions whose output can be zero for every input."""
FAR: Mapping[Any, Callable[[Tensor], Tensor]] = {
    **dict.fromkeys((torch.tanh, Tensor.tanh, functional.tanh, functional.hardtanh), torch.abs),
    **dict.fromkeys((torch.sigmoid, Tensor.sigmoid, functional.sigmoid), lambda out: (2 * out - 1).abs()),
}
"""How close an output is to its bounds, from 0 to 1."""


NODES: Mapping[str, Any] = {
    "ReluBackward0": torch.relu,
    "TanhBackward0": torch.tanh,
    "SigmoidBackward0": torch.sigmoid,
}
"""Functions by the name of their nodes in autograd's graph, which hold the function's result."""


def results(outputs: Any, made: Mapping[int, tuple[Any, bool]]) -> Iterator[tuple[int, Any, Tensor]]:
    """Yield row, function and result of each activation of a layer's output in autograd's graph.

    Args:
        outputs: The tensors at which the backward pass begins.
        made: By row, the node that made the layer's output, and whether the layer is an activation itself.
    """
    rows = {node: row for row, (node, _) in made.items()}
    own = {node for node, silent in made.values() if silent}
    waiting = [output.grad_fn for output in (outputs if isinstance(outputs, tuple | list) else (outputs,))
               if isinstance(output, Tensor)]  # fmt: skip
    visited: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        before = [earlier for earlier, _ in node.next_functions]
        waiting.extend(before)
        func = NODES.get(node.name())
        if func is not None and node not in own and before and before[0] in rows:
            try:
                result: Tensor = getattr(node, "_saved_result")  # noqa: B009  types do not know it
            except RuntimeError:  # changed in place, or released by an earlier pass
                continue
            yield rows[before[0]], func, result


class FunctionalCalls(TorchFunctionMode):
    """Sees calls of activation functions between ``__enter__`` and ``__exit__``.

    Args:
        seen: Called with the row of the layer, the function, and its result.
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
    return any(map(is_compiled, model.modules()))
