"""Trainings whose fault is in the machine or the job: times, memory, number formats, ranks.

The times and sizes are given numbers, as such a machine would log them; nothing here sleeps or fills memory.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as fn
from common import descend, digits, evaluate, forever, grad_norm, mlp, seeded
from registry import Log, training


@training(
    field="classification",
    fault="Steps take four times as long from step 420 on, for good.",
    series=["perf/step_time", "perf/samples_per_sec"],
    onset=(420, 421),
)
def slower_for_good(log: Log) -> None:
    rng = seeded(161)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step, b in zip(range(900), forever(rng, len(x), 32), strict=False):
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        seconds = (0.118 if step < 420 else 0.472) * rng.lognormal(0, 0.06)
        log("perf/step_time", seconds, step)
        log("perf/samples_per_sec", 32 / seconds, step)
        if step % 90 == 89:
            log("val/loss", evaluate(model, xv, yv)[0], step)


@training(
    field="classification",
    fault="The loader keeps all that it read: memory grows at every step, and in the end the wait for data.",
    series=["system/rss_gb", "time/data_wait_ms", "time/step_ms"],
    onset=(0, 500),
    source="https://github.com/pytorch/pytorch/issues/13246",
)
def memory_and_wait_grow(log: Log) -> None:
    rng = seeded(162)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step, b in zip(range(1000), forever(rng, len(x), 32), strict=False):
        log("train/loss", descend(opt, fn.cross_entropy(model(x[b]), y[b])), step)
        wait = (4 + 0.35 * max(0, step - 350)) * rng.lognormal(0, 0.2)
        compute = 92 * rng.lognormal(0, 0.03)
        log("time/data_wait_ms", wait, step)
        log("time/compute_ms", compute, step)
        log("time/step_ms", wait + compute, step)
        if step % 10 == 0:
            log("system/rss_gb", 3.1 + 0.028 * step + 0.05 * rng.random(), step)
            log("gpu/memory_allocated_mb", 5200 + 40 * rng.random(), step)
        if step % 100 == 99:
            log("val/acc", evaluate(model, xv, yv)[1], step)


@training(
    field="mixed precision",
    fault="From step 350 on every gradient overflows: the loss scale halves each step, without an update.",
    series=["amp/loss_scale", "amp/skipped_steps"],
    onset=(350, 360),
    source="https://github.com/NVIDIA/apex/issues/318",
)
def scale_collapses(log: Log) -> None:
    rng = seeded(164)
    x, y, xv, yv = digits()
    model = mlp(64, 64, 10)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    scale, skipped = 65536.0, 0
    for step, b in zip(range(600), forever(rng, len(x), 32), strict=False):
        loss = fn.cross_entropy(model(x[b]), y[b])
        opt.zero_grad()
        (loss * scale).backward()
        norm = grad_norm(model.parameters()) / scale
        if step >= 350:  # a layer in half precision that overflows at any scale
            norm, scale, skipped = float("inf"), scale / 2, skipped + 1
        else:
            for p in model.parameters():
                p.grad /= scale
            opt.step()
        log("train/loss", loss.item(), step)
        log("amp/loss_scale", scale, step)
        log("amp/skipped_steps", skipped, step)
        log("train/grad_norm", norm, step)
        if step % 60 == 59:
            log("eval/acc", evaluate(model, xv, yv)[1], step)


@training(
    field="data parallel",
    fault="From step 300 on, rank 2 of four is on its own with wrong labels: its loss diverges.",
    series=["rank2/train/loss", "rank2/weight_distance"],
    onset=(300, 340),
    source="https://docs.pytorch.org/docs/stable/notes/ddp.html",
)
def one_rank_diverges(log: Log) -> None:
    seeded(165)
    x, y, xv, yv = digits()
    models = [mlp(64, 64, 10) for _ in range(4)]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    streams = [forever(np.random.default_rng(rank), len(x), 16) for rank in range(4)]
    for step in range(600):
        alone = {2} if step >= 300 else set()
        losses = []
        for rank, model in enumerate(models):
            b = next(streams[rank])
            labels = (y[b] + 3) % 10 if rank in alone else y[b]
            model.zero_grad()
            losses.append(fn.cross_entropy(model(x[b]), labels))
            losses[-1].backward()
            true_loss = fn.cross_entropy(model(x[b]), y[b]).item()
            log(f"rank{rank}/train/loss", true_loss, step)
        together = [model for rank, model in enumerate(models) if rank not in alone]
        with torch.no_grad():
            for group in zip(*(model.parameters() for model in together), strict=True):
                mean = torch.stack([p.grad for p in group]).mean(0)
                for p in group:
                    p -= 0.2 * mean
            for rank in alone:
                for p in models[rank].parameters():
                    p -= 0.2 * p.grad
            if step % 10 == 0:
                for rank in range(1, 4):
                    pairs = zip(models[0].parameters(), models[rank].parameters(), strict=True)
                    log(f"rank{rank}/weight_distance", sum(float((a - b).norm()) for a, b in pairs), step)
        if step % 60 == 59:
            log("val/acc", evaluate(models[0], xv, yv)[1], step)
