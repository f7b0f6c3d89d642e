"""A PyTorch loop: what is trained, how long each step took and how long it waited for data.

``python examples/torch_loop.py [RUN_DIRECTORY]``, then ``stepscope serve runs``.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

import stepscope as ss


def main(directory: str = "runs/torch") -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2048, 16)
    targets = (inputs.sin().sum(1, keepdim=True) + 0.1 * torch.randn(2048, 1)).float()
    data = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    with ss.Run(directory, config={"lr": 3e-3, "batch_size": 64}, total_steps=5 * len(loader)) as run:
        for _ in range(5):
            for batch, wanted in run.steps(loader):
                loss = nn.functional.mse_loss(model(batch), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                run.scalar("train/loss", loss)  # the tensor itself: nothing waits for it
            with torch.no_grad():
                run.scalar("eval/loss", nn.functional.mse_loss(model(inputs), targets))


if __name__ == "__main__":
    main(*sys.argv[1:])
