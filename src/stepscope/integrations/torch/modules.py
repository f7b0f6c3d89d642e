"""A scope for every ``nn.Module``, by hooks that exist only while something is captured.

The hooks are PyTorch's global ones: two registrations serve all modules, and the model need not be known. The
outermost module that is called gives the names of those in it. A scope is recorded under the name that
PyTorch's own tracer of modules uses, so every reader of Kineto traces knows it; backward operators are given
to the scope of their forward operator by the reader, through autograd's sequence numbers.
"""

from __future__ import annotations

import threading
import warnings
from typing import Any, cast

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

PREFIX = "nn.Module: "
WRAPPERS = frozenset({"DistributedDataParallel", "DataParallel", "OptimizedModule"})
"""Wrappers that only call one module and are not part of the model."""

_COMPILED = r"Using `torch\.compile\(module\)` when there are global hooks"
_Frame = tuple[str, int, Any]


class ModuleScopes:
    """Opens a scope around each module's forward pass, from ``open`` to ``close``."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._filter: Any = None
        self._local = threading.local()
        self._names: dict[int, str] = {}
        self._labels: dict[tuple[int, int], str] = {}
        self._roots: list[nn.Module] = []  # kept alive, so that no id is used again
        self._begin: Any = getattr(torch._C._profiler, "_RecordFunctionFast", torch.profiler.record_function)

    def open(self) -> None:
        """Register the hooks."""
        # torch.compile warns whoever calls a compiled module while there are global hooks; it is harmless:
        # compiled code does not run them, and nothing is compiled anew.
        warnings.filterwarnings("ignore", message=_COMPILED)
        self._filter = warnings.filters[0]
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]

    def close(self) -> None:
        """Remove them; scopes that are open stay open until their module returns."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._filter in warnings.filters:
            cast("list[Any]", warnings.filters).remove(self._filter)

    def forget(self) -> None:
        """Let go of the modules."""
        self._names, self._labels, self._roots = {}, {}, []

    def _before(self, module: nn.Module, arguments: Any) -> None:
        if torch.compiler.is_compiling():  # what is compiled meanwhile is compiled as without us
            return
        try:
            stack: list[_Frame] = self._local.stack
        except AttributeError:
            stack = self._local.stack = []
        outer_name, outer, _ = stack[-1] if stack else ("", 0, None)
        number = id(module)
        name = self._names.get(number)
        if name is None:
            name = self._learn(module)
        if type(module).__name__ in WRAPPERS:
            stack.append((outer_name, outer, None))
            return
        label = self._labels.get((number, outer))
        if label is None:
            label = self._labels[number, outer] = PREFIX + label_of(module, name, outer_name)
        scope = self._begin(label)
        scope.__enter__()
        stack.append((name, number, scope))

    def _after(self, module: nn.Module, arguments: Any, result: Any) -> None:
        if torch.compiler.is_compiling():
            return
        stack: list[_Frame] = getattr(self._local, "stack", [])
        if stack and (scope := stack.pop()[2]) is not None:
            scope.__exit__(None, None, None)

    def _learn(self, root: nn.Module) -> str:
        """Name all modules in one that has no name yet."""
        self._roots.append(root)
        for name, module in root.named_modules():
            self._names.setdefault(id(module), name)
        return self._names[id(root)]


def label_of(module: nn.Module, name: str, outer: str) -> str:
    """Return the name of a scope inside the one around it: ``layers.0``, or the class of the outermost."""
    kind = type(module).__name__.removeprefix("FSDP")
    if outer and name.startswith(outer + "."):
        return name[len(outer) + 1 :]
    short = name.removeprefix("module.").removeprefix("_orig_mod.")
    return kind if short in ("", "module", "_orig_mod") else short
