"""Twelve short trainings on mistakes that courses and posts warn of; most are logged once an epoch.

Their author had read the rules, and chose mistakes by how often they are described, not by what rules see.
They were committed with their answers before any was judged.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as fn
from common import batches, descend, digits, evaluate, forever, grad_norm, mlp, seeded, set_rate
from registry import Log, training
from torch import nn


@training(
    field="classification",
    fault="The model ends in a softmax, and the loss applies another one: it cannot fall below 1.46.",
    series=["train/loss", "val/loss"],
    onset=(0, 43),
    source="https://karpathy.github.io/2019/04/25/recipe/",
)
def softmax_twice(log: Log) -> None:
    rng = seeded(301)
    x, y, xv, yv = digits()
    model = nn.Sequential(*mlp(64, 96, 10), nn.Softmax(-1))
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for step, b in zip(range(1290), forever(rng, len(x), 32), strict=False):
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        if step % 43 == 42:
            loss, accuracy = evaluate(model, xv, yv)
            log("val/loss", loss, step)
            log("val/acc", accuracy, step)


@training(
    field="reinforcement",
    fault="Values are learned from their own maxima, off policy and without a target network: they run away.",
    series=["train/q_mean", "train/td_loss"],
    onset=(0, 400),
    source="https://arxiv.org/abs/1812.02648",
)
def values_run_away(log: Log) -> None:
    rng = seeded(302)
    places, acts, width = 20, 3, 48
    model = mlp(places + acts, width, 1)
    opt = torch.optim.SGD(model.parameters(), 0.02)
    states, moves = torch.eye(places), torch.eye(acts)

    def q(place: torch.Tensor) -> torch.Tensor:
        rows = torch.cat([states[place].repeat_interleave(acts, 0), moves.repeat(len(place), 1)], 1)
        return model(rows).view(-1, acts)

    def walk(place: int, act: int) -> tuple[int, float]:
        after = int(np.clip(place + act - 1, 0, places - 1))
        return after, 1.0 if after == places - 1 else -0.01

    for step in range(1500):
        # The same few transitions again and again: those of a policy that hardly leaves its start.
        place = torch.tensor(rng.integers(0, 6, 32))
        act = torch.tensor(rng.integers(0, acts, 32))
        results = [walk(int(p), int(a)) for p, a in zip(place, act, strict=True)]
        after, reward = torch.tensor([r[0] for r in results]), torch.tensor([r[1] for r in results])
        aim = reward + 0.99 * q(after).max(1).values.detach() + 0.02
        value = q(place)
        td = fn.mse_loss(value[torch.arange(32), act], aim)
        log("train/td_loss", descend(opt, td), step)
        log("train/q_mean", value.mean().item(), step)
        if step % 50 == 49:
            at, total = 2, 0.0
            for _ in range(40):
                with torch.no_grad():
                    at, reward_ = walk(at, int(q(torch.tensor([at])).argmax()))
                total += reward_
            log("eval/return", total, step)


@training(
    field="keyword spotting",
    fault="The rows lie in the order of their labels, and the loader does not shuffle them.",
    series=["train/loss", "val/loss", "val/acc"],
    onset=(0, 88),
    source="https://stats.stackexchange.com/questions/245502/why-should-we-shuffle-data-while-training-a-neural-network",
)
def sorted_by_class(log: Log) -> None:
    seeded(303)
    x, y, xv, yv = digits()
    order = y.argsort(stable=True)
    x, y = x[order], y[order]
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    step = 0
    for _epoch in range(20):
        for start in range(0, len(x) - 15, 32):
            rows = slice(start, start + 32)
            log("train/loss", descend(opt, fn.cross_entropy(model(x[rows]), y[rows])), step)
            step += 1
        loss, accuracy = evaluate(model, xv, yv)
        log("val/loss", loss, step)
        log("val/acc", accuracy, step)


@training(
    field="text classification",
    fault="The rate is a thousand times too small: 2e-5 with SGD; each epoch brings next to nothing.",
    series=["loss/train", "loss/val"],
    onset=(0, 2),
    source="https://cs231n.github.io/neural-networks-3/#loss",
)
def rate_a_thousandth(log: Log) -> None:
    rng = seeded(304)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 2e-5, momentum=0.9)
    for epoch in range(24):
        losses = [descend(opt, fn.cross_entropy(model(x[b]), y[b])) for b in batches(rng, len(x), 32)]
        loss, accuracy = evaluate(model, xv, yv)
        log("loss/train", float(np.mean(losses)), epoch)
        log("loss/val", loss, epoch)
        log("acc/val", accuracy, epoch)
        log("lr", 2e-5, epoch)


@training(
    field="fine-tuning",
    fault="A model that knew the task is fine-tuned at a rate that destroys what it knew.",
    series=["eval/loss", "eval/accuracy"],
    onset=(1, 3),
    source="https://www.fast.ai/posts/2020-02-13-fastai-A-Layered-API-for-Deep-Learning.html",
)
def forgets_what_it_knew(log: Log) -> None:
    rng = seeded(305)
    x, y, xv, yv = digits()
    model = mlp(64, 128, 128, 10)
    first = torch.optim.Adam(model.parameters(), 1e-3)
    for b in [b for _ in range(12) for b in batches(rng, len(x), 32)]:
        descend(first, fn.cross_entropy(model(x[b]), y[b]))
    few = torch.as_tensor(rng.permutation(len(x))[:160])
    opt = torch.optim.SGD(model.parameters(), 0.3, momentum=0.9)
    loss, accuracy = evaluate(model, xv, yv)
    log("eval/loss", loss, 0)
    log("eval/accuracy", accuracy, 0)
    for epoch in range(1, 25):
        losses = [descend(opt, fn.cross_entropy(model(x[few[b]]), y[few[b]])) for b in batches(rng, 160, 16)]
        loss, accuracy = evaluate(model, xv, yv)
        log("train/loss", float(np.mean(losses)), epoch)
        log("eval/loss", loss, epoch)
        log("eval/accuracy", accuracy, epoch)


class Autoencoder(nn.Module):
    """A variational one of 64 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.writer = mlp(64, 96, 16), mlp(8, 96, 64)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_var = self.reader(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        error = fn.binary_cross_entropy_with_logits(self.writer(code), x, reduction="none").sum(1).mean()
        kl = 0.5 * (mean**2 + log_var.exp() - 1 - log_var).sum(1).mean()
        return error, kl


@training(
    field="generation",
    fault="The divergence weighs twelve times the reconstruction: the code carries nothing.",
    series=["train/kl"],
    onset=(0, 6),
    source="https://arxiv.org/abs/1511.06349",
)
def code_says_nothing(log: Log) -> None:
    rng = seeded(306)
    x, _, xv, _ = digits()
    model = Autoencoder()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(24):
        errors, kls, losses = [], [], []
        for b in batches(rng, len(x), 32):
            error, kl = model(x[b])
            losses.append(descend(opt, error + 12 * kl))
            errors.append(error.item()), kls.append(kl.item())
        log("train/loss", float(np.mean(losses)), epoch)
        log("train/reconstruction", float(np.mean(errors)), epoch)
        log("train/kl", float(np.mean(kls)), epoch)
        with torch.no_grad():
            error, kl = model(xv)
        log("val/loss", (error + 12 * kl).item(), epoch)


@training(
    field="half precision",
    fault="Gradients are kept in half precision without a loss scale: those of the first layers become 0.",
    series=["grad_norm/0.weight", "grad_norm/2.weight"],
    onset=(0, 300),
    source="https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/index.html",
)
def underflows(log: Log) -> None:
    rng = seeded(307)
    x, _, _, _ = digits()
    aim = 1e-4 * x[:, ::8].contiguous()
    model = mlp(64, 48, 48, 48, 8, act=nn.Tanh)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(0.25 if "6." not in name else 0.02)
    opt = torch.optim.SGD(model.parameters(), 0.5)
    for step, b in zip(range(800), forever(rng, len(x), 32), strict=False):
        loss = fn.mse_loss(model(x[b]), aim[b])
        opt.zero_grad()
        loss.backward()
        for weight in model.parameters():
            weight.grad = weight.grad.half().float()
        opt.step()
        log("train/loss", loss.item(), step)
        if step % 10 == 0:
            for name, weight in model.named_parameters():
                if name.endswith("weight"):
                    log(f"grad_norm/{name}", weight.grad.norm().item(), step)


@training(
    field="segmentation",
    fault="After the job was resumed, by newer code, the score is in percent and not a share any more.",
    series=["val/dice"],
    onset=(15, 15),
    source="https://github.com/Lightning-AI/torchmetrics/issues",
)
def percent_after_resume(log: Log) -> None:
    rng = seeded(308)
    x, _, xv, _ = digits()
    model = mlp(64, 32, 64)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for epoch in range(30):
        losses = []
        for b in batches(rng, len(x), 32):
            noisy = x[b] + 0.4 * torch.randn(len(b), 64)
            losses.append(
                descend(opt, fn.binary_cross_entropy_with_logits(model(noisy), (x[b] > 0.5).float()))
            )
        with torch.no_grad():
            got, wanted = model(xv + 0.4 * torch.randn_like(xv)) > 0, xv > 0.5
        dice = (2 * (got & wanted).sum() / (got.sum() + wanted.sum())).item()
        log("train/loss", float(np.mean(losses)), epoch)
        log("val/dice", dice if epoch < 15 else 100 * dice, epoch)


@training(
    field="classification",
    healthy=True,
    source="https://arxiv.org/abs/1608.03983",
    note="The rate starts again at its largest every eight epochs: losses jump up, and then go below.",
)
def warm_restarts(log: Log) -> None:
    rng = seeded(311)
    x, y, xv, yv = digits()
    model = mlp(64, 48, 10)
    opt = torch.optim.SGD(model.parameters(), 0.4, momentum=0.9)
    for epoch in range(24):
        rate = 0.4 * (1 + math.cos(math.pi * (epoch % 8) / 8)) / 2
        set_rate(opt, rate)
        losses = []
        for b in batches(rng, len(x), 32):
            noisy = x[b] + 0.4 * torch.randn(len(b), 64)
            losses.append(descend(opt, fn.cross_entropy(model(noisy), y[b])))
        loss, accuracy = evaluate(model, xv, yv)
        log("train/loss", float(np.mean(losses)), epoch)
        log("val/loss", loss, epoch)
        log("val/acc", accuracy, epoch)
        log("lr", rate, epoch)


@training(
    field="generation",
    healthy=True,
    source="https://arxiv.org/abs/1511.06349",
    note="The weight of the divergence rises over half of the epochs, and the whole loss rises with it.",
)
def annealed_code(log: Log) -> None:
    rng = seeded(312)
    x, _, xv, _ = digits()
    model = Autoencoder()
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(24):
        beta = min(epoch / 12, 1.0)
        errors, kls, losses = [], [], []
        for b in batches(rng, len(x), 32):
            error, kl = model(x[b])
            losses.append(descend(opt, error + beta * kl))
            errors.append(error.item()), kls.append(kl.item())
        log("train/loss", float(np.mean(losses)), epoch)
        log("train/reconstruction", float(np.mean(errors)), epoch)
        log("train/kl", float(np.mean(kls)), epoch)
        log("train/beta", beta, epoch)
        with torch.no_grad():
            error, kl = model(xv)
        log("val/loss", (error + beta * kl).item(), epoch)


@training(
    field="transfer",
    healthy=True,
    source="https://docs.fast.ai/tutorial.vision.html",
    note="Eight epochs train the head alone; then all is trained at a rate a tenth of it.",
)
def unfreezes_halfway(log: Log) -> None:
    rng = seeded(313)
    x, y, xv, yv = digits()
    body, head = mlp(64, 64, 32), nn.Linear(32, 5)
    warm = torch.optim.Adam([*body.parameters()], 1e-3)
    for b in [b for _ in range(4) for b in batches(rng, len(x), 32)]:
        descend(warm, fn.cross_entropy(body(x[b]), y[b]))
    y, yv = y // 2, yv // 2
    model = nn.Sequential(body, nn.ReLU(), head)
    for weight in body.parameters():
        weight.requires_grad_(False)
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for epoch in range(20):
        if epoch == 8:
            for weight in body.parameters():
                weight.requires_grad_(True)
            set_rate(opt, 3e-4)
        losses = []
        for b in batches(rng, len(x), 32):
            noisy = x[b] + 0.15 * torch.randn(len(b), 64)
            losses.append(descend(opt, fn.cross_entropy(model(noisy), y[b])))
        loss, accuracy = evaluate(model, xv, yv)
        log("train/loss", float(np.mean(losses)), epoch)
        log("train/grad_norm", grad_norm(model.parameters()), epoch)
        log("val/loss", loss, epoch)
        log("val/acc", accuracy, epoch)
        log("lr", opt.param_groups[0]["lr"], epoch)


@training(
    field="physics",
    healthy=True,
    source="https://arxiv.org/abs/1907.04502",
    note="Adam hardly moves the boundary for long; then L-BFGS takes over, and both parts fall at once.",
)
def oscillator_then_lbfgs(log: Log) -> None:
    seeded(314)
    t = torch.linspace(0, 1, 40)[:, None].requires_grad_(True)
    model = mlp(1, 24, 24, 1, act=nn.Tanh)

    def parts() -> tuple[torch.Tensor, torch.Tensor]:
        u = model(t)
        (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
        equation = ((ddu + 16 * u) ** 2).mean()
        return equation, (u[0, 0] - 1) ** 2 + du[0, 0] ** 2

    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for step in range(700):
        if step == 600:
            opt = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")

        def closure(opt: torch.optim.Optimizer = opt) -> torch.Tensor:
            opt.zero_grad()
            equation, boundary = parts()
            loss = 1e-2 * equation + boundary
            loss.backward()
            return loss

        loss = opt.step(closure)
        equation, boundary = parts()
        log("train/loss", loss.item(), step)
        log("train/loss_equation", equation.item(), step)
        log("train/loss_boundary", boundary.item(), step)
