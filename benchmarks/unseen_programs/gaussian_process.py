"""The length scales of a Gaussian process by maximum marginal likelihood."""

from collections.abc import Iterator

import torch

POINTS, WIDTH = 256, 24


def training(mended: bool) -> Iterator[float]:
    torch.manual_seed(0)
    points = torch.randn(POINTS, WIDTH, dtype=torch.float64)
    values = (points.sum(1).sin() + 0.1 * torch.randn(POINTS, dtype=torch.float64))[:, None]
    scales = torch.full((WIDTH,), -1.0, dtype=torch.float64, requires_grad=True)
    noise = torch.tensor(-2.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([scales, noise], lr=0.02)
    while True:
        scaled = points * scales.exp()
        if mended:
            squares = (scaled**2).sum(1)
            distances = squares[:, None] + squares - 2 * scaled @ scaled.T
        else:
            distances = ((scaled[:, None] - scaled[None]) ** 2).sum(-1)  # cause
        kernel = (-0.5 * distances).exp() + noise.exp() * torch.eye(POINTS, dtype=torch.float64)
        root = torch.linalg.cholesky(kernel)
        fit = (values * torch.cholesky_solve(values, root)).sum()
        loss = (0.5 * fit + root.diagonal().log().sum()) / POINTS
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()
