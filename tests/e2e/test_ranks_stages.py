"""Real processes of which one is slow in its data, forward or optimizer code: rank and stage are found."""

from __future__ import annotations

import json

import pytest
from support.jobs import train_ranks

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
RANKS, STEPS, SLOW, DELAY_S = 4, 80, 2, 0.1
TRAIN = f"""
import sys, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import stepscope as ss
from stepscope.integrations.torch import watch

log_dir, rank, port, where = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{{port}}", rank=rank, world_size={RANKS})
torch.set_num_threads(1)


def slow(here):
    if rank == {SLOW} and where == here:
        time.sleep({DELAY_S})


class Model(torch.nn.Linear):
    def forward(self, x):
        slow("forward")
        return super().forward(x)


class Slow(torch.optim.SGD):
    def _init_group(self, *more):
        slow("optimizer")
        return super()._init_group(*more)


def data():
    for _ in range({STEPS}):
        slow("data")
        yield torch.randn(8, 64)


model = DistributedDataParallel(Model(64, 64))
optimizer = Slow(model.parameters(), lr=0.01)
with ss.Run(log_dir, rank=rank, world_size={RANKS}) as run:
    watch(model, optimizer, run)
    for batch in run.steps(data()):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
"""


def train(folder, where):
    return train_ranks(TRAIN, folder / "job", RANKS, where)


@pytest.mark.parametrize("where", ["data", "forward", "optimizer"])
def test_the_slow_rank_and_its_stage_are_found(tmp_path, where):
    job = train(tmp_path, where)
    (account,) = job.accounts
    assert [stage.stage for stage in account.frontier.stages] == [
        "data", "copy", "forward", "backward", "optimizer", "rest"
    ]  # fmt: skip
    found = {(stage.stage, stage.leader) for stage in account.frontier.stages if stage.label == "persistent"}
    assert (where, SLOW) in found, json.dumps(job.data())
    worst = max(account.frontier.stages, key=lambda stage: stage.beyond_median_s)
    assert (worst.stage, worst.leader, worst.label) == (where, SLOW, "persistent")
    assert worst.beyond_median_s == pytest.approx(DELAY_S * (STEPS - 1), rel=0.2)
