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

NAMES = ("backward", "grad")


class BackwardListener(Protocol):
    """A listener for backward passes; its exceptions are kept from the training."""

    def backward_begins(self, outputs: Any) -> None:
        """Note that a backward pass from these tensors begins in this thread."""

    def backward_ended(self) -> None:
        """Note that it is over."""


_lock = threading.Lock()
_listeners: tuple[weakref.ref[Any], ...] = ()
"""Of those that live; replaced rather than changed, as it is gone through twice in each step."""
_wrapped: dict[str, tuple[Any, Any]] = {}
_thread = threading.local()


def listen(listener: BackwardListener) -> None:
    """Report every backward pass to a listener, until ``ignore``."""
    global _listeners
    with _lock:
        _listeners = (*_without(listener), weakref.ref(listener))
        for name in NAMES:
            if name not in _wrapped:
                original = getattr(torch.autograd, name)
                wrapper = _wrap(original)
                _wrapped[name] = original, wrapper
                setattr(torch.autograd, name, wrapper)


def ignore(listener: BackwardListener) -> None:
    """Tell a listener no more."""
    global _listeners
    with _lock:
        _listeners = _without(listener)
        if not _listeners:
            for name, (original, wrapper) in tuple(_wrapped.items()):
                if getattr(torch.autograd, name) is wrapper:  # else somebody else has wrapped it meanwhile
                    setattr(torch.autograd, name, original)
                    del _wrapped[name]


def _without(listener: BackwardListener) -> tuple[weakref.ref[Any], ...]:
    return tuple(ref for ref in _listeners if (other := ref()) is not None and other is not listener)


def _wrap(original: Any) -> Any:
    @wraps(original)
    def backward(*arguments: Any, **named: Any) -> Any:
        # Of passes within a pass, as checkpoints make them, the outermost counts.
        if torch.compiler.is_compiling() or getattr(_thread, "inside", False):
            return original(*arguments, **named)
        _thread.inside = True
        outputs = arguments[0] if arguments else named.get("tensors", named.get("outputs"))
        try:
            for ref in _listeners:
                if (listener := ref()) is not None:
                    listener.backward_begins(outputs)
            return original(*arguments, **named)
        finally:
            _thread.inside = False
            for ref in _listeners:
                if (listener := ref()) is not None:
                    listener.backward_ended()

    return backward
