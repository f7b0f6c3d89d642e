"""A GAN that draws digits: two models, two optimizers, one run.

``python examples/gan.py [RUN_DIRECTORY] [--steps N]``, then ``stepscope serve runs``.

The page then shows gradients and learning rates of generator and discriminator apart, the digits drawn so far
under Images, and under Health that losses of an adversarial training were not judged, for they need not fall.
"""

from __future__ import annotations

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

import stepscope as ss
from stepscope.integrations.torch import watch

NOISE = 16


def drawn_as_one(images: torch.Tensor) -> torch.Tensor:
    """Lay 16 images of 8 x 8, -1 to 1, beside each other: [1, 32, 32], 0 to 1."""
    return ((images.reshape(4, 4, 8, 8).transpose(1, 2).reshape(1, 32, 32) + 1) / 2).clamp(0, 1)


def main(directory: str, steps: int, *, batch: int = 64) -> None:
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    real_images = torch.from_numpy(load_digits().data).float().to(device) / 8 - 1
    generator = nn.Sequential(nn.Linear(NOISE, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.Tanh())
    discriminator = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    model = nn.ModuleDict({"generator": generator, "discriminator": discriminator}).to(device)
    optimizers = {
        "generator": torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999)),
        "discriminator": torch.optim.Adam(discriminator.parameters(), lr=5e-4, betas=(0.5, 0.999)),
    }
    ones, zeros = torch.ones(batch, 1, device=device), torch.zeros(batch, 1, device=device)
    shown = torch.randn(16, NOISE, device=device)

    def draw(step: int) -> None:
        with torch.no_grad():
            run.image("digits/drawn", drawn_as_one(generator(shown)), step=step)

    hooks = [
        ss.HealthHook(),
        ss.GradientHook(every_n_steps=50),
        ss.SummarySaverHook(draw, every_n_steps=100),
    ]
    with ss.Run(directory, hooks=hooks, total_steps=steps) as run:
        watch(model, optimizers, run)
        for _ in run.steps(range(steps)):
            real = real_images[torch.randint(len(real_images), (batch,))]
            fake = generator(torch.randn(batch, NOISE, device=device))

            loss_d = binary_cross_entropy_with_logits(discriminator(real), ones)
            loss_d = loss_d + binary_cross_entropy_with_logits(discriminator(fake.detach()), zeros)
            optimizers["discriminator"].zero_grad()
            loss_d.backward()
            optimizers["discriminator"].step()

            loss_g = binary_cross_entropy_with_logits(discriminator(fake), ones)
            optimizers["generator"].zero_grad()
            loss_g.backward()
            optimizers["generator"].step()

            run.scalars({"train/loss_D": loss_d, "train/loss_G": loss_g})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", nargs="?", default="runs/gan")
    parser.add_argument("--steps", type=int, default=2000)
    main(**vars(parser.parse_args()))
