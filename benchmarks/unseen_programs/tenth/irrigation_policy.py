"""A controller of irrigation learns from logs of the fields, with advantages that fade (GAE)."""

from collections.abc import Iterator

import torch
from torch import nn

SENSORS, VALVES, MOMENTS = 12, 5, 1024
GAMMA, FADE, EPOCHS, CLIP = 0.99, 0.95, 2, 0.2


class Controller(nn.Module):
    """An actor and a critic that share a layer."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(SENSORS, width), nn.Tanh())
        self.actor = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, VALVES))
        self.critic = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, fields: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.shared(fields)
        return self.actor(hidden).log_softmax(-1), self.critic(hidden).squeeze(-1)


class Log:
    """Made-up days of a field: the soil dries, and a valve that fits the sensors earns a reward."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(10)
        self.fit = torch.randn(SENSORS, VALVES, generator=self.generator)

    def read(self) -> tuple[torch.Tensor, ...]:
        fields = torch.randn(MOMENTS + 1, SENSORS, generator=self.generator)
        valves = torch.randint(0, VALVES, (MOMENTS,), generator=self.generator)
        rewards = (fields[:-1] @ self.fit).gather(1, valves[:, None]).squeeze(1) / SENSORS
        ends = (torch.rand(MOMENTS, generator=self.generator) < 0.01).float()
        return fields, valves, rewards, ends


def advantages(rewards: torch.Tensor, values: torch.Tensor, ends: torch.Tensor, mended: bool) -> torch.Tensor:
    """Compare what followed each moment with what the critic foresaw."""
    found = torch.zeros(MOMENTS)
    if mended:
        rewards, values, ends, found = rewards.tolist(), values.tolist(), ends.tolist(), [0.0] * MOMENTS
    carried = 0.0
    for moment in reversed(range(MOMENTS)):  # cause
        going = 1.0 - ends[moment]
        surprise = rewards[moment] + GAMMA * values[moment + 1] * going - values[moment]
        carried = surprise + GAMMA * FADE * going * carried
        found[moment] = carried
    return torch.as_tensor(found)


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Controller()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5)
    log = Log()
    while True:
        fields, valves, rewards, ends = log.read()
        with torch.no_grad():
            chances, values = model(fields)
            before = chances[:-1].gather(1, valves[:, None]).squeeze(1)
        gains = advantages(rewards, values, ends, mended)
        returns = gains + values[:-1]
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        for _ in range(EPOCHS):
            chances, values = model(fields[:-1])
            ratio = (chances.gather(1, valves[:, None]).squeeze(1) - before).exp()
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            policy = -torch.minimum(ratio * gains, clipped * gains).mean()
            loss = policy + 0.5 * nn.functional.mse_loss(values, returns)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        yield loss.item()
