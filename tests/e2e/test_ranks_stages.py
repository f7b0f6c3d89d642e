"""Real processes of which one is slow in its data, forward or optimizer code: rank, stage, line are told."""

import json

import pytest
from support.jobs import train_ranks

from stepscope.job import load_ranks

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
RANKS, STEPS, SLOW, DELAY_S = 4, 80, 2, 0.1
CAPTURED, MANY = 60, 8
"""The first step that is profiled, and how many are."""
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
        time.sleep({DELAY_S})  # here


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
hook = ss.ProfilerHook(
    save_steps=10_000, skip_first={CAPTURED}, num_steps={MANY}, ranks="all", analyse=False, modules=False
)
with ss.Run(log_dir, rank=rank, world_size={RANKS}, hooks=[hook]) as run:
    watch(model, optimizer, run)
    for batch in run.steps(data()):
        slow("rest")
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
dist.destroy_process_group()
"""


def train(folder, where):
    """Run the program from a file, as stacks name it."""
    (folder / "train.py").write_text(TRAIN)
    program = f"import runpy; runpy.run_path({str(folder / 'train.py')!r}, run_name='__main__')"
    return train_ranks(program, folder / "job", RANKS, where)


@pytest.mark.parametrize("where", ["data", "rest", "forward", "optimizer"])
def test_the_slow_rank_and_its_stage_are_found(tmp_path, where):
    job = train(tmp_path, where)
    (account,) = job.accounts
    stages = {stage.stage for stage in account.frontier.stages}
    assert stages == {"data", "forward", "backward", "optimizer", "rest"}
    found = {(stage.stage, stage.leader) for stage in account.frontier.stages if stage.label == "persistent"}
    assert (where, SLOW) in found, json.dumps(job.data())
    worst = max(account.frontier.stages, key=lambda stage: stage.beyond_median_s)
    assert (worst.stage, worst.leader, worst.label) == (where, SLOW, "persistent")
    assert worst.beyond_median_s == pytest.approx(DELAY_S * (STEPS - 1), rel=0.2)
    line_is_named(tmp_path)


def line_is_named(folder):
    """The captured steps name the rank, and the line in which it sleeps."""
    line = next(at for at, text in enumerate(TRAIN.splitlines(), 1) if "# here" in text)
    (chief,) = (folder / "job" / "profiles").glob("chief_rank0_*.pt.trace.json.gz")
    found = load_ranks(chief.with_name(f"rank*_{chief.name.split('_', 2)[2]}"))
    assert found.stragglers[0].rank == SLOW, found.data()
    worst = found.blame[0]
    assert worst.rank == SLOW
    assert f"train.py:{line} " in worst.line or f"train.py({line})" in worst.line, worst
    assert {row.what: row for row in found.costs["line"]}[worst.line].share > 0.5
    # Nobody but the slow rank is what the steps wait for.
    assert next(iter(found.path.ranks)) == SLOW
    assert sum(piece.time_ns for piece in found.path.pieces) == found.path.total_ns
    # Without its delay a step would be shorter by it.
    like = next(change for change in found.replay.changes if change.rank == SLOW)
    assert like.gain_ns == pytest.approx(1e9 * DELAY_S, rel=0.35)
