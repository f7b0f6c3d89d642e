"""One of three ranks of which one skips steps, or dies, or never measures; the others must go on.

Usage: RANK=… python gradient_trouble.py OUT TROUBLE
"""

import os
import sys
import time
import warnings
from pathlib import Path

import torch
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import watch

STEPS, DEATH = 30, 7


def exchanged(hook: ss.GradientHook, out: Path, rank: int) -> None:
    """Wait until all ranks have what was measured so far; the one that dies, until the others say so."""
    [part] = hook.parts
    assert part._rounds.drain(60)  # type: ignore[attr-defined]
    (out / f"{rank}.exchanged").touch()
    while rank == 2 and len(list(out.glob("*.exchanged"))) < 3:
        time.sleep(0.005)


def main() -> None:
    out, trouble, rank = Path(sys.argv[1]), sys.argv[2], int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook = ss.GradientHook(every_n_steps=5, max_overhead=None, dense_steps=3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = ss.Run(out / "run", hooks=[hook], rank=rank, world_size=3)
        watch(model, optimizer, run)
        if trouble == "layout" and rank == 1:  # from here on this rank has a parameter that the others lack
            optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
        began = time.perf_counter()
        slowest = 0.0
        for step in run.steps(range(STEPS)):
            if trouble == "dies" and step == DEATH:
                exchanged(hook, out, rank)
                if rank == 2:
                    os._exit(0)
            at = time.perf_counter()
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            skipped = trouble == "skips" and rank == 1 and step in (5, 6, 10)
            if not skipped and not (trouble == "absent" and rank == 1 and step > 4):
                optimizer.step()
            slowest = max(slowest, time.perf_counter() - at)
            time.sleep(0.02)
        loop = time.perf_counter() - began
        ended = time.perf_counter()
        run.close()
        ended = time.perf_counter() - ended
    ours = [str(one.message) for one in said if "stepscope" in str(one.message)]
    (out / f"{rank}.txt").write_text(f"{loop:.2f} {ended:.2f} {slowest:.2f}\n" + "\n".join(ours))
    os._exit(0)  # torch's own groups wait for ranks that are gone


if __name__ == "__main__":
    main()
