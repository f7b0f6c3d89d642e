"""Regression, boosting and time series, in the names of LightGBM, Lightning, fastai and DeepXDE."""

from __future__ import annotations

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as fn
from common import descend, forever, grad_norm, mlp, seeded, set_rate
from registry import Log, training
from sklearn.datasets import make_friedman1
from sklearn.tree import DecisionTreeRegressor
from torch import nn


def friedman(seed: int, rows: int = 1500) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A known regression task, standardised: two thirds to train on."""
    x, y = make_friedman1(rows, n_features=10, noise=1.0, random_state=seed)
    x, y = (x - 0.5) * 3.4, (y - y.mean()) / y.std()
    cut = rows * 2 // 3
    return x[:cut], y[:cut], x[cut:], y[cut:]


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.tensor(a, dtype=torch.float32) for a in arrays]


@training(
    field="boosting",
    healthy=True,
    source="https://lightgbm.readthedocs.io/en/stable/Python-Intro.html#training",
)
def boosting_rounds(log: Log) -> None:
    rng = seeded(11)
    x, y, xv, yv = friedman(11)
    fitted, guess = np.zeros(len(y)), np.zeros(len(yv))
    for rounds in range(150):
        rows = rng.choice(len(y), len(y) * 7 // 10, replace=False)
        tree = DecisionTreeRegressor(max_depth=4, random_state=rounds).fit(x[rows], (y - fitted)[rows])
        fitted += 0.1 * tree.predict(x)
        guess += 0.1 * tree.predict(xv)
        log("training's l2", np.mean((y - fitted) ** 2), rounds)
        log("valid_0's l2", np.mean((yv - guess) ** 2), rounds)


@training(
    field="regression",
    healthy=True,
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.GaussianNLLLoss.html",
    note="The likelihood is of a density, so that its loss falls through zero and stays negative.",
)
def gaussian_likelihood(log: Log) -> None:
    rng = seeded(12)
    model = mlp(1, 64, 64, 2)
    opt = torch.optim.Adam(model.parameters(), 2e-3)

    def draw(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.tensor(rng.uniform(-2, 2, (count, 1)), dtype=torch.float32)
        return x, torch.sin(2 * x) + 0.05 * (1 + x.abs()) * torch.randn_like(x)

    def nll(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        mean, spread = model(x).chunk(2, 1)
        return fn.gaussian_nll_loss(mean, y, spread.exp())

    xv, yv = draw(500)
    for step in range(1500):
        log("train/nll", descend(opt, nll(*draw(64))), step)
        if step % 50 == 0:
            with torch.no_grad():
                log("val/nll", nll(xv, yv).item(), step)
                log("val/rmse", (model(xv)[:, :1] - yv).square().mean().sqrt().item(), step)


@training(
    field="regression",
    healthy=True,
    source="https://docs.fast.ai/callback.schedule.html",
    note="The rate goes up and down by design, and the loss follows it.",
)
def cyclic_rate(log: Log) -> None:
    rng = seeded(13)
    x, y, xv, yv = tensors(*friedman(13))
    model = mlp(10, 64, 64, 1)
    opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    for step, b in zip(range(1200), forever(rng, len(x), 32), strict=False):
        phase = step % 200 / 200
        set_rate(opt, 0.002 + 0.06 * (1 - abs(2 * phase - 1)) * 0.8 ** (step // 200))
        loss = descend(opt, fn.mse_loss(model(x[b])[:, 0], y[b]))
        log("opt/lr_0", opt.param_groups[0]["lr"], step)
        log("train_loss", loss, step)
        if step % 40 == 39:
            with torch.no_grad():
                log("valid_loss", fn.mse_loss(model(xv)[:, 0], yv).item(), step)


class Forecaster(nn.Module):
    """Predicts the next value of a series from a window."""

    def __init__(self, cell: type[nn.RNNBase] = nn.GRU) -> None:
        super().__init__()
        self.rnn = cell(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


def load_curve(rng: np.random.Generator, hours: int) -> np.ndarray:
    """An hourly load with a day, a week and noise."""
    t = np.arange(hours)
    return np.sin(t * math.pi / 12) + 0.5 * np.sin(t * math.pi / 84) + rng.normal(0, 0.1, hours)


def slices(values: np.ndarray, starts: np.ndarray, length: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    rows = np.stack([values[s : s + length + 1] for s in starts])
    whole = torch.tensor(rows, dtype=torch.float32)
    return whole[:, :-1, None], whole[:, -1:]


@training(
    field="time series",
    healthy=True,
    source="https://pytorch-forecasting.readthedocs.io/en/stable/getting-started.html",
    note="It is evaluated only four times.",
)
def load_forecast(log: Log) -> None:
    rng = seeded(14)
    values = load_curve(rng, 3000)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    epoch: list[float] = []
    for step in range(800):
        x, y = slices(values, rng.integers(0, 2300, 32))
        epoch.append(descend(opt, fn.l1_loss(model(x), y)))
        if step % 10 == 0:
            log("train_loss_step", epoch[-1], step)
        if step % 80 == 79:
            log("train_loss_epoch", np.mean(epoch), step)
            log("epoch", step // 80, step)
            epoch.clear()
        if step % 200 == 199:
            x, y = slices(values, np.arange(2400, 2900, 3))
            with torch.no_grad():
                log("val_MAE", fn.l1_loss(model(x), y).item(), step)


@training(
    field="physics",
    healthy=True,
    source="https://deepxde.readthedocs.io/en/latest/demos/pinn_forward/poisson.1d.dirichlet.html",
    note="The losses fall over orders of magnitude, with short rises of Adam on the way.",
)
def poisson_network(log: Log) -> None:
    key = jax.random.key(15)
    sizes = (1, 32, 32, 1)
    weights = []
    for inside, outside in pairwise(sizes):
        key, sub = jax.random.split(key)
        weights.append((jax.random.normal(sub, (inside, outside)) * inside**-0.5, jnp.zeros(outside)))

    def net(w: list, x: jax.Array) -> jax.Array:
        hidden = x[None]
        for a, b in w[:-1]:
            hidden = jnp.tanh(hidden @ a + b)
        return (hidden @ w[-1][0] + w[-1][1])[0]

    points = jnp.linspace(-1, 1, 64)
    forcing = math.pi**2 * jnp.sin(math.pi * points)

    def terms(w: list) -> tuple[jax.Array, jax.Array]:
        curvature = jax.vmap(jax.grad(jax.grad(net, 1), 1), (None, 0))(w, points)
        ends = jnp.array([net(w, jnp.array(-1.0)), net(w, jnp.array(1.0))])
        return jnp.mean((curvature + forcing) ** 2), jnp.mean(ends**2)

    def total(w: list) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        pde, edge = terms(w)
        return pde + 20 * edge, (pde, edge)

    @jax.jit
    def update(w: list, m: list, v: list, i: int) -> tuple:
        (_, parts), g = jax.value_and_grad(total, has_aux=True)(w)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b**2, v, g)
        rate = 5e-3 * 0.3 ** (i / 1000) * jnp.sqrt(1 - 0.999**i) / (1 - 0.9**i)
        return jax.tree.map(lambda p, a, b: p - rate * a / (jnp.sqrt(b) + 1e-8), w, m, v), m, v, parts

    m = v = jax.tree.map(jnp.zeros_like, weights)
    exact = jnp.sin(math.pi * points)
    for i in range(1, 3001):
        weights, m, v, (pde, edge) = update(weights, m, v, i)
        if i % 10 == 0:
            log("loss/pde", pde, i)
            log("loss/bc", edge, i)
        if i % 250 == 0:
            guess = jax.vmap(net, (None, 0))(weights, points)
            log("l2 relative error", jnp.linalg.norm(guess - exact) / jnp.linalg.norm(exact), i)


@training(
    field="time series",
    fault="Gradients of a recurrent net explode without clipping, and the loss is NaN from then on.",
    series=["train_loss", "grad_norm"],
    onset=(395, 420),
    source="https://arxiv.org/abs/1211.5063",
)
def recurrent_explosion(log: Log) -> None:
    rng = seeded(122)
    values = load_curve(rng, 3000)
    model = Forecaster(nn.RNN)
    model.rnn.nonlinearity = "relu"
    model.rnn.mode = "RNN_RELU"
    opt = torch.optim.SGD(model.parameters(), 0.02)
    for step in range(700):
        x, y = slices(values, rng.integers(0, 2300, 32))
        if step >= 400:
            x, y = x * 40, y * 40  # a shard in other units
        log("train_loss", descend(opt, fn.mse_loss(model(x), y)), step)
        log("grad_norm", grad_norm(model.parameters()), step)
        if step % 50 == 49:
            x, y = slices(values, np.arange(2400, 2900, 5))
            with torch.no_grad():
                log("val_loss", fn.mse_loss(model(x), y).item(), step)


@training(
    field="time series",
    fault="A side metric, the error in per cent, is infinite or NaN at most evaluations: it divides by zero.",
    series=["eval/mape"],
    onset=(0, 150),
    source="https://scikit-learn.org/stable/modules/model_evaluation.html#mean-absolute-percentage-error",
)
def percentage_of_zero(log: Log) -> None:
    rng = seeded(123)
    values = np.maximum(load_curve(rng, 3000), 0)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(450):
        x, y = slices(values, rng.integers(0, 2300, 16))
        log("train/mae", descend(opt, fn.l1_loss(model(x), y)), step)
        if step % 30 == 29:
            x, y = slices(values, rng.integers(2400, 2900, 3))
            with torch.no_grad():
                guess = model(x).clamp(min=0)
            log("eval/mae", fn.l1_loss(guess, y).item(), step)
            log("eval/mape", ((guess - y) / y).abs().mean().item(), step)


@training(
    field="physics",
    fault="The boundary's weight is learned by descent: it falls below zero, and the term runs away.",
    series=["loss_bc", "weight_bc"],
    onset=(850, 1100),
    source="https://ogbonlab.com/textbooks/physics-informed-neural-networks-for-exploration-seismology/"
    "part-3-training-pathologies-and-remedies/the-loss-balance-crisis-data-pde-bc-weights",
)
def boundary_runs_away(log: Log) -> None:
    seeded(124)
    model = mlp(1, 32, 32, 1, act=nn.Tanh)
    weight = nn.Parameter(torch.tensor(1.5))
    opt = torch.optim.Adam([{"params": model.parameters()}, {"params": [weight], "lr": 6e-3}], 2e-3)
    x = torch.linspace(-1, 1, 50)[:, None].requires_grad_()
    ends = torch.tensor([[-1.0], [1.0]])
    for step in range(1400):
        u = model(x)
        slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        curve = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
        pde = (curve + 9.87 * torch.sin(math.pi * x)).square().mean()
        edge = (model(ends) - torch.tensor([[1.0], [-1.0]]) - 0.3 * torch.randn(2, 1)).square().mean()
        descend(opt, pde + weight * edge)
        if step % 5 == 0:
            log("loss_pde", pde.item(), step)
            log("loss_bc", edge.item(), step)
            log("weight_bc", weight.item(), step)
            log("loss", (pde + weight * edge).item(), step)
