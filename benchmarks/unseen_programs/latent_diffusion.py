"""A denoiser that learns in the space of a fixed image encoder."""

from collections.abc import Iterator

import torch
from torch import nn


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    images = torch.rand(32, 3, 64, 64)
    encoder = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.SiLU(),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(64, 4, 3, stride=2, padding=1),
    ).requires_grad_(False)
    denoiser = nn.Sequential(nn.Conv2d(5, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 4, 3, padding=1))
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=1e-3)
    shares = torch.cos(torch.linspace(0, 1.5, 1000)) ** 2
    with torch.no_grad():
        known = encoder(images)
    while True:
        for chosen in torch.randperm(32).split(8):
            with torch.no_grad():
                latents = known[chosen] if mended else encoder(images[chosen])  # cause
            times = torch.randint(0, 1000, (8,))
            noise = torch.randn_like(latents)
            share = shares[times].view(-1, 1, 1, 1)
            mixed = share.sqrt() * latents + (1 - share).sqrt() * noise
            clock = (times / 1000).view(-1, 1, 1, 1).expand(-1, 1, 8, 8)
            loss = nn.functional.mse_loss(denoiser(torch.cat([mixed, clock], 1)), noise)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield loss.item()
