"""Graphs and their costs as TensorBoard's own messages hold them."""

import pytest
from tensorboard.compat.proto import graph_pb2, meta_graph_pb2

from stepscope.events.kinds import graph
from stepscope.events.messages import Shape
from stepscope.events.wire import decode, encode


def theirs(data, kind):
    found = kind()
    found.ParseFromString(data)
    return found


def test_a_graph_is_one_of_tensorflow():
    node = graph.Node(
        "a/b", "Linear", ["x", "y"], [(2, -1)], "cuda:1",
        {"flag": True, "count": 3, "rate": 0.5, "text": "é", "large": 1 << 63},
    )  # fmt: skip
    found = theirs(graph.graph_def([node, graph.Node("c")]), graph_pb2.GraphDef)
    first, second = found.node
    assert (first.name, first.op, list(first.input), first.device) == (
        "a/b",
        "Linear",
        ["x", "y"],
        "/device:GPU:1",
    )
    assert (second.op, second.device) == ("Node", "")
    attributes = first.attr
    assert (attributes["flag"].b, attributes["count"].i, attributes["rate"].f) == (True, 3, 0.5)
    assert attributes["flag"].WhichOneof("value") == "b"
    assert attributes["text"].s == "é".encode()
    assert attributes["large"].s == b"9223372036854775808"
    [shape] = attributes["_output_shapes"].list.shape
    assert [each.size for each in shape.dim] == [2, -1]
    assert found.versions.producer == 22


def test_lists_of_attributes_are_read():
    data = graph_pb2.GraphDef().node.add().attr["several"]
    data.list.s.extend([b"a", b"b"])
    data.list.i.extend([3, -4])
    data.list.shape.add().dim.add().size = 7
    found = decode(graph.AttrValue, data.SerializeToString())
    assert (found.list_value.s, found.list_value.i) == ([b"a", b"b"], [3, -4])
    assert [shape.sizes for shape in found.list_value.shape] == [(7,)]
    assert encode(found) == data.SerializeToString()


def test_a_graph_within_others_is_read():
    data = meta_graph_pb2.MetaGraphDef()
    data.graph_def.node.add().name = "n"
    found = decode(graph.MetaGraphDef, data.SerializeToString())
    assert [node.name for node in found.graph_def.node] == ["n"]


def test_the_cost_of_a_node_is_from_its_first_start_to_its_last_end():
    """By field numbers of tensorflow/core/framework/step_stats.proto."""
    costs = [
        graph.NodeCost("a", 10.4, 25.6, 4096, [(2, 3)], "cuda:0"),
        graph.NodeCost("b", 40.0, 0.2, None, (), "cpu"),
    ]
    gpu, cpu = decode(graph.RunMetadata, graph.run_metadata(costs)).step_stats.dev_stats
    assert (gpu.device, cpu.device) == ("/device:GPU:0", "/device:CPU:0")
    [a] = gpu.node_stats
    assert (a.all_start_micros, a.op_start_rel_micros, a.op_end_rel_micros, a.all_end_rel_micros) == (
        10, 0, 26, 26,
    )  # fmt: skip
    assert [(each.allocator_name, each.total_bytes) for each in a.memory] == [("cuda:0", 4096)]
    assert [(each.slot, each.tensor_description.shape) for each in a.output] == [(0, Shape.of(2, 3))]
    [b] = cpu.node_stats
    assert (b.all_end_rel_micros, b.memory, b.output) == (1, [], [])  # what took no time is left out
    assert encode(graph.NodeExecStats("n", 1, 2, 3, 4, [graph.AllocatorMemory("x", 5, 6)])).hex() == (
        "0a016e" "1001" "1802" "2003" "2804" "3207" "0a0178" "1005" "1806"
    )  # fmt: skip
    output = graph.NodeOutput(1, graph.TensorDescription(1, Shape.of(2)))
    assert encode(output).hex() == "0801" "1a08" "0801" "1204" "12020802"  # fmt: skip


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("cpu", "/device:CPU:0"),
        ("cuda:3", "/device:GPU:3"),
        ("CUDA", "/device:GPU:0"),
        ("tpu:1", "/device:TPU:1"),
        ("mps:0", "/device:MPS:0"),
        ("", ""),
        ("/job:a/device:GPU:7", "/job:a/device:GPU:7"),
    ],
)
def test_devices_are_spelt_as_tensorflow_does(device, said):
    [node] = theirs(graph.graph_def([graph.Node("a", device=device)]), graph_pb2.GraphDef).node
    assert node.device == said


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a/b", "a/b"),
        ("/a b/", "a_b"),
        ("_a", "n_a"),
        (".a", ".a"),
        ("", "node"),
        ("//", "node"),
        ("é", "é"),
        ("-", "n-"),
    ],
)
def test_names_are_such_as_tensorboard_takes(text, name):
    assert graph.node_name(text) == (name if name != "é" else "n_")


@pytest.mark.parametrize(
    ("node", "own"),
    [
        ("stepscope_gradients/a", True),
        ("_retval_stepscope_gradients/a", True),
        ("stepscope_gradients", True),
        ("model/stepscope_gradients", False),
        ("a", False),
    ],
)
def test_what_stepscope_adds_to_a_graph_is_its_own(node, own):
    assert graph.is_own(node) == own
