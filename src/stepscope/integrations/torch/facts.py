"""Facts of a model and its optimizers for the configuration of a run."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

FLAT = "FullyShardedDataParallel"
"""The first FSDP: its parameters are flat shards, of which no rank knows the model's own."""


def model_facts(model: nn.Module) -> dict[str, Any]:
    """Return class, wrappers, and sizes of a model.

    Parameters that several modules share count once, sharded ones (DTensor) with their full size. Sizes are
    not known for the first FSDP, which has flat shards, and for lazy modules before their first batch.
    """
    inner, wrappers = unwrap(model)
    facts: dict[str, Any] = {"class": type_name(inner)}
    if wrappers:
        facts["wrapped_by"] = wrappers
    parameters = list(model.parameters())
    known = [parameter for parameter in parameters if not nn.parameter.is_lazy(parameter)]
    if len(known) == len(parameters) and FLAT not in wrappers:
        facts["parameters"] = sum(parameter.numel() for parameter in known)
        facts["trainable_parameters"] = sum(
            parameter.numel() for parameter in known if parameter.requires_grad
        )
        facts["parameter_bytes"] = sum(parameter.numel() * parameter.element_size() for parameter in known)
    facts["dtypes"] = sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})
    facts["devices"] = sorted({parameter.device.type for parameter in parameters})
    return facts


def unwrap(model: nn.Module) -> tuple[nn.Module, list[str]]:
    """Return the user's own module, and its wrappers, outermost first."""
    wrappers = []
    while True:
        kind = type(model)
        inner: Any = None
        if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel) or kind.__name__ == FLAT:
            inner = model.module
        elif kind.__name__ == "OptimizedModule":
            inner = getattr(model, "_orig_mod", None)
        if isinstance(inner, nn.Module):
            wrappers.append("torch.compile" if kind.__name__ == "OptimizedModule" else kind.__name__)
            model = inner
            continue
        if is_fsdp2(model):
            wrappers.append("fully_shard")
        return model, wrappers


def is_fsdp2(model: nn.Module) -> bool:
    """Return whether ``fully_shard`` was applied to a module, which changes its class in place."""
    return any(base.__name__ == "FSDPModule" for base in type(model).__mro__)


def type_name(model: nn.Module) -> str:
    """Return the name of the class that the user wrote."""
    kind = type(model)
    if is_fsdp2(model) and len(kind.__bases__) > 1:
        kind = kind.__bases__[1]
    return kind.__qualname__


def optimizer_facts(optimizer: Optimizer) -> dict[str, Any]:
    """Return class and settings of an optimizer, by parameter group."""
    return {
        "class": type(optimizer).__qualname__,
        "groups": [
            {key: _setting(value) for key, value in group.items() if key != "params"}
            | {
                "parameters": sum(
                    parameter.numel() for parameter in group["params"] if not nn.parameter.is_lazy(parameter)
                )
            }
            for group in optimizer.param_groups
        ],
    }


def _setting(value: Any) -> Any:
    """A tensor on a device is named, not read: reading it would wait for the device."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.is_cpu and value.numel() == 1 else f"tensor on {value.device}"
    return value


def inner_optimizer(optimizer: Any) -> Optimizer:
    """Return the optimizer whose ``step`` updates the parameters, without the wrappers of trainers.

    Raises:
        TypeError: It is not an optimizer of PyTorch.
    """
    seen = optimizer
    for _ in range(4):
        inner = getattr(seen, "optimizer", None)
        if inner is None:
            break
        seen = inner
    if not isinstance(seen, Optimizer):
        raise TypeError(f"expected a torch.optim.Optimizer, got {type(optimizer).__qualname__}")
    return seen
