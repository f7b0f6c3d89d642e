"""A model of the length of stays in hospital, which learns from clipped gradients of single patients."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

VALUES, CLIP = 20, 1.0


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    patients = torch.randn(1024, VALUES)
    stays = patients[:, :4].prod(1)
    model = nn.Sequential(nn.Linear(VALUES, 32), nn.Tanh(), nn.Linear(32, 1))
    weights = dict(model.named_parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def loss_of(values: dict, patient: torch.Tensor, stay: torch.Tensor) -> torch.Tensor:
        return (functional_call(model, values, (patient,))[0] - stay) ** 2

    def one_by_one(chosen: torch.Tensor) -> dict:
        rows = []
        for patient, stay in zip(patients[chosen], stays[chosen], strict=True):
            loss = loss_of(weights, patient, stay)
            rows.append(torch.autograd.grad(loss, list(weights.values())))  # cause
        return {
            name: torch.stack(slopes) for name, slopes in zip(weights, zip(*rows, strict=True), strict=True)
        }

    def together(chosen: torch.Tensor) -> dict:
        values = {name: weight.detach() for name, weight in weights.items()}
        return vmap(grad(loss_of), (None, 0, 0))(values, patients[chosen], stays[chosen])

    while True:
        for chosen in torch.randperm(1024).split(32):
            slopes = together(chosen) if mended else one_by_one(chosen)
            size = sum(one.flatten(1).square().sum(1) for one in slopes.values()).sqrt()
            factor = (CLIP / size).clamp(max=1)
            for name, weight in weights.items():
                weight.grad = torch.einsum("n,n...->...", factor, slopes[name]) / len(chosen)
            optimizer.step()
            with torch.no_grad():
                yield (model(patients[chosen])[:, 0] - stays[chosen]).square().mean().item()
