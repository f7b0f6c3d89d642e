"""Contrastive, few-shot, factorised, distilled and multi-task learning, with names in several languages."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as fn
from common import batches, descend, digits, evaluate, forever, mlp, seeded
from registry import Log, training
from torch import nn


@training(
    field="contrastive",
    healthy=True,
    source="https://lightning.ai/docs/pytorch/stable/notebooks/course_UvA-DL/13-contrastive-learning.html",
    note="The loss starts at ln 127 and cannot come near zero.",
)
def digit_views(log: Log) -> None:
    rng = seeded(51)
    x, y, xv, yv = digits()
    body, head = mlp(64, 96, 48), mlp(48, 32)
    opt = torch.optim.AdamW([*body.parameters(), *head.parameters()], 2e-3)

    def view(images: torch.Tensor) -> torch.Tensor:
        moved = images.view(-1, 8, 8).roll(tuple(rng.integers(-1, 2, 2)), (1, 2)).flatten(1)
        return moved + 0.3 * torch.randn_like(moved)

    other = torch.arange(128).roll(64)
    for step, b in zip(range(1200), forever(rng, len(x), 64), strict=False):
        z = fn.normalize(head(fn.relu(body(torch.cat([view(x[b]), view(x[b])])))), dim=1)
        logits = (z @ z.T / 0.3).masked_fill(torch.eye(128, dtype=torch.bool), -1e9)
        loss = descend(opt, fn.cross_entropy(logits, other))
        if step % 4 == 0:
            log("train/nt_xent", loss, step)
            log("train/acc_top1", (logits.argmax(1) == other).float().mean().item(), step)
        if step % 150 == 149:
            with torch.no_grad():
                near = torch.cdist(body(xv), body(x)).argmin(1)
            log("val/knn_acc", (y[near] == yv).float().mean().item(), step)


@training(
    field="few-shot",
    healthy=True,
    source="https://arxiv.org/abs/1703.05175",
    note="Each episode is another task of few queries, so that loss and accuracy are very noisy.",
)
def prototypes(log: Log) -> None:
    rng = seeded(52)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 16)
    opt = torch.optim.Adam(model.parameters(), 1e-3)

    def episode(rows: torch.Tensor, labels: torch.Tensor, classes: np.ndarray) -> tuple[torch.Tensor, float]:
        picks = [rng.choice(np.flatnonzero(labels.numpy() == c), 5, replace=False) for c in classes]
        z = model(rows[np.concatenate(picks)] + 0.3 * torch.randn(len(classes) * 5, 64)).view(-1, 5, 16)
        centres, queries = z[:, :2].mean(1), z[:, 2:].flatten(0, 1)
        logits = -torch.cdist(queries, centres).square()
        aim = torch.arange(len(classes)).repeat_interleave(3)
        return fn.cross_entropy(logits, aim), (logits.argmax(1) == aim).float().mean().item()

    for step in range(1500):
        loss, accuracy = episode(x, y, rng.choice(10, 5, replace=False))
        log("meta_train/loss", descend(opt, loss), step)
        log("meta_train/accuracy", accuracy, step)
        if step % 100 == 99:
            with torch.no_grad():
                runs = [episode(xv, yv, rng.choice(10, 5, replace=False)) for _ in range(30)]
            log("meta_test/loss", np.mean([r[0] for r in runs]), step)
            log("meta_test/accuracy", np.mean([r[1] for r in runs]), step)


@training(
    field="matrix factorisation",
    healthy=True,
    source="https://sifter.org/~simon/journal/20061211.html",
    note="Stochastic descent on single ratings; the names are Spanish.",
)
def ratings(log: Log) -> None:
    rng = seeded(53)
    users, films, rank = 150, 100, 4
    truth = rng.normal(size=(users, rank)) @ rng.normal(size=(rank, films)) / 2
    seen = np.argwhere(rng.random((users, films)) < 0.35)
    rng.shuffle(seen)
    stars = truth[tuple(seen.T)] + rng.normal(0, 0.3, len(seen))
    cut = len(seen) * 9 // 10
    p, q = rng.normal(0, 0.1, (users, rank)), rng.normal(0, 0.1, (films, rank))

    def rmse(part: slice) -> float:
        u, i = seen[part].T
        return float(np.sqrt(np.mean((stars[part] - (p[u] * q[i]).sum(1)) ** 2)))

    for epoch in range(40):
        for index in rng.permutation(cut):
            u, i = seen[index]
            error = stars[index] - p[u] @ q[i]
            p[u], q[i] = (
                p[u] + 0.02 * (error * q[i] - 0.02 * p[u]),
                q[i] + 0.02 * (error * p[u] - 0.02 * q[i]),
            )
        log("rmse/entrenamiento", rmse(slice(cut)), epoch)
        log("rmse/validación", rmse(slice(cut, None)), epoch)


@training(
    field="multi-task",
    healthy=True,
    source="https://arxiv.org/abs/1705.07115",
    note="The learned uncertainties make the total loss negative, while each task's loss falls.",
)
def learned_uncertainty(log: Log) -> None:
    rng = seeded(54)
    x, y, xv, yv = digits()
    ink, ink_v = x.mean(1, keepdim=True), xv.mean(1, keepdim=True)
    body, classify, weigh = mlp(64, 64), mlp(64, 10), mlp(64, 1)
    spread = nn.Parameter(torch.zeros(2))
    parts = [*body.parameters(), *classify.parameters(), *weigh.parameters()]
    opt = torch.optim.Adam([{"params": parts, "lr": 2e-3}, {"params": [spread], "lr": 1e-2}])
    for step, b in zip(range(1500), forever(rng, len(x), 50), strict=False):
        hidden = fn.relu(body(x[b]))
        digit = fn.cross_entropy(classify(hidden), y[b])
        amount = fn.mse_loss(weigh(hidden), ink[b])
        total = (-spread[0]).exp() * digit + spread[0] / 2 + (-spread[1]).exp() * amount + spread[1] / 2
        descend(opt, total)
        if step % 5 == 0:
            log("loss/total", total.item(), step)
            log("loss/task_digit", digit.item(), step)
            log("loss/task_ink", amount.item(), step)
            log("log_var/digit", spread[0].item(), step)
            log("log_var/ink", spread[1].item(), step)
        if step % 100 == 99:
            with torch.no_grad():
                hidden = fn.relu(body(xv))
                log("eval/digit_acc", (classify(hidden).argmax(1) == yv).float().mean().item(), step)
                log("eval/ink_mse", fn.mse_loss(weigh(hidden), ink_v).item(), step)


@training(
    field="distillation",
    healthy=True,
    source="https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html",
    note="The names are Chinese; the soft loss is scaled by the square of the temperature.",
)
def small_student(log: Log) -> None:
    rng = seeded(55)
    x, y, xv, yv = digits()
    teacher, student = mlp(64, 256, 10), mlp(64, 12, 10)
    opt = torch.optim.Adam(teacher.parameters(), 2e-3)
    for _ in range(10):
        for b in batches(rng, len(x), 50):
            descend(opt, fn.cross_entropy(teacher(x[b]), y[b]))
    opt = torch.optim.Adam(student.parameters(), 3e-3)
    for epoch in range(30):
        rows = []
        for b in batches(rng, len(x), 50):
            out = student(x[b])
            with torch.no_grad():
                soft = (teacher(x[b]) / 3).softmax(1)
            kd = 9 * fn.kl_div((out / 3).log_softmax(1), soft, reduction="batchmean")
            ce = fn.cross_entropy(out, y[b])
            rows.append((descend(opt, 0.7 * kd + 0.3 * ce), kd.item(), ce.item()))
        whole, kd, ce = np.mean(rows, 0)
        loss, accuracy = evaluate(student, xv, yv)
        log("损失/训练", whole, epoch)
        log("损失/蒸馏", kd, epoch)
        log("损失/交叉熵", ce, epoch)
        log("损失/验证", loss, epoch)
        log("准确率/验证", accuracy, epoch)
