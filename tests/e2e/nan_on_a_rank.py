"""One of three data-parallel ranks over gloo; of one the batch of one step has a value that is not finite.

Usage: RANK=… python nan_on_a_rank.py OUT HOW

HOW is ``input`` (rank 1's batch), ``gradient`` (its gradient alone, the loss stays finite) or ``nothing``.
"""

import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stepscope as ss
from stepscope.integrations.torch import watch

STEPS, BAD, RANK = 120, 37, 1


def main() -> None:
    out, how, rank = Path(sys.argv[1]), sys.argv[2], int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    told: list[str] = []
    live = ss.HealthHook(severity="low", call=lambda one: told.append(f"{one.rule}: {one.summary}"))
    draw = torch.Generator().manual_seed(rank)
    with ss.Run(out, hooks=[ss.GradientHook(1), live], rank=rank, world_size=3) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(STEPS)):
            x = torch.randn(32, 8, generator=draw)
            target = x.sum(1, keepdim=True)
            if how == "input" and (rank, step) == (RANK, BAD):
                x[3, 2] = float("nan")
            loss = (model(x) - target).square().mean()
            optimizer.zero_grad()
            if how == "gradient" and (rank, step) == (RANK, BAD):
                # As a backward pass that divides by zero: the loss is what it was.
                loss.register_hook(lambda slope: slope * float("inf"))
            loss.backward()
            optimizer.step()
            run.scalar("train/loss", loss.detach())
            time.sleep(0.1 if step > BAD else 0.0)  # what is told comes within seconds
        before_the_end = list(told)
    if rank == 0:
        (out / "told.txt").write_text("\n".join(before_the_end))
        known = [f"{one.rule}: {one.summary}" for one in live.findings]
        (out / "known.txt").write_text("\n".join(known))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
