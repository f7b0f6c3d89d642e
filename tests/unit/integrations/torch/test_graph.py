"""Modules as graphs: every operation in its place, its time and memory, and nothing of the model changed."""

import pytest
import torch

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.integrations.torch.graph import trace

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        convolution = torch.nn.Conv2d(3, 8, 3)
        self.body = torch.nn.Sequential(
            convolution, torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout()
        )
        self.head = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Dependent(Net):
    def forward(self, x):
        x = self.body(x)
        if x.sum() > 1e9:
            x = x * 2
        return self.head(x.mean((2, 3)))


@pytest.fixture(scope="module")
def traced():
    return trace(Net(), torch.rand(2, 3, 8, 8))


def test_operations_stand_in_their_modules_with_edges_and_shapes(traced):
    assert traced.exported
    nodes = {node.name: node for node in traced.nodes}
    assert nodes["body/0/conv2d"].op == "aten.conv2d"
    assert set(nodes["body/0/conv2d"].inputs) == {"x", "body/0/weight", "body/0/bias"}
    assert list(nodes["body/0/conv2d"].shapes) == [(2, 8, 6, 6)]
    assert nodes["head/linear"].inputs[0] == "mean"
    assert nodes["head/weight"].op == "Parameter"
    assert nodes["output"].inputs == ["head/linear"]
    names = [node.name for node in traced.nodes]
    for node in traced.nodes:
        assert all(names.index(each) < names.index(node.name) for each in node.inputs)


def test_each_operation_has_time_and_memory(traced):
    costs = {cost.name: cost for cost in traced.costs}
    operations = {node.name for node in traced.nodes if node.op.startswith("aten.")}
    assert costs.keys() == operations
    assert costs["body/0/conv2d"].memory_bytes == 2 * 8 * 6 * 6 * 4
    assert all(cost.duration_us > 0 for cost in traced.costs)


def test_the_model_and_the_random_numbers_are_left_alone():
    model = Net()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trace(model, torch.rand(2, 3, 8, 8, generator=torch.Generator()))
    assert torch.equal(torch.rand(3), expected)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_depends_on_its_data_is_seen_through_hooks(capfd):
    model = Dependent()
    before = {name: value.clone() for name, value in model.named_buffers()}
    traced = trace(model, torch.rand(2, 3, 8, 8))
    assert not traced.exported
    nodes = {node.name: node for node in traced.nodes}
    assert list(nodes) == [
        "body/0/Conv2d", "body/1/BatchNorm2d", "body/2/ReLU", "body/3/Dropout", "head/Linear",
    ]  # fmt: skip
    assert nodes["body/2/ReLU"].inputs == ["body/1/BatchNorm2d"]
    assert {cost.name for cost in traced.costs} == nodes.keys()
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())
    assert not any(module._forward_hooks for module in model.modules())


def test_a_module_used_twice_is_two_nodes():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 3)

        def forward(self, x):
            if float(x.sum()) > 1e9:
                return x
            return self.layer(self.layer(x))

    traced = trace(Twice(), torch.rand(1, 3))
    assert [(node.name, list(node.inputs)) for node in traced.nodes] == [
        ("layer/Linear", []), ("layer/Linear_1", ["layer/Linear"])
    ]  # fmt: skip


def test_named_arguments_and_none():
    class Named(torch.nn.Module):
        def forward(self, x, *, scale):
            return x * scale

    traced = trace(Named(), {"x": torch.rand(2), "scale": torch.tensor(2.0)})
    assert {node.name for node in traced.nodes} >= {"x", "scale", "mul", "output"}
    tree = trace(Net())
    assert {node.name for node in tree.nodes} >= {"body/0/Conv2d", "body/0/weight", "head/Linear"}
    assert tree.costs == []
    with pytest.raises(UsageError, match=r"torch\.nn\.Module, got str"):
        trace("model")


def test_tensorboard_shows_it_coloured(tmp_path):
    from tensorboard.compat.proto.config_pb2 import RunMetadata
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    found = trace(Net(), torch.rand(2, 3, 8, 8))
    with ss.Run(tmp_path) as run:
        run.graph(found.nodes, costs=found.costs, tag="step1", step=0)
    with ss.open(tmp_path, cache=False) as log:
        run = log.run(".")
        graph = GraphDef.FromString(run.record("__run_graph__")[0][0])
        metadata = RunMetadata.FromString(run.record("step1")[0][0])
    names = {node.name for node in graph.node}
    assert all(source in names for node in graph.node for source in node.input)
    [device] = metadata.step_stats.dev_stats
    assert {stats.node_name for stats in device.node_stats} <= names
    assert all(stats.all_end_rel_micros > 0 and stats.memory[0].total_bytes for stats in device.node_stats)
