"""Hooks on modules that harm nobody: copies and saved files of a model leave them behind, compilers too."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, Protocol

import torch
from torch import nn
from torch.compiler import is_compiling, is_dynamo_compiling
from torch.utils.hooks import RemovableHandle

from stepscope.kernels.marks import Marks, tell_call

_nothing = nullcontext().__exit__
"""Takes a hook's arguments and returns None; a file that holds it can be read where Stepscope is missing."""


class ModuleHook:
    """Calls a function when a module is called, but not while the call is being compiled.

    ``copy.deepcopy(model)`` and ``torch.save(model)`` take the hooks of a model along. These become hooks
    that do nothing, as neither a copy nor a file is part of the run. A compiler that traced into a hook would
    break the graph there, or refuse to compile.

    Args:
        call: The function; it takes the arguments of a hook of its kind.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return None if is_compiling() else self._call(*arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _nothing

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


def before_forward(module: nn.Module, call: Callable[..., Any], **options: Any) -> RemovableHandle:
    """Have a function called before each call of a module; options are those of PyTorch's hook."""
    return module.register_forward_pre_hook(ModuleHook(call), **options)


def after_forward(module: nn.Module, call: Callable[..., Any], **options: Any) -> RemovableHandle:
    """Have a function called after each call of a module; options are those of PyTorch's hook."""
    return module.register_forward_hook(ModuleHook(call), **options)


class Removable(Protocol):
    """A handle of a hook."""

    def remove(self) -> None:
        """Take the hook off."""


_told: dict[type[nn.Module], dict[int, tuple[weakref.ref[nn.Module], weakref.ref[Marks]]]] = {}
"""Modules whose calls their class tells, by identity, and who listens. Nothing here keeps either alive."""


def on_calls(module: nn.Module, listener: Marks) -> Removable:
    """Have ``listener.called`` called before each call of a module, through ``__call__`` of its class.

    If a module has a hook of any kind, PyTorch asks at each of its calls for hooks of every kind, which takes
    ten times as long as this.
    """
    kind = type(module)
    known = _told.get(kind)
    if known is None:
        if kind.__call__ is not nn.Module.__call__:  # one of its own, or somebody has wrapped it
            return before_forward(module, listener.called)
        known = _told[kind] = {}
        kind.__call__ = _telling(kind, known)  # type: ignore[method-assign]
    elif id(module) in known and known[id(module)][0]() is module:  # by another run
        return before_forward(module, listener.called)
    known[id(module)] = weakref.ref(module), weakref.ref(listener)
    return _Told(module)


def _telling(
    kind: type[nn.Module], listeners: dict[int, tuple[weakref.ref[nn.Module], weakref.ref[Marks]]]
) -> Callable[..., Any]:
    """Return a ``__call__`` for a class that tells of calls, but not while they are being compiled."""

    def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807  replaces this method
        if not is_dynamo_compiling():
            tell_call(listeners, self)
        return super(kind, self).__call__(*args, **kwargs)  # a class below may have another parent, too

    return __call__


class _Told:
    """The handle of a module whose calls its class tells.

    Args:
        module: The module.
    """

    def __init__(self, module: nn.Module) -> None:
        self._kind, self._key = type(module), id(module)

    def remove(self) -> None:
        """Tell of its calls no more; give the class back if it tells of no others."""
        known = _told.get(self._kind)
        if known is not None and known.pop(self._key, None) is not None and not known:
            del self._kind.__call__, _told[self._kind]


def is_compiled(module: nn.Module) -> bool:
    """Return whether a module's calls are compiled or scripted, so that nothing in it calls hooks."""
    return (
        hasattr(module, "_orig_mod")
        or getattr(module, "_compiled_call_impl", None) is not None
        or isinstance(module, torch.jit.ScriptModule)
    )


def callable_modules(model: nn.Module) -> Iterator[nn.Module]:
    """Yield a model and the modules in it whose calls pass through hooks, the outer before the inner ones.

    A module that ``torch.compile`` wrapped is one of them: its own call is ordinary. One that was compiled in
    place or scripted is not.
    """
    waiting, seen = [model], set()
    while waiting:
        module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        compiled = is_compiled(module)
        if not compiled or hasattr(module, "_orig_mod"):
            yield module
        if not compiled:
            waiting.extend(reversed(list(module.children())))
