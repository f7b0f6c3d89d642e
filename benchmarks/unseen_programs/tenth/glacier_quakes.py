"""A recurrent network with an orthogonal weight tells quakes of a glacier from those of the ground."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

MOMENTS, CHANNELS, HIDDEN, KINDS, BATCH = 32, 6, 40, 4, 48


class Bend(nn.Module):
    """Shrink what is near zero, and keep the sign."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((width,), -0.01))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values.sign() * nn.functional.relu(values.abs() + self.shift)


class OrthogonalRNN(nn.Module):
    """Its recurrent weight stays orthogonal, so that slopes neither vanish nor explode."""

    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.mended = mended
        self.enter = nn.Linear(CHANNELS, HIDDEN)
        self.turn = parametrizations.orthogonal(nn.Linear(HIDDEN, HIDDEN, bias=False))
        self.bend = Bend(HIDDEN)

    def forward(self, traces: torch.Tensor) -> torch.Tensor:
        state = traces.new_zeros(len(traces), HIDDEN)
        states = []
        with parametrize.cached() if self.mended else contextlib.nullcontext():
            for moment in self.enter(traces).unbind(1):
                state = self.bend(moment + self.turn(state))  # cause
                states.append(state)
        return torch.stack(states, 1)


class Listener(nn.Module):
    def __init__(self, mended: bool) -> None:
        super().__init__()
        self.memory = OrthogonalRNN(mended)
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, KINDS)

    def forward(self, traces: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.memory(traces)[:, -1]))


class Traces:
    """Made-up traces of a few sensors: each kind of quake has its own pitch and fades at its own pace."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.time = torch.arange(MOMENTS) / MOMENTS

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        kinds = torch.randint(0, KINDS, (BATCH,), generator=self.generator)
        phases = torch.rand(BATCH, 1, CHANNELS, generator=self.generator)
        pitch, fade = 3 + 2 * kinds, 1 + kinds
        waves = torch.sin(6.283 * (pitch[:, None, None] * self.time[:, None] + phases))
        noise = torch.randn(waves.shape, generator=self.generator)
        return waves * torch.exp(-fade[:, None] * self.time)[..., None] + 0.3 * noise, kinds


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    model = Listener(mended)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    traces = Traces(seed=1)
    while True:
        batch, kinds = traces.batch()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(batch), kinds)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()
