"""A training that diverges: its learning rate is raised until the loss is NaN.

``python examples/diverging.py [RUN_DIRECTORY] [--steps N]``, then ``stepscope serve runs``.

The page then shows the finding "Loss is not finite" with the step and the last good checkpoint to go back to,
and that the run ended there, with that as its reason.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import watch


def main(directory: str, steps: int) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(1024, 16)
    targets = inputs.sin().sum(1, keepdim=True)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def save(done: int) -> Path:
        path = Path(directory) / "checkpoints" / f"{done}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), path)
        return path

    hooks = [
        ss.CheckpointHook(save, every_n_steps=25),
        ss.GradientHook(every_n_steps=5),
        ss.ActivationHook(every_n_steps=5),
        ss.HealthHook(),
        ss.NanHook(action="stop"),
    ]
    with ss.Run(directory, hooks=hooks, total_steps=steps) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(steps)):
            chosen = torch.randint(len(inputs), (64,))
            loss = nn.functional.mse_loss(model(inputs[chosen]), targets[chosen])
            optimizer.param_groups[0]["lr"] = 0.01 if step < 100 else 0.01 * 1.1 ** (step - 100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.scalar("train/loss", loss)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default="runs/diverging")
    parser.add_argument("--steps", type=int, default=400)
    main(**vars(parser.parse_args()))
