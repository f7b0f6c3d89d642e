"""The wide-and-deep model in PyTorch, alone or on several ranks.

One machine:  ``python examples/birthweight/torch_train.py runs/births``
A chief and four workers:
              ``torchrun --nproc-per-node 5 examples/birthweight/torch_train.py runs/births``
Ray Train:    ``python examples/birthweight/ray_train.py runs/births``
Then:         ``stepscope serve runs``, ``stepscope advise runs``, ``stepscope ranks runs/births``

The page then shows train/loss and eval/loss on one chart, the fraction of zeros and the gradients of each
layer, means over 50 steps, profiles by step, time or predicate, and of several ranks each one's steps.
On a machine with GPUs each rank takes one of them, and the ranks talk over NCCL.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from births import BUCKETS, WIDE, births, features
from options import hooks as shared_hooks
from options import parser
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import stepscope as ss
from stepscope.integrations.torch import watch


class WideAndDeep(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.EmbeddingBag(WIDE, 1, mode="sum")
        self.embedding = nn.Embedding(BUCKETS, 3)
        self.deep = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, wide: Tensor, crossed: Tensor, numbers: Tensor) -> Tensor:
        return self.wide(wide) + self.deep(torch.cat([self.embedding(crossed), numbers], 1))


def data(count: int, seed: int, device: torch.device) -> list[Tensor]:
    columns, weight = births(count, seed)
    return [torch.from_numpy(column).to(device) for column in (*features(columns), weight)]


def main(directory: str, steps: int, batch: int, profile: str) -> None:
    torch.manual_seed(0)
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_gpu else torch.device("cpu")
    mine = ranks > 1 and not torch.distributed.is_initialized()  # Ray Train has done it
    if mine:
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    model: Any = WideAndDeep().to(device)
    if ranks > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    train, unseen = data(20_000, 1 + rank, device), data(2_000, 0, device)
    hooks = [
        *shared_hooks(profile),
        ss.GradientHook(every_n_steps=50),
        ss.ActivationHook(every_n_steps=50),
    ]
    with ss.Run(directory, config={"batch": batch, "ranks": ranks}, hooks=hooks, total_steps=steps) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(steps)):
            chosen = torch.randint(len(train[-1]), (batch,), device=device)
            *inputs, weight = (column[chosen] for column in train)
            loss = mse_loss(model(*inputs), weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.count(examples=batch)
            run.scalar("train/loss", loss)
            if step % 100 == 99 or step == steps - 1:
                with torch.no_grad():
                    whole = model.module if ranks > 1 else model
                    run.scalar("eval/loss", mse_loss(whole(*unseen[:-1]), unseen[-1]))
    if mine:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(**vars(parser(__doc__).parse_args()))
