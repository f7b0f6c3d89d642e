"""Curvature of the loss and the age of Adam's second moment: optional hooks, as they cost extra passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.integrations.guard import SelfEnding
from stepscope.integrations.torch.calls import take_off
from stepscope.integrations.torch.ledger import Evaluations, closure_in, is_nested, with_closure
from stepscope.record.protocol import Hook

if TYPE_CHECKING:
    from stepscope.record import Run

SHARPNESS = "curvature/sharpness"
EDGE = "curvature/edge_ratio"
SECOND_MOMENT = "optimizer/second_moment/"


class SharpnessHook(SelfEnding, Hook):
    """Records the largest eigenvalue of the loss's Hessian, and how near it is to the edge of stability.

    Power iteration on products of the Hessian with a vector (Pearlmutter 1994), each of which costs about two
    backward passes; the vector of the last measurement begins the next one. Gradient descent on a quadratic
    is stable below 2 / learning rate, with momentum b below 2 (1 + b) / learning rate (Cohen et al. 2021,
    arXiv 2103.00065): ``curvature/edge_ratio`` is sharpness over that, 1 at the edge. It is recorded for SGD
    only, because the steps of an adaptive optimizer are preconditioned, and its edge is not that of the loss.

    Args:
        loss: Returns the loss of a fixed small batch, with its graph; best with the model in ``eval`` mode.
        optimizer: The optimizer that has the parameters and the learning rate.
        every_n_steps: Distance between measurements.
        iterations: Number of products in each measurement.
    """

    what = "values of sharpness"
    hint = "attention needs its math kernel: torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"

    def __init__(
        self,
        loss: Callable[[], Tensor],
        optimizer: Optimizer,
        *,
        every_n_steps: int = 200,
        iterations: int = 6,
    ) -> None:
        self._loss, self._optimizer = loss, optimizer
        self._every, self._iterations = max(every_n_steps, 1), max(iterations, 2)
        self._vector: list[Tensor] | None = None
        self._run: Run

    def begin(self, run: Run) -> None:
        """Know the run."""
        self._run = run

    def after_step(self, step: int) -> None:
        """Measure if it is due; gradients and the random state are left as they are."""
        if step % self._every == 0 and not self._over:
            with self._guarded():
                self._run.cost.call(self._measure, step)

    def _measure(self, step: int) -> None:
        parameters = [p for group in self._optimizer.param_groups for p in group["params"] if p.requires_grad]
        devices = [p.device for p in parameters if p.device.type == "cuda"][:1]
        with torch.random.fork_rng(devices), torch.enable_grad():
            value, self._vector = sharpness(self._loss, parameters, self._iterations, self._vector)
        numbers = {SHARPNESS: value}
        group = self._optimizer.param_groups[0]
        if isinstance(self._optimizer, torch.optim.SGD) and float(group["lr"]) > 0:
            numbers[EDGE] = value * float(group["lr"]) / (2 * (1 + float(group["momentum"])))
        self._run.record(numbers, step)


def sharpness(
    loss: Callable[[], Tensor],
    parameters: Sequence[Tensor],
    iterations: int = 20,
    vector: list[Tensor] | None = None,
) -> tuple[float, list[Tensor]]:
    """Return the largest eigenvalue of the Hessian in size, with its sign, and the vector that it belongs to.

    The Rayleigh quotient of the last vector: its error falls with the square of the vector's.

    Args:
        loss: Returns the loss with its graph.
        parameters: That the Hessian is of.
        iterations: Products of the Hessian with a vector.
        vector: To begin with; by default random.
    """
    gradients = torch.autograd.grad(loss(), list(parameters), create_graph=True, allow_unused=True)
    known = [(g, p) for g, p in zip(gradients, parameters, strict=True) if g is not None]
    used = [p for _, p in known]
    if vector is None or [v.shape for v in vector] != [p.shape for p in used]:
        vector = [torch.randn_like(p) for p in used]
    value = math.nan
    for _ in range(iterations):
        norm = torch.sqrt(sum((v * v).sum() for v in vector))  # type: ignore[arg-type]
        vector = [v / norm.clamp_min(1e-30) for v in vector]
        product = torch.autograd.grad(
            [g for g, _ in known], used, grad_outputs=vector, retain_graph=True, allow_unused=True
        )
        turned = [
            torch.zeros_like(p) if h is None else h.detach() for h, p in zip(product, used, strict=True)
        ]
        value = float(sum((h * v).sum() for h, v in zip(turned, vector, strict=True)))
        vector = turned
    return value, vector


class SecondMoments:
    """Records how outdated Adam's second moment is, for each parameter, during a run.

    ``optimizer/second_moment/NAME`` is the root of the mean of g² / max(v̂, ε²), with the gradient that the
    optimizer receives and the second moment that it has before the step. It is about 1. If the gradient
    grows faster than v̂ follows, updates are too large, and above 2.3 a spike follows within some 8 steps
    (Wortsman et al. 2023, arXiv 2304.13013). Findings about loss spikes say whether this explains them.

    Args:
        optimizer: Adam, AdamW, NAdam or RAdam: one whose state has ``exp_avg_sq`` and ``step``.
        run: The run to record into.
        model: The model, for the names of the parameters.
        every_n_steps: Steps between two measurements; a spike can be explained if its steps were measured.
    """

    def __init__(self, optimizer: Optimizer, run: Run, model: nn.Module, *, every_n_steps: int = 1) -> None:
        self._optimizer, self._run, self._every = optimizer, run, max(every_n_steps, 1)
        self._model = model
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._count = -1
        self._evaluations: Evaluations | None = None
        self._handles = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def remove(self) -> None:
        """Record no more."""
        take_off(self._handles)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> Any:
        if is_nested(optimizer):
            return None
        self._count += 1
        self._evaluations = None
        if not self._run.recording:
            self.remove()
            return None
        if self._count % self._every:
            return None
        closure = closure_in(args, kwargs)
        if closure is None:
            self._run.record(self._ratios())
            return None
        self._evaluations = Evaluations(optimizer, closure, self._ratios)
        return with_closure(args, kwargs, self._evaluations)

    def _after(self, optimizer: Optimizer, *_: object) -> None:
        if is_nested(optimizer):
            return
        evaluations, self._evaluations = self._evaluations, None
        if evaluations is not None:
            self._run.record(evaluations.used() or {})

    def _ratios(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        with torch.no_grad():
            for group in self._optimizer.param_groups:
                for parameter in group["params"]:
                    ratio = second_moment(parameter, self._optimizer.state.get(parameter, {}), group)
                    if ratio is not None:
                        values[SECOND_MOMENT + self._name(parameter)] = ratio
        return values

    def _name(self, parameter: Tensor) -> str:
        if id(parameter) not in self._names:  # it came later
            self._names.update({id(p): name for name, p in self._model.named_parameters()})
        return self._names.get(id(parameter), "unnamed")


def second_moment(parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> Tensor | None:
    """Return the root of the mean of g² / max(v̂, ε²); None before there is a second moment."""
    gradient, moment, step = parameter.grad, state.get("exp_avg_sq"), state.get("step")
    if gradient is None or moment is None or step is None or "betas" not in group or float(step) < 1:
        return None
    corrected = moment / (1 - group["betas"][1] ** float(step))
    ratio: Tensor = (gradient.square() / corrected.clamp_min(float(group["eps"]) ** 2)).mean().sqrt()
    return ratio
