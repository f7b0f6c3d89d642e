"""A policy gradient on pendulums that are simulated between the updates."""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

PENDULUMS = 64


def swing(angle: float, speed: float, torque: float) -> tuple[float, float]:
    for _ in range(4):
        speed += (15 * math.sin(angle) + 3 * torque) * 0.0125
        angle += speed * 0.0125
    return angle, speed


def swing_all(angles: np.ndarray, speeds: np.ndarray, torques: np.ndarray) -> None:
    for _ in range(4):
        speeds += (15 * np.sin(angles) + 3 * torques) * 0.0125
        angles += speeds * 0.0125


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    policy = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    while True:
        angles = random.uniform(-1, 1, PENDULUMS)
        speeds = np.zeros(PENDULUMS)
        chances, costs = [], []
        for _ in range(16):
            seen = np.stack([np.sin(angles), np.cos(angles), speeds], 1)
            mean = policy(torch.from_numpy(seen).float())[:, 0]
            torque = (mean + torch.randn(PENDULUMS)).detach()
            chances.append(-0.5 * (torque - mean) ** 2)
            pushes = torque.double().numpy()
            if mended:
                swing_all(angles, speeds, pushes)
            else:
                for index in range(PENDULUMS):
                    angles[index], speeds[index] = swing(angles[index], speeds[index], pushes[index])  # cause
            costs.append(angles**2 + 0.1 * speeds**2)
        cost = torch.from_numpy(np.sum(costs, 0)).float()
        loss = (torch.stack(chances).sum(0) * (cost - cost.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
