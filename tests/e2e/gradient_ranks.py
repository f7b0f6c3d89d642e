"""One of four ranks that train small models in every kind of parallelism, and what the truth is.

Weights, inputs and learning rate are short binary fractions, so that gradients come out the same to the last
bit however the batch is cut up: the job of four ranks and one process can be compared exactly.

Usage: RANK=… WORLD_SIZE=4 MASTER_ADDR=… MASTER_PORT=… python gradient_ranks.py OUT MODE…
"""

import contextlib
import os
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import watch

STEPS = 3
EXACT_STEPS = 2
RANKS = 4
EXAMPLES = 4
"""Of each rank in each micro-batch."""
LR = 0.5
CUT = 0.25


class Net(nn.Module):
    """Two linear layers and a tied one; loss and gradients are exact in float32, and in bfloat16 at first."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 10)
        self.second = nn.Linear(10, 5)
        self.again = nn.Linear(6, 10, bias=False)
        self.unused = nn.Parameter(torch.ones(3))
        random = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randint(-1, 2, parameter.shape, generator=random) / 2)
        self.again.weight = self.first.weight  # tied: to be counted once

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x))) + self.second(self.again(x))


def batch(step: int, micro: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs and targets of all ranks."""
    random = torch.Generator().manual_seed(100 * step + micro)
    shape = RANKS * EXAMPLES
    x = torch.randint(-1, 2, (shape, 6), generator=random).float()
    return x, torch.randint(-1, 2, (shape, 5), generator=random).float()


def loss_of(model: nn.Module, x: torch.Tensor, target: torch.Tensor, bf16: bool) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        out = model(x)
    return (out.float() * target).sum() / len(x)


def named(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name.removeprefix("module."): each for name, each in model.named_parameters()}


def full(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Return a whole tensor from whatever part of it is here. All ranks call this."""
    if tensor is None:
        return None
    tensor = tensor.detach()
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).clone()


def mesh(*shape: int, names: tuple[str, ...]):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=names)


def wrap(mode: str, model: Net) -> nn.Module:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {"first": ColwiseParallel(), "again": ColwiseParallel(), "second": RowwiseParallel()}
    if mode.startswith(("ddp", "accumulate")):
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    if mode == "fsdp":
        fully_shard(model, mesh=mesh(4, names=("dp",)))
    elif mode == "hsdp":
        fully_shard(model, mesh=mesh(2, 2, names=("replicate", "shard")))
    elif mode == "tp_fsdp":
        both = mesh(2, 2, names=("dp", "tp"))
        parallelize_module(model, both["tp"], plan)
        model.again.weight = model.first.weight  # which made a parameter of its own of it
        fully_shard(model, mesh=both["dp"])
    elif mode == "tp":  # tensor parallel inside, replicas outside, their gradients averaged by hand
        both = mesh(2, 2, names=("dp", "tp"))
        parallelize_module(model, both["tp"], plan)
        model.again.weight = model.first.weight
        model.reduce_over = both["dp"].get_group()
    return model


def mean_by_hand(model: nn.Module) -> None:
    group = getattr(model, "reduce_over", None)
    if group is not None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                part = parameter.grad.to_local() if hasattr(parameter.grad, "to_local") else parameter.grad
                torch.distributed.all_reduce(part, group=group)
                part.div_(torch.distributed.get_world_size(group))


class WandbStyle:
    """A histogram hook on each parameter's gradient, as the popular tracker sets it."""

    def __init__(self, model: nn.Module) -> None:
        self.fired: dict[str, list[float]] = {}
        for name, parameter in named(model).items():
            if parameter.requires_grad:
                parameter.register_hook(lambda gradient, name=name: self.see(name, gradient))

    def see(self, name: str, gradient: torch.Tensor) -> None:
        flat = gradient.detach().float().reshape(-1)
        flat.histc(64, flat.min().item(), flat.max().item())
        self.fired.setdefault(name, []).append(float(flat.norm()))


def train(mode: str, out: Path) -> None:
    rank = int(os.environ["RANK"])
    bf16, micros = "bf16" in mode, 3 if "accumulate" in mode else 1
    parallel = mode.removeprefix("cut_")
    tensor_parallel = parallel.startswith("tp")
    model = wrap(parallel, Net())
    rival = WandbStyle(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    hook = ss.GradientHook(every_n_steps=1, histograms_every=1, max_overhead=None)
    truth: dict[str, np.ndarray] = {}
    with ss.Run(out / mode, hooks=[hook], rank=rank, world_size=RANKS) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(STEPS)):
            optimizer.zero_grad()
            for micro in range(micros):
                x, target = batch(step, micro)
                group = rank // 2 if tensor_parallel else rank
                size = len(x) // (2 if tensor_parallel else RANKS)
                mine = slice(group * size, (group + 1) * size)
                quiet = micro < micros - 1 and hasattr(model, "no_sync")
                with model.no_sync() if quiet else contextlib.nullcontext():
                    loss_of(model, x[mine], target[mine], bf16).backward()
            mean_by_hand(model)
            before = {name: full(each) for name, each in named(model).items()}
            if mode.startswith("cut_"):
                whole = [full(each.grad) for each in model.parameters() if each.grad is not None]
                truth[f"uncut/{step}"] = nn.utils.get_total_norm(whole).numpy()
                nn.utils.clip_grad_value_(model.parameters(), CUT)
            for name, each in named(model).items():
                gradient = full(each.grad)
                truth[f"{step}/weights/{name}"] = before[name].numpy()
                if gradient is not None:
                    truth[f"{step}/gradients/{name}"] = gradient.numpy()
            optimizer.step()
            for name, each in named(model).items():
                if each.grad is not None:
                    truth[f"{step}/updates/{name}"] = (full(each) - before[name]).numpy()
    rivals = {f"rival/{name}": np.array(norms) for name, norms in rival.fired.items()}
    if rank == 0:
        np.savez(out / f"{mode}.npz", **truth, **rivals)
    problems = {reason: count for reason, count in run.problems.items() if count}
    (out / f"{mode}.{rank}.txt").write_text(f"{problems}\n")


def single(mode: str) -> dict[str, np.ndarray]:
    """Return the gradients of one process that trains with the whole batch."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    found = {}
    for step in range(EXACT_STEPS):
        optimizer.zero_grad()
        for micro in range(3 if "accumulate" in mode else 1):
            loss_of(model, *batch(step, micro), "bf16" in mode).backward()
        for name, each in model.named_parameters():
            if each.grad is not None:
                found[f"{step}/gradients/{name}"] = each.grad.numpy().copy()
        optimizer.step()
    return found


def main() -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    for mode in sys.argv[2:]:
        train(mode, Path(sys.argv[1]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
