"""A small convolutional network in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from stepscope.integrations.torch import watch
from stepscope.integrations.torch.graph import trace
from stepscope.record import Run


class Classifier:
    """Two convolutions and two dense layers, trained with Adam, on the GPU if there is one."""

    name = "cnn 32-64-128"

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # so small a model gains nothing from more, and the page wants a core too
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 4 * 4, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        ).to(self.device)
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self, images: Any, labels: Any, learning_rate: float) -> tuple[Any, Any, Any]:
        """Train on one batch; return loss and accuracy as tensors at once. The run measures the norm."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        loss, accuracy = self._forward(images, labels)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss, accuracy, None

    @torch.no_grad()
    def evaluate(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return loss and accuracy as tensors."""
        return self._forward(images, labels)

    @torch.no_grad()
    def chances(self, images: Any) -> tuple[Any, Any]:
        """Return the probability of each number, [n, 10], and the last hidden layer, [n, 128]."""
        hidden = torch.from_numpy(images).to(self.device)[:, None]
        for layer in list(self.model)[:-1]:
            hidden = layer(hidden)
        return self.model[-1](hidden).softmax(1).cpu().numpy(), hidden.cpu().numpy()

    def tensors(self) -> dict[str, Any]:
        """Return nothing: the run records gradients, weights and updates by itself."""
        return {}

    def watch(self, run: Run) -> None:
        """Have the run record every gradient, weight and update."""
        watch(self.model, self.optimizer, run)

    def record_graph(self, run: Run, images: Any) -> None:
        """Record the graph of a batch."""
        traced = trace(self.model, torch.from_numpy(images).to(self.device)[:, None])
        run.graph(traced.nodes, costs=traced.costs)

    def _forward(self, images: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
        wanted = torch.from_numpy(labels).to(self.device)
        logits = self.model(torch.from_numpy(images).to(self.device)[:, None])
        accuracy = (logits.argmax(1) == wanted).float().mean()
        return nn.functional.cross_entropy(logits, wanted), accuracy
