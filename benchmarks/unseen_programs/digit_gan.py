"""A generator and a discriminator of small images that train against each other."""

from collections.abc import Iterator

import torch
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    generator = nn.Sequential(
        nn.Linear(32, 32 * 7 * 7),
        nn.Unflatten(1, (32, 7, 7)),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 5, padding=2),
        nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Conv2d(1, 8, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(8 * 14 * 14, 1)
    )
    learns_real = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
    learns_fake = torch.optim.Adam(generator.parameters(), lr=2e-4)
    judge = nn.functional.binary_cross_entropy_with_logits
    ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
    while True:
        real = torch.rand(16, 1, 28, 28) * 2 - 1
        for _ in range(3):
            fake = generator(torch.randn(16, 32))
            verdict = discriminator(fake.detach() if mended else fake)  # cause
            discriminator_loss = judge(discriminator(real), ones) + judge(verdict, zeros)
            learns_real.zero_grad()
            discriminator_loss.backward()
            learns_real.step()
        generator_loss = judge(discriminator(generator(torch.randn(16, 32))), ones)
        learns_fake.zero_grad()
        generator_loss.backward()
        learns_fake.step()
        yield discriminator_loss.item() + generator_loss.item()
