"""A loop with Hugging Face Accelerate, in one process or, by ``accelerate launch``, in many.

``python examples/accelerate_loop.py [RUN_DIRECTORY]``, then ``stepscope serve runs``.
"""

from __future__ import annotations

import sys

import torch
from accelerate import Accelerator
from torch import nn

from stepscope.integrations.accelerate import StepscopeTracker
from stepscope.integrations.torch import watch


def main(directory: str = "runs/accelerate") -> None:
    torch.manual_seed(0)
    inputs = torch.randn(2048, 16)
    targets = inputs.sin().sum(1, keepdim=True)
    data = torch.utils.data.TensorDataset(inputs, targets)
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    tracker = StepscopeTracker(directory)
    accelerator = Accelerator(cpu=True, log_with=tracker)
    accelerator.init_trackers("digits", config={"lr": 3e-3, "batch_size": 64})
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    watch(model, optimizer, tracker.run)

    for _ in range(5):
        for batch, wanted in tracker.run.steps(loader):
            loss = nn.functional.mse_loss(model(batch), wanted)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            accelerator.log({"train/loss": loss.detach()})
        with torch.no_grad():
            accelerator.log({"eval/loss": nn.functional.mse_loss(model(inputs), targets)})
    accelerator.end_training()


if __name__ == "__main__":
    main(*sys.argv[1:])
