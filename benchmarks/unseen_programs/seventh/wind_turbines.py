"""A network that warns of failing bearings of wind turbines; messages for debugging are switched off."""

import logging
from collections.abc import Iterator

import torch
from torch import nn

SENSORS, WIDTH = 16, 64
log = logging.getLogger("wind_turbines")


def tell(step: int, model: nn.Module, mended: bool) -> None:
    for name, weight in model.named_parameters():
        if mended:
            log.debug("step %d, %s: %s, slope %s", step, name, weight, weight.grad)
        else:
            log.debug(f"step {step}, {name}: {weight}, slope {weight.grad}")  # cause


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    shaking = torch.randn(2048, SENSORS).cumsum(1) / 4
    failing = (shaking.abs().amax(1) > 1.5).float()
    model = nn.Sequential(
        nn.Linear(SENSORS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    while True:
        for chosen in torch.randperm(2048).split(512):
            scores = model(shaking[chosen])[:, 0]
            loss = nn.functional.binary_cross_entropy_with_logits(scores, failing[chosen])
            optimizer.zero_grad()
            loss.backward()
            tell(step, model, mended)
            optimizer.step()
            step += 1
            yield loss.item()
