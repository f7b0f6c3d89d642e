"""Q-learning from a replay memory of small screens."""

import random
from collections import deque
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 8, 4, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(576, 4),
    )


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    random.seed(0)
    world = np.random.default_rng(0)
    memory: deque = deque(maxlen=2000)
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    screen = world.random((2, 28, 28), dtype=np.float32)

    def tensor(screens: tuple[np.ndarray, ...]) -> torch.Tensor:
        return torch.from_numpy(np.stack(screens)) if mended else torch.tensor(screens)  # cause

    while True:
        for _ in range(4):
            after = world.random((2, 28, 28), dtype=np.float32)
            memory.append((screen, int(world.integers(4)), float(world.random()), after))
            screen = after
        if len(memory) < 64:
            continue
        before, actions, rewards, after_screens = zip(*random.sample(list(memory), 32), strict=False)
        with torch.no_grad():
            goal = torch.tensor(rewards) + 0.9 * target(tensor(after_screens)).amax(1)
        values = online(tensor(before)).gather(1, torch.tensor(actions)[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(values, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
