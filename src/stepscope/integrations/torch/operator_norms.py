"""How far a step moves each layer, in the norm that µP expects to be equal for all: an optional hook."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.integrations.guard import SelfEnding
from stepscope.integrations.torch.calls import take_off
from stepscope.integrations.torch.parameters import clean
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.protocol import Hook

if TYPE_CHECKING:
    from stepscope.record import Run


class UpdateScaleHook(SelfEnding, Hook):
    """Records weights and updates of matrices in the operator norm between root mean squares.

    For a matrix with n outputs and m inputs this is sigma_max √(m / n): how much larger than its input an
    output can be. Under µP the norm of an update is the same for all layers and all widths, and that of
    weights is about 1 (Yang, Simon and Bernstein 2023, arXiv 2310.17813, condition 1; Yang et al. 2022,
    arXiv 2203.03466). The update ratio that µP expects of a layer is thus the median update over its weights.

    - ``updates/LAYER/operator_norm`` and ``weights/LAYER/operator_norm``, by power iteration.

    A convolution is the matrix of its filters, an embedding, whose input is one row, the largest root mean
    square of a row. Vectors have no such norm. Parameters that are sharded are left out.

    Args:
        model: The model that has the parameters.
        optimizer: The optimizer that updates them.
        every_n_steps: Distance between samples, in steps of the optimizer. A sample copies the weights and
            costs 2 * ``iterations`` products of each matrix with a vector.
        iterations: Number of power iterations.
    """

    what = "operator norms"

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, *, every_n_steps: int = 200, iterations: int = 8
    ) -> None:
        self._matrices = dict(matrices(model))
        self._every, self._iterations = max(every_n_steps, 1), max(iterations, 1)
        self._optimizer = optimizer
        self._before: dict[str, Tensor] = {}
        self._vectors: dict[str, Tensor] = {}
        self._handles: list[Any] = []
        self._count = -1
        self._run: Run

    def begin(self, run: Run) -> None:
        """Know the run."""
        self._run = run
        if run.role.writes:
            self._handles = [
                self._optimizer.register_step_pre_hook(self._keep),
                self._optimizer.register_step_post_hook(self._measure),
            ]

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Take the hooks off."""
        self.remove()

    def remove(self) -> None:
        """Measure no more."""
        take_off(self._handles)

    def _keep(self, *_: object) -> None:
        self._count += 1
        if self._count % self._every == 0:
            self._before = {name: weight.detach().clone() for name, (weight, _) in self._matrices.items()}

    def _measure(self, *_: object) -> None:
        before, self._before = self._before, {}
        if not before:
            return
        with self._guarded():
            self._run.cost.call(self._record, before)

    def _record(self, before: dict[str, Tensor]) -> None:
        norms: dict[str, Any] = {}
        devices = [weight.device for weight in before.values() if weight.device.type == "cuda"][:1]
        with torch.no_grad(), torch.random.fork_rng(devices):
            for name, old in before.items():
                weight, shaped = self._matrices[name]
                if weight.grad is None:
                    continue
                for of, tensor in (("updates", weight.detach() - old), ("weights", old)):
                    norms[f"{of}/{name}/operator_norm"] = self._norm(f"{of}/{name}", shaped(tensor.float()))
        self._run.record(norms)

    def _norm(self, name: str, matrix: Tensor) -> Tensor:
        if matrix.ndim == 3:  # rows of an embedding
            return matrix[0].square().mean(1).sqrt().amax()
        vector = self._vectors.get(name)
        value, self._vectors[name] = operator_norm(matrix, self._iterations, vector)
        return value


def operator_norm(matrix: Tensor, iterations: int = 8, vector: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return sigma_max √(inputs / outputs) of a matrix, from below, and the vector that it belongs to.

    Args:
        matrix: [outputs, inputs].
        iterations: Of the power iteration.
        vector: [inputs], to begin with; by default random.
    """
    outputs, inputs = matrix.shape
    if vector is None or vector.shape != (inputs,) or not bool(vector.any()):
        vector = torch.randn(inputs, device=matrix.device)
    largest = torch.zeros((), device=matrix.device)
    for _ in range(iterations):
        vector = vector / vector.norm().clamp_min(1e-30)
        turned = matrix @ vector
        largest = turned.norm()
        vector = matrix.T @ (turned / largest.clamp_min(1e-30))
    return largest * math.sqrt(inputs / outputs), vector


def matrices(model: nn.Module) -> Any:
    """Yield each trained matrix by name, with the function that reshapes it to [outputs, inputs]."""
    for place, module in model.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            if weight.ndim < 2 or not weight.requires_grad or type(weight.data) is not Tensor:
                continue
            full = clean(f"{place}.{name}" if place else name)
            yield full, (weight, shape_of(module))


def shape_of(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return the function that reshapes a module's weights to outputs and inputs."""
    if isinstance(module, nn.Embedding):
        return lambda weight: weight[None]
    if type(module).__name__ == "Conv1D":  # of transformers: a linear layer the other way round
        return lambda weight: weight.T
    if isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
        return lambda weight: weight.transpose(0, 1).flatten(1)
    return lambda weight: weight.flatten(1)
