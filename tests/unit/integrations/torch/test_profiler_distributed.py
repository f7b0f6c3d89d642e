"""Captures of DDP and FSDP2, in a process group of one."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

import stepscope as ss
from stepscope.trace.model import Kind

pytestmark = [
    pytest.mark.skipif(not dist.is_available(), reason="this PyTorch has no torch.distributed"),
    pytest.mark.filterwarnings("ignore"),
]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def ddp(model):
    return nn.parallel.DistributedDataParallel(model)


def fsdp2(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    fully_shard(model.encoder, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@pytest.mark.parametrize("wrap", [ddp, fsdp2])
def test_modules_and_both_passes_are_recorded(wrap, group, tmp_path):
    model = wrap(Model())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="torch")
    with ss.Run(tmp_path / "run", rank=0, world_size=1, hooks=[hook]) as run:
        for _ in run.steps(range(10)):
            optimizer.zero_grad()
            model(torch.ones(4, 8)).sum().backward()
            optimizer.step()
    assert run.problems == {}
    (path,) = tmp_path.rglob("*.pt.trace.json.gz")
    trace = ss.load_trace(path, cache=False)
    assert trace.steps.number.tolist() == [5, 6]
    names = [trace.name_of(int(row)) for row in (trace.kind == Kind.MODULE_SCOPE).nonzero()[0]]
    scopes = {name.removeprefix("nn.Module: ") for name in names}
    assert scopes == {"Model", "encoder", "0", "1", "head"}
    # The step after may be in the file, too: it runs while the recording is being ended.
    backward = [row for row in trace.named("AddmmBackward0") if trace.step[row] >= 0]
    assert len(backward) == 4
    found = {trace.scopes.text(int(trace.scope[row])).rpartition("nn.Module: ")[2] for row in backward}
    assert found == {"0", "head"}
    assert trace.sources[0].world_size == 1
