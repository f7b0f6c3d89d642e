"""PyTorch: layers are measured as they are called, as those of any torch model, over all ranks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import keras
from torch import nn

from stepscope.integrations.keras.taps import Taps
from stepscope.integrations.torch.activations import Activations
from stepscope.record import Run
from stepscope.record.protocol import Hook
from stepscope.record.statistics import ActivationHook

STAND_INS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class Chosen(Activations):
    """Measures layers that are chosen already."""

    def _wants(self, name: str, layer: nn.Module) -> bool:
        return bool(name)


class EagerActivations(Hook):
    """Stands for the model before ``integrations.torch``: a module for each layer, called with its output.

    Args:
        run: The run.
        hook: Says what and when.
        taps: The layers.
    """

    ranks = "all"

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps) -> None:
        kinds = {name: STAND_INS.get(taps.kinds.get(name, ""), nn.Identity) for name in taps.names}
        self._modules = {name: kind() for name, kind in kinds.items()}
        self._model = nn.ModuleDict({name.replace(".", "_"): each for name, each in self._modules.items()})
        self._taps, self._inner = taps, Chosen(run, hook, self._model)
        self._opened = ExitStack()

    def before_step(self, step: int) -> None:
        """Begin a forward pass; observe layers if it is measured."""
        for each in list(self._model._forward_pre_hooks.values()):
            each(self._model, (), {})
        if self._inner._pass is not None:
            self._opened.enter_context(self._taps.open(self._see))

    def after_step(self, step: int) -> None:
        """End it."""
        self._opened.close()
        for each in list(self._model._forward_hooks.values()):
            each(self._model, (), None)

    def finish(self, timeout: float) -> None:
        """Record what is measured already, and stop measuring."""
        self._opened.close()
        self._inner.finish(timeout)

    def _see(self, name: str, out: Any) -> None:
        if out.ndim >= 4 and keras.backend.image_data_format() == "channels_last":
            out = out.movedim(-1, 1)
        module = self._modules[name]
        for each in list(module._forward_hooks.values()):
            each(module, (), out)
