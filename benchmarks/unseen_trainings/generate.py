"""Autoencoders, adversarial nets, diffusion and flows, in the names of the tutorials they come from."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
import torch.nn.functional as fn
from common import descend, digits, forever, mlp, seeded
from registry import Log, training
from torch import nn


class Vae(nn.Module):
    """A variational autoencoder of the digits."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = mlp(64, 64, 16)
        self.decoder = mlp(8, 64, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, spread = self.encoder(x).chunk(2, 1)
        z = mean + (spread / 2).exp() * torch.randn_like(mean)
        recon = 20 * (self.decoder(z) - x).square().sum(1).mean()
        return recon, 0.5 * (mean**2 + spread.exp() - 1 - spread).sum(1).mean()


@training(
    field="variational autoencoder",
    healthy=True,
    source="https://arxiv.org/abs/1511.06349",
    note="The weight of the KL term grows, so that the loss can rise; the bound is negative and rises.",
)
def annealed_vae(log: Log) -> None:
    rng = seeded(31)
    x, _, xv, _ = digits()
    model = Vae()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for step, b in zip(range(2000), forever(rng, len(x), 64), strict=False):
        beta = min(1, step / 1000)
        recon, kl = model(x[b])
        loss = descend(opt, recon + beta * kl)
        if step % 5 == 0:
            log("train/loss", loss, step)
            log("train/recon", recon.item(), step)
            log("train/kl", kl.item(), step)
            log("train/beta", beta, step)
        if step % 100 == 99:
            with torch.no_grad():
                recon, kl = model(xv)
            log("test/elbo", -(recon + kl).item(), step)


def ring(rng: np.random.Generator, count: int) -> torch.Tensor:
    """Points on a noisy circle."""
    angle = rng.uniform(0, 2 * math.pi, count)
    points = np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(0, 0.1, (count, 2))
    return torch.tensor(points, dtype=torch.float32)


def sliced(a: torch.Tensor, b: torch.Tensor) -> float:
    """The sliced Wasserstein distance of two sets of points."""
    angle = torch.arange(16) * math.pi / 16
    directions = torch.stack([angle.cos(), angle.sin()])
    return ((a @ directions).sort(0)[0] - (b @ directions).sort(0)[0]).abs().mean().item()


@training(
    field="adversarial",
    healthy=True,
    source="https://docs.pytorch.org/tutorials/beginner/dcgan_faces_tutorial.html",
    note="Neither loss falls: they swing around ln 2 and 2 ln 2 while the samples get better.",
)
def balanced_gan(log: Log) -> None:
    rng = seeded(32)
    maker, judge = mlp(4, 48, 48, 2), mlp(2, 48, 48, 1)
    opt_g = torch.optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(judge.parameters(), 1e-3, betas=(0.5, 0.999))
    one, zero = torch.ones(64, 1), torch.zeros(64, 1)
    for step in range(2500):
        fake, real = maker(torch.randn(64, 4)), ring(rng, 64)
        on_real, on_fake = judge(real), judge(fake.detach())
        loss_d = descend(
            opt_d,
            fn.binary_cross_entropy_with_logits(on_real, one)
            + fn.binary_cross_entropy_with_logits(on_fake, zero),
        )
        loss_g = descend(opt_g, fn.binary_cross_entropy_with_logits(judge(fake), one))
        if step % 5 == 0:
            log("Loss_D", loss_d, step)
            log("Loss_G", loss_g, step)
            log("D(x)", on_real.sigmoid().mean().item(), step)
            log("D(G(z))", on_fake.sigmoid().mean().item(), step)
        if step % 100 == 99:
            with torch.no_grad():
                log("eval/sliced_distance", sliced(maker(torch.randn(500, 4)), ring(rng, 500)), step)


@training(
    field="adversarial",
    healthy=True,
    source="https://arxiv.org/abs/1704.00028",
    note="The critic's loss is negative and rises to zero; the generator's loss may have any sign.",
)
def wasserstein_gan(log: Log) -> None:
    rng = seeded(33)
    maker, critic = mlp(4, 48, 48, 2), mlp(2, 48, 48, 1)
    opt_g = torch.optim.Adam(maker.parameters(), 5e-4, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), 2e-3, betas=(0.0, 0.9))
    for step in range(600):
        for _ in range(5):
            real = ring(rng, 64)
            fake = maker(torch.randn(64, 4)).detach()
            mix = torch.lerp(real, fake, torch.rand(64, 1)).requires_grad_()
            slope = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)[0].norm(dim=1)
            penalty = 0.5 * (slope - 1).square().mean()
            apart = critic(real).mean() - critic(fake).mean()
            loss_c = descend(opt_c, penalty - apart)
        log("critic_loss", loss_c, step)
        log("gradient_penalty", penalty.item(), step)
        log("wasserstein_estimate", apart.item(), step)
        log("gen_loss", descend(opt_g, -critic(maker(torch.randn(64, 4))).mean()), step)
        if step % 50 == 49:
            with torch.no_grad():
                log("sliced_distance", sliced(maker(torch.randn(500, 4)), ring(rng, 500)), step)


@training(
    field="diffusion",
    healthy=True,
    source="https://huggingface.co/docs/diffusers/tutorials/basic_training",
    note="The loss is noisy and flat after a tenth of the run, as most of the noise cannot be predicted.",
)
def ring_diffusion(log: Log) -> None:
    rng = seeded(34)
    model = mlp(3, 96, 96, 2, act=nn.SiLU)
    opt = torch.optim.AdamW(model.parameters(), 2e-3)
    keep = torch.cumprod(1 - torch.linspace(1e-3, 0.2, 40), 0)
    for step in range(2500):
        x = ring(rng, 64)
        at = torch.as_tensor(rng.integers(0, 40, 64))
        noise = torch.randn_like(x)
        mixed = keep[at, None].sqrt() * x + (1 - keep[at, None]).sqrt() * noise
        loss = descend(opt, fn.mse_loss(model(torch.cat([mixed, at[:, None] / 20 - 1], 1)), noise))
        if step % 2 == 0:
            log("loss", loss, step)
        if step % 250 == 249:
            points = torch.randn(400, 2)
            with torch.no_grad():
                for t in reversed(range(40)):
                    alpha = keep[t] / (keep[t - 1] if t else 1)
                    guess = model(torch.cat([points, torch.full((400, 1), t / 20 - 1)], 1))
                    points = (points - (1 - alpha) / (1 - keep[t]).sqrt() * guess) / alpha.sqrt()
                    points = points + (1 - alpha).sqrt() * torch.randn_like(points) * (t > 0)
            log("val/sliced_wasserstein", sliced(points, ring(rng, 400)), step)


@training(
    field="normalising flow",
    healthy=True,
    source="https://arxiv.org/abs/1605.08803",
    note="It logs the likelihood that it maximises, which rises, and is above zero.",
)
def likelihood_flow(log: Log) -> None:
    rng = np.random.default_rng(35)
    key = jax.random.key(35)
    layers = []
    for _ in range(6):
        key, a, b = jax.random.split(key, 3)
        layers.append([jax.random.normal(a, (1, 32)), jnp.zeros(32), jax.random.normal(b, (32, 2)) * 0.05])

    def log_likelihood(params: list, x: jax.Array) -> jax.Array:
        volume = jnp.zeros(len(x))
        for i, (w, b, out) in enumerate(params):
            kept, moved = (x[:, :1], x[:, 1:]) if i % 2 else (x[:, 1:], x[:, :1])
            scale, shift = jnp.split(jnp.tanh(kept @ w + b) @ out, 2, 1)
            scale = 2 * jnp.tanh(scale)
            moved = moved * jnp.exp(scale) + shift
            volume += scale[:, 0]
            x = jnp.concatenate([kept, moved] if i % 2 else [moved, kept], 1)
        return jnp.mean(volume - 0.5 * jnp.sum(x**2, 1) - math.log(2 * math.pi))

    def moons(count: int) -> jax.Array:
        angle = rng.uniform(0, math.pi, count)
        points = np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(0, 0.05, (count, 2))
        return jnp.asarray(points * 0.4, jnp.float32)

    tool = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(5e-3, 1000)))
    state = tool.init(layers)

    @jax.jit
    def update(params: list, state: optax.OptState, x: jax.Array) -> tuple:
        value, g = jax.value_and_grad(lambda p: -log_likelihood(p, x))(params)
        change, state = tool.update(g, state)
        return optax.apply_updates(params, change), state, -value, optax.global_norm(g)

    held = moons(500)
    for step in range(1000):
        layers, state, value, norm = update(layers, state, moons(128))
        if step % 3 == 0:
            log("log_likelihood", value, step)
            log("grad_norm", norm, step)
        if step % 75 == 74:
            log("eval_log_likelihood", log_likelihood(layers, held), step)


@training(
    field="variational autoencoder",
    fault="The posterior collapses: the KL term, weighted sixtyfold, is zero and the code is ignored.",
    series=["kl_loss", "reconstruction_loss"],
    onset=(0, 300),
    source="https://apxml.com/courses/vae-representation-learning/chapter-2-vaes-mathematical-deep-dive/"
    "vae-training-difficulties",
)
def posterior_collapse(log: Log) -> None:
    rng = seeded(141)
    x, _, xv, _ = digits()
    model = Vae()
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step, b in zip(range(1200), forever(rng, len(x), 64), strict=False):
        recon, kl = model(x[b])
        log("loss", descend(opt, recon + 60 * kl), step)
        log("reconstruction_loss", recon.item(), step)
        log("kl_loss", kl.item(), step)
        if step % 60 == 59:
            with torch.no_grad():
                recon, kl = model(xv)
            log("val_reconstruction_loss", recon.item(), step)


@training(
    field="adversarial",
    fault="The discriminator wins: its loss goes to zero, and the generator's grows.",
    series=["loss_d", "loss_g", "d_fake"],
    onset=(0, 600),
    source="https://developers.google.com/machine-learning/gan/problems",
)
def discriminator_wins(log: Log) -> None:
    rng = seeded(142)
    x, *_ = digits()
    maker, judge = mlp(8, 32, 64), mlp(64, 128, 128, 1)
    opt_g = torch.optim.Adam(maker.parameters(), 2e-5)
    opt_d = torch.optim.Adam(judge.parameters(), 2e-3)
    one, zero = torch.ones(64, 1), torch.zeros(64, 1)
    for step, b in zip(range(1500), forever(rng, len(x), 64), strict=False):
        fake = maker(torch.randn(64, 8)).sigmoid()
        on_real, on_fake = judge(x[b]), judge(fake.detach())
        loss_d = descend(
            opt_d,
            fn.binary_cross_entropy_with_logits(on_real, one)
            + fn.binary_cross_entropy_with_logits(on_fake, zero),
        )
        loss_g = descend(opt_g, fn.binary_cross_entropy_with_logits(judge(fake), one))
        log("loss_d", loss_d, step)
        log("loss_g", loss_g, step)
        log("d_real", on_real.sigmoid().mean().item(), step)
        log("d_fake", on_fake.sigmoid().mean().item(), step)
