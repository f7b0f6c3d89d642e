"""When gradients are computed: every backward pass, whoever asks autograd for it.

``Tensor.backward`` and all that is built on it call ``torch.autograd.backward``; gradient penalties,
pipelines and ``torch.func`` call that or ``torch.autograd.grad``. While somebody listens, both are wrapped:
they act as before.
"""

from __future__ import annotations

import threading
import weakref
from functools import wraps
from typing import Any, Protocol

import torch

from stepscope.kernels.marks import BackwardPasses


class BackwardListener(Protocol):
    """A listener for backward passes; its exceptions are kept from the training."""

    def backward_begins(self, outputs: Any) -> None:
        """Note that a backward pass from these tensors begins in this thread."""

    def backward_ended(self) -> None:
        """Note that it is over."""


_lock = threading.Lock()
_passes = BackwardPasses()
_wrapped: dict[str, tuple[Any, Any]] = {}


def listen(listener: BackwardListener) -> None:
    """Report every backward pass to a listener, until ``ignore``."""
    with _lock:
        _passes.listeners = (*without(_passes.listeners, listener), weakref.ref(listener))
        for name, wrap in (("backward", _passes.heard), ("grad", _traceable)):
            if name not in _wrapped:
                original = getattr(torch.autograd, name)
                wrapper = wrap(original)
                _wrapped[name] = original, wrapper
                setattr(torch.autograd, name, wrapper)


def ignore(listener: BackwardListener) -> None:
    """Tell a listener no more."""
    with _lock:
        _passes.listeners = without(_passes.listeners, listener)
        if not _passes.listeners:
            for name, (original, wrapper) in tuple(_wrapped.items()):
                if getattr(torch.autograd, name) is wrapper:  # else somebody else has wrapped it meanwhile
                    setattr(torch.autograd, name, original)
                    del _wrapped[name]


def without(listeners: tuple[weakref.ref[Any], ...], listener: object) -> tuple[weakref.ref[Any], ...]:
    """Return the listeners that are alive, but for one."""
    return tuple(ref for ref in listeners if (other := ref()) is not None and other is not listener)


def _traceable(original: Any) -> Any:
    """Return ``grad``, heard unless it becomes part of a compiled graph; ``backward`` never does."""
    heard = _passes.heard(original)

    @wraps(original)
    def grad(*arguments: Any, **named: Any) -> Any:
        return (original if torch.compiler.is_compiling() else heard)(*arguments, **named)

    return grad
