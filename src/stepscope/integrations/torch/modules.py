"""A scope for every ``nn.Module``, by hooks that exist only while something is captured.

The hooks are PyTorch's global ones: two registrations serve all modules, and the model need not be known. The
outermost module that is called gives the names of those in it. A scope is recorded under the name that
PyTorch's own tracer of modules uses, so every reader of Kineto traces knows it; backward operators are given
to the scope of their forward operator by the reader, through autograd's sequence numbers.

A call of a whole model that is given the very tensors of its last call, while neither they nor its parameters
have changed, is marked: it computes what is known already, as far as it draws no random numbers.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from types import FrameType
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from stepscope.capture.backend import SAME_INPUTS
from stepscope.integrations.torch.calls import take_off

PREFIX = "nn.Module: "
WRAPPERS = frozenset({"DistributedDataParallel", "DataParallel", "OptimizedModule"})
"""Wrappers that only call one module and are not part of the model."""

_COMPILED = r"Using `torch\.compile\(module\)` when there are global hooks"
_is_any_autocast_enabled = getattr(torch._C, "_is_any_autocast_enabled", bool)
_Frame = tuple[str, int, Any]


class _Call(NamedTuple):
    """The last call of a model, by what its result depends on.

    Attributes:
        inputs: Weak references to its arguments, which do not keep them alive, and their versions.
        state: The versions of all parameters together, whether it was in training, and whether autocast was
            on.
    """

    inputs: tuple[tuple[Any, int], ...]
    state: tuple[int, bool, bool]


class ModuleScopes:
    """Opens a scope around each module's forward pass, from ``open`` to ``close``."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._filter: Any = None
        self._local = threading.local()
        self._names: dict[int, str] = {}
        self._labels: dict[tuple[int, int], str] = {}
        self._calls: dict[int, _Call | None] = {}
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
        take_off(self._handles)
        if self._filter in warnings.filters:
            cast("list[Any]", warnings.filters).remove(self._filter)

    def forget(self) -> None:
        """Let go of the modules."""
        self._names, self._labels, self._calls, self._roots = {}, {}, {}, []

    def settings(self) -> dict[str, str]:
        """Return the type of most parameters of the models that were called, as ``torch.model_dtype``."""
        sizes: dict[str, int] = {}
        for root in self._roots:
            for one in root.parameters():
                name = str(one.dtype).removeprefix("torch.")
                sizes[name] = sizes.get(name, 0) + one.numel()
        return {"torch.model_dtype": max(sizes, key=lambda name: sizes[name])} if sizes else {}

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
        if not outer and self._is_same(module, arguments, sys._getframe(1)):
            with self._begin(SAME_INPUTS):
                pass

    def _is_same(self, module: nn.Module, arguments: Any, caller: FrameType) -> bool:
        """Return whether a model is called as the last time, and keep this call for the next one."""
        before, call = self._calls.get(id(module)), _call_of(module, arguments, caller)
        self._calls[id(module)] = call
        if before is None or call is None or before.state != call.state:
            return False
        # Of one tensor there is one reference; two references would be compared by the values of theirs.
        pairs = zip(before.inputs, call.inputs, strict=False)
        same = (then[1] == now[1] and then[0] is now[0] for then, now in pairs)
        return len(before.inputs) == len(call.inputs) > 0 and all(same)

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


def _call_of(module: nn.Module, arguments: Any, caller: FrameType) -> _Call | None:
    """Return what the result of a call depends on; None if that cannot be told.

    Arguments by name are not given to a hook: whether there are any is read from the frame that calls it.
    What is computed again within a backward pass, to save memory, is meant to be.
    """
    if caller.f_locals.get("kwargs") != {} or torch._C._current_graph_task_id() != -1:
        return None
    if not all(isinstance(value, torch.Tensor) for value in arguments):
        return None
    try:
        inputs = tuple((weakref.ref(value), value._version) for value in arguments)
        versions = sum(one._version for one in module.parameters())
        return _Call(inputs, (versions, module.training, _is_any_autocast_enabled()))
    except RuntimeError:  # tensors of inference have no versions
        return None


def label_of(module: nn.Module, name: str, outer: str) -> str:
    """Return the name of a scope inside the one around it: ``layers.0``, or the class of the outermost."""
    kind = type(module).__name__.removeprefix("FSDP")
    if outer and name.startswith(outer + "."):
        return name[len(outer) + 1 :]
    short = name.removeprefix("module.").removeprefix("_orig_mod.")
    return kind if short in ("", "module", "_orig_mod") else short
