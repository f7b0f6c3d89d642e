"""When optimizers step: one pair of hooks on each, and one on all, through which everybody hears of it."""

from __future__ import annotations

import weakref
from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from stepscope.integrations.torch.calls import take_off
from stepscope.kernels.marks import UpdateHooks

_joined: weakref.WeakKeyDictionary[Optimizer, Pair] = weakref.WeakKeyDictionary()
_all: list[Pair] = []


class Pair:
    """The two hooks; they and no more hold those who listen, so that an optimizer takes them along.

    Args:
        optimizer: On which they are; None for all.
    """

    def __init__(self, optimizer: Optimizer | None) -> None:
        hooks = UpdateHooks()
        self.hooks = weakref.ref(hooks)
        if optimizer is None:
            before = register_optimizer_step_pre_hook(hooks.update_begins)
            after = register_optimizer_step_post_hook(hooks.update_ended)
        else:
            before = optimizer.register_step_pre_hook(hooks.update_begins)
            after = optimizer.register_step_post_hook(hooks.update_ended)
        self._handles: list[Any] = [before, after]

    def remove(self) -> None:
        """Take them off."""
        take_off(self._handles)


class Joined:
    """One who listens.

    Args:
        listener: Of a class that ``UpdateHooks`` knows.
        optimizer: Whose steps it hears of; None for all.
    """

    def __init__(self, listener: object, optimizer: Optimizer | None = None) -> None:
        self._optimizer = None if optimizer is None else weakref.ref(optimizer)
        self._listener = weakref.ref(listener)
        pair = _pair_of(optimizer)
        hooks = None if pair is None else pair.hooks()
        if hooks is None:
            pair = Pair(optimizer)
            hooks = pair.hooks()
            assert hooks is not None
            if optimizer is None:
                _all[:] = [pair]
            else:
                _joined[optimizer] = pair
        hooks.change(listener, joins=True)

    def remove(self) -> None:
        """Listen no more."""
        optimizer = None if self._optimizer is None else self._optimizer()
        listener = self._listener()
        if listener is None or (self._optimizer is not None and optimizer is None):
            return
        pair = _pair_of(optimizer)
        hooks = None if pair is None else pair.hooks()
        if pair is None or hooks is None or hooks.change(listener, joins=False):
            return
        pair.remove()
        if optimizer is None:
            _all.clear()
        else:
            _joined.pop(optimizer, None)


def _pair_of(optimizer: Optimizer | None) -> Pair | None:
    if optimizer is None:
        return _all[0] if _all else None
    return _joined.get(optimizer)
