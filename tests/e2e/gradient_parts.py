"""One of four ranks whose gradients are sums still to be made, or of which one is slow at measuring.

Usage: RANK=… WORLD_SIZE=4 MASTER_ADDR=… MASTER_PORT=… python gradient_parts.py OUT
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

import stepscope as ss
from stepscope.integrations.torch import measure, watch

RANKS, STEPS = 4, 6
SLOW_RANK, SLOW_STEPS = 2, 120


class Still(torch.optim.Optimizer):
    """Leaves the parameters as they are: only what comes before its step is looked at."""

    def __init__(self, parameters) -> None:
        super().__init__(parameters, {})

    def step(self) -> None:
        """Do nothing."""


def part(name: str, rank: int, step: int) -> torch.Tensor:
    """Return what a rank adds to a gradient; short binary fractions, so that sums are exact."""
    random = torch.Generator().manual_seed(1000 * step + 10 * rank + len(name))
    return torch.randint(-8, 9, (6, 4), generator=random) / 4


def pending(out: Path, rank: int) -> None:
    """Train with gradients that are sums and means yet to be made, over all ranks or over pairs of them."""
    line = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("all",))
    grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("sum", "other"))
    places = {
        "sum": (line, [Partial()], [Replicate()], rank),
        "mean": (line, [Partial("avg")], [Replicate()], rank),
        "replicas": (grid, [Partial(), Replicate()], [Replicate(), Replicate()], rank // 2),
        "shards": (grid, [Partial(), Shard(0)], [Replicate(), Shard(0)], rank),
    }
    model = nn.Module()
    for name, (mesh, _, placements, _) in places.items():
        whole = torch.ones(6, 4)
        local = whole.chunk(2)[rank % 2] if name == "shards" else whole
        weight = DTensor.from_local(local, mesh, placements)
        model.register_parameter(name, nn.Parameter(weight))
    optimizer = Still(model.parameters())
    hook = ss.GradientHook(of=["gradients"], every_n_steps=1, histograms_every=1, max_overhead=None)
    with ss.Run(out / "pending", hooks=[hook], rank=rank, world_size=RANKS) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(STEPS)):
            for name, (mesh, placements, _, who) in places.items():
                local = part(name, who, step)
                if name == "shards":
                    local = local.chunk(2)[rank % 2].contiguous()
                getattr(model, name).grad = DTensor.from_local(local, mesh, placements)
            optimizer.step()
            # A new layout is agreed on between samples; a step must not outrun it.
            hook.parts[0]._rounds.drain(60)
            torch.distributed.barrier()
    (out / f"pending.{rank}.json").write_text(json.dumps(run.problems))


def slow(out: Path, rank: int) -> None:
    """Train where one rank takes longer to measure than the time budget allows."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    original = measure.measure

    def slowly(table, parts, *, squares_only=False):
        if not squares_only:
            time.sleep(0.05)
        return original(table, parts, squares_only=squares_only)

    if rank == SLOW_RANK:
        measure.measure = slowly
    hook = ss.GradientHook(every_n_steps=2, dense_steps=0, max_overhead=0.05, noise_scale=False)
    with ss.Run(out / "slow", hooks=[hook], rank=rank, world_size=RANKS) as run:
        watch(model, optimizer, run)
        for _ in run.steps(range(SLOW_STEPS)):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
            time.sleep(0.005)
        hook.parts[0]._rounds.drain(60)
        found = hook.parts[0]._sampling._stretches
    (out / f"slow.{rank}.json").write_text(json.dumps(found))


def main() -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    out, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    pending(out, rank)
    slow(out, rank)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
