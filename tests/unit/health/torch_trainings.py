"""Small trainings in PyTorch that are measured by the hooks as users have them: what the rules see is real.

Time is passed in, and every measured step is waited for, so that a busy machine changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from support.clock import Time
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import watch

SAMPLED = 10
"""Steps between two samples of the layers."""
KINDS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


@cache
def digits():
    """Inputs and labels of scikit-learn's digits, shuffled: 1,500 to train on, 297 to evaluate."""
    from sklearn.datasets import load_digits  # seconds, for every worker that collects this

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    inputs, labels = data.data[order] / 16.0, data.target[order]
    return inputs[:1500], labels[:1500], inputs[1500:], labels[1500:]


def network(kind: str = "relu", *, depth: int = 2, width: int = 48, scale: float = 1.0) -> nn.Sequential:
    """A perceptron for the digits, with He's or Glorot's weights times ``scale``."""
    random = torch.Generator().manual_seed(0)
    parts: list[nn.Module] = []
    for a, b in pairwise([64, *[width] * depth]):
        parts += [nn.Linear(a, b), KINDS[kind]()]
    model = nn.Sequential(*parts, nn.Linear(width, 10))
    gain = 2.0 if kind == "relu" else 1.0
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.zeros_(layer.bias)
            with torch.no_grad():
                layer.weight.normal_(0, scale * (gain / layer.in_features) ** 0.5, generator=random)
    return model


@dataclass
class Training:
    """What is trained, and what goes wrong.

    Attributes:
        model: Its outputs are logits.
        optimizer: Made of the parameters.
        loss: Of outputs and labels.
        clip: Called with the parameters before each step of the optimizer.
        spoil: Called with the training, the step and the inputs; returns inputs.
        scaler: Of mixed precision.
    """

    model: nn.Module = field(default_factory=network)
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda own: torch.optim.SGD(own, 0.05, momentum=0.9)
    steps: int = 300
    loss: Callable[[Any, Any], torch.Tensor] = nn.functional.cross_entropy
    clip: Callable[[Any], Any] | None = None
    spoil: Callable[[Any, int, Any], Any] = lambda training, step, x: x
    scaler: Any = None
    evaluate: int = 0

    def run(self, directory: Any, **options: Any) -> ss.HealthHook:
        """Train and record; return what judged it."""
        health, time = ss.HealthHook(**options), Time(1_700_000_000.0)
        often: dict[str, Any] = {"every_n_steps": SAMPLED, "dense_steps": 0, "max_overhead": None}
        measures = [ss.GradientHook(**often), ss.ActivationHook(**often)]
        with ss.Run(directory, hooks=[health, *measures], _clock=time.clock) as run:
            self._loop(run, time, measures)
        return health

    def _loop(self, run: ss.Run, time: Time, measures: list[Any]) -> None:
        random = np.random.default_rng(0)
        inputs, labels, *held = (torch.as_tensor(each) for each in digits())
        inputs, held[0] = inputs.float(), held[0].float()
        optimizer = self.optimizer(self.model.parameters())
        with watch(self.model, optimizer, run, scaler=self.scaler):
            for step in run.steps(range(self.steps)):
                rows = random.choice(len(inputs), 64, replace=False)
                loss = self.loss(self.model(self.spoil(self, step, inputs[rows])), labels[rows])
                self._step(optimizer, loss)
                run.scalar("train/loss", loss)
                if self.evaluate and (step + 1) % self.evaluate == 0:
                    self.model.eval()
                    run.scalar("eval/loss", self.loss(self.model(held[0]), held[1]).detach())
                    self.model.train()
                if step % SAMPLED == 0:
                    for part in (part for hook in measures for part in hook.parts):
                        assert part._rounds.drain(60)
                time.now += 0.01

    def _step(self, optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        optimizer.zero_grad()
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if self.clip is not None:
            self.clip(self.model.parameters())
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
