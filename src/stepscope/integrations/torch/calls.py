"""Hooks on modules that harm nobody: copies and saved files of a model leave them behind, compilers too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.utils.hooks import RemovableHandle


def take_off(handles: list[Any]) -> None:
    """Remove hooks, the last added first, and empty the list."""
    while handles:
        handles.pop().remove()


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
