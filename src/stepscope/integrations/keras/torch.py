"""PyTorch: optimizer and layers are called in Python, and are measured as those of any torch model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any

import keras
import torch
from torch import Tensor, nn

from stepscope.integrations.keras.statistics import Taps, name_of
from stepscope.integrations.torch.activations import Activations
from stepscope.integrations.torch.clipping import ClipCall
from stepscope.integrations.torch.gradients import Gradients
from stepscope.record import Run
from stepscope.record.protocol import Hook
from stepscope.record.statistics import ActivationHook, GradientHook

STAND_INS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class EagerGradients:
    """Stands for the optimizer before ``integrations.torch``, with gradients in the attributes that it reads.

    Args:
        hook: Chooses the quantities, the steps and the parameters.
    """

    mixins: tuple[type, ...] = ()

    def __init__(self, hook: GradientHook) -> None:
        self.hook = hook
        self.param_groups: list[dict[str, Any]] = []
        self._variables: list[Any] = []
        self._pre: list[Callable[..., Any]] = []
        self._post: list[Callable[..., Any]] = []
        self._gradients: Gradients | None = None
        self._run: Run | None = None
        self._kept: list[tuple[Tensor, Tensor | None]] = []

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Take the variables that the optimizer trains."""
        self._variables = list(variables)
        self.param_groups = [{"params": [variable.value for variable in variables]}]
        if self._run is not None:
            run, self._run = self._run, None
            self.attach(run)

    def attach(self, run: Run) -> None:
        """Record into a run from its next step on; once the optimizer is built."""
        if self._run is run:
            return
        self._run = run
        if self.hook not in run.hooks:
            run.add_hook(self.hook)
        if self._variables:
            self._gradients = Gradients(run, self.hook, self, [self])  # type: ignore[arg-type, list-item]
            self.hook.parts.append(self._gradients)

    def before(
        self, unclipped: Sequence[Any] | None, clipped: Sequence[Any], variables: Sequence[Any]
    ) -> None:
        """Measure gradients and weights."""
        parameters = [variable.value for variable in variables]
        if not self._pre:
            return
        if unclipped is not None and self._gradients is not None:
            begun = perf_counter()
            known = frozenset(map(id, parameters))
            clip = KnownClip(norm_of(unclipped), 0.0, known)
            clip.norm_after = norm_of(clipped)
            self._gradients.clipped(clip, begun)
        pairs = [(parameter, parameter.grad) for parameter in parameters]
        try:
            for parameter, gradient in zip(parameters, clipped, strict=True):
                parameter.grad = gradient
            for hook in list(self._pre):
                hook(self, (), {})
        finally:
            for parameter, gradient in pairs:
                parameter.grad = gradient

    def reduced(self, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        """Do nothing: torch has reduced them in its backward pass."""

    def after(self, variables: Sequence[Any]) -> None:
        """Measure updates."""
        for hook in list(self._post):
            hook(self, (), {})

    # --- as an optimizer and a model of torch's -----------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call something before each step."""
        return Handle(self._pre, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call something after each step."""
        return Handle(self._post, hook)

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters by their names in Keras."""
        for variable in self._variables:
            yield name_of(variable), variable.value


class KnownClip(ClipCall):
    """A call that clipped, of which both norms are known."""

    norm_after: Tensor

    def after(self) -> Tensor:
        """Return the norm after clipping."""
        return self.norm_after


class Handle:
    """Removes a hook again.

    Args:
        hooks: The dictionary that holds it.
        hook: The hook.
    """

    def __init__(self, hooks: list[Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self) -> None:
        """Take it out."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def norm_of(gradients: Sequence[Any]) -> Tensor:
    """Return the norm of all gradients together."""
    some = [gradient.detach() for gradient in gradients if gradient is not None]
    norms = [torch.linalg.vector_norm(gradient) for gradient in some]
    whole: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return whole


class Chosen(Activations):
    """Measures layers that are chosen already."""

    def _wants(self, name: str, layer: nn.Module) -> bool:
        return bool(name)


class EagerActivations(Hook):
    """Stands for the model before ``integrations.torch``: a module for each layer, called with its output.

    Args:
        run: The run.
        hook: Chooses the quantities and the steps.
        taps: The layers that are measured.
    """

    ranks = "all"

    def __init__(self, run: Run, hook: ActivationHook, taps: Taps) -> None:
        kinds = {name: STAND_INS.get(taps.kinds.get(name, ""), nn.Identity) for name in taps.names}
        self._modules = {name: kind() for name, kind in kinds.items()}
        self._model = nn.ModuleDict(
            {name.replace(".", "_"): module for name, module in self._modules.items()}
        )
        self._taps, self._inner = taps, Chosen(run, hook, self._model)
        self._opened = ExitStack()

    def before_step(self, step: int) -> None:
        """Begin a forward pass; observe layers if it is measured."""
        for hook in list(self._model._forward_pre_hooks.values()):
            hook(self._model, (), {})
        if self._inner._pass is not None:
            self._opened.enter_context(self._taps.open(self._see))

    def after_step(self, step: int) -> None:
        """End it."""
        self._opened.close()
        for hook in list(self._model._forward_hooks.values()):
            hook(self._model, (), None)

    def finish(self, timeout: float) -> None:
        """Record the measurements so far, and stop measuring."""
        self._opened.close()
        self._inner.finish(timeout)

    def _see(self, name: str, out: Any) -> None:
        if out.ndim >= 4 and keras.backend.image_data_format() == "channels_last":
            out = out.movedim(-1, 1)
        module = self._modules[name]
        for hook in list(module._forward_hooks.values()):
            hook(module, (), out)
