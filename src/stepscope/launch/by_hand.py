"""PyTorch without an optimizer: between two backward passes the program has changed the weights itself.

A pass whose weights have changed since the pass before follows an update. A pass with the same weights
adds up gradients, whoever asks for them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from ctypes import string_at
from typing import Any
from weakref import ref

from stepscope.launch.loop import Loop
from stepscope.launch.process import process

MAX_WEIGHTS = 8
"""Weights of a pass that are compared, those nearest to the loss."""
MAX_NODES = 2_000
"""Operations of a pass among which they are looked for."""
MAX_KNOWN = 64
"""Weights of several networks, the newest ones."""
SAMPLE_BYTES = 32
"""The first ones of a weight that are compared."""


class ByHand:
    """Notices such updates as long as the program has made no optimizer.

    ``p.data -= …`` counts no version of a tensor, so where none has changed, values are compared. Those of a
    device are not: reading them would wait for it.

    Args:
        loop: Takes the updates.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._known: list[ref[Any]] = []
        self._versions: list[int] = []
        self._values: list[bytes] | None = None  # not read since a version changed
        self._shapes: list[Any] = []
        self._ended = 0.0
        self._replaces = False

    def backward_begins(self, outputs: Any) -> None:
        """Note an update before this pass, or weights that were not known."""
        if process.led or process.off:
            return
        if not self.look():
            with process.apart():
                self._meet(weights_of(outputs))

    def backward_ended(self) -> None:
        """Note when the pass ended."""
        self._ended = self._loop.now()

    def look(self) -> bool:
        """Return whether weights have changed since the last look, and take the update if so."""
        updater = None
        with process.apart():
            updater = self._updater()
        if updater is not None:
            self._loop.take_update(updater, self._loop.begun)
        return updater is not None

    def _updater(self) -> Any:
        """Return the first weight that has changed, which stands for those of its network."""
        tensors = [known() for known in self._known]
        versions = [
            before if tensor is None else tensor._version
            for tensor, before in zip(tensors, self._versions, strict=True)
        ]
        before: Sequence[int | bytes] = self._versions
        now: Sequence[int | bytes] = versions
        if versions != self._versions:
            self._versions, self._values = versions, None
        else:
            now = values = list(map(first_bytes, tensors))
            before, self._values = self._values or values, values
        pairs = zip(tensors, before, now, strict=True)
        return next((tensor for tensor, old, new in pairs if old != new and tensor is not None), None)

    def _meet(self, weights: list[Any]) -> None:
        """Take the weights of a pass before which none has changed.

        New tensors in the place of several are new weights. In the place of one, it may be a batch.
        """
        alive = [tensor for known in self._known if (tensor := known()) is not None]
        known = set(map(id, alive))
        new = [tensor for tensor in weights if id(tensor) not in known]
        shapes = [tensor.shape for tensor in weights]
        if len(new) == len(weights) > 1 and shapes == self._shapes:
            alive.clear()
            self._replaces = True
            self._loop.take_update(self, self._loop.begun)
        self._shapes = shapes
        self._known = list(map(ref, [*alive, *new][-MAX_KNOWN:]))
        self.note()

    def note(self) -> None:
        """Take the weights as they are now."""
        alive = [tensor for known in self._known if (tensor := known()) is not None]
        self._known = list(map(ref, alive))
        self._versions = [tensor._version for tensor in alive]
        self._values = list(map(first_bytes, alive))

    def close(self) -> None:
        """Note an update after the last pass; its step ends with that pass, as nobody knows when it was made.

        New tensors are not seen without a pass, so one with new weights counts.
        """
        loop = self._loop
        if loop.run is None or not loop.run.step_counter.running:
            return
        updater = self if self._replaces else self._updater()
        if updater is not None:
            loop.updated.add(id(updater))
            loop.ended = self._ended


def first_bytes(tensor: Any) -> bytes:
    """Return the first values of a weight; none of one that keeps no values of its own on this machine."""
    torch = sys.modules["torch"]
    if type(tensor) not in (torch.nn.Parameter, torch.Tensor) or not tensor.is_cpu:
        return b""
    if tensor.layout is not torch.strided or not tensor.is_contiguous() or not tensor.nbytes:
        return b""
    return string_at(tensor.data_ptr(), min(SAMPLE_BYTES, tensor.nbytes))


def weights_of(outputs: Any) -> list[Any]:
    """Return the tensors at the beginning of a graph that are nearest to its outputs.

    Args:
        outputs: A tensor or several.
    """
    torch = sys.modules["torch"]
    inner = getattr(torch._C, "_functorch", None)  # what ``torch.func`` computes with holds the program's own
    nodes = deque(
        node
        for each in (outputs if isinstance(outputs, tuple | list) else [outputs])
        if (node := getattr(each, "grad_fn", None)) is not None
    )
    weights: list[Any] = []
    seen: set[Any] = set(nodes)
    while nodes and len(weights) < MAX_WEIGHTS and len(seen) < MAX_NODES:
        node = nodes.popleft()
        tensor = getattr(node, "variable", None)
        if isinstance(tensor, torch.Tensor):
            while inner is not None and inner.is_functorch_wrapped_tensor(tensor):
                tensor = inner.get_unwrapped(tensor)
            weights.append(tensor)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return weights
