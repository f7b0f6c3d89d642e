"""What a rank works on is read from the device mesh of its parameters."""

import json

import pytest
from support.jobs import train_ranks

torch = pytest.importorskip("torch")

from stepscope.integrations.torch.mesh import work_of  # noqa: E402

TRAIN = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
import stepscope as ss
from stepscope.integrations.torch import watch

log_dir, rank, port, names = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=4)
torch.set_num_threads(1)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=tuple(names))
model = torch.nn.Sequential(torch.nn.Linear(8, 8))
fully_shard(model, mesh=mesh[names[1]])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with ss.Run(log_dir, rank=rank, world_size=4) as run:
    watch(model, optimizer, run)
    for batch in run.steps([torch.ones(2, 8)] * 40):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
"""


def groups(folder, names):
    return train_ranks(TRAIN, folder, 4, names)


@pytest.mark.slow
def test_stages_of_a_pipeline_are_accounted_for_by_themselves(tmp_path):
    job = groups(tmp_path / "job", "pp,dp")
    assert [(each.group, each.frontier.ranks) for each in job.accounts] == [
        ("pipeline 0", (0, 1)), ("pipeline 1", (2, 3))
    ]  # fmt: skip
    told = json.loads(json.dumps(job.data()))["groups"]
    assert [(each["group"], each["ranks"]) for each in told] == [
        ("pipeline 0", [0, 1]),
        ("pipeline 1", [2, 3]),
    ]


@pytest.mark.slow
def test_replicas_of_data_parallelism_are_one_group(tmp_path):
    job = groups(tmp_path / "job", "replicate,shard")
    assert [(each.group, each.frontier.ranks) for each in job.accounts] == [("", (0, 1, 2, 3))]


def test_a_model_without_a_mesh_says_nothing():
    assert work_of(torch.nn.Linear(2, 2)) is None


def test_a_mesh_need_not_name_its_dimensions():
    class Nameless:
        mesh_dim_names, shape = None, (2,)

        def get_coordinate(self):
            return [1]

        def _get_root_mesh(self):
            return self

    model = torch.nn.Linear(2, 2)
    model.weight.device_mesh = Nameless()
    assert work_of(model) is None
