"""What is recorded of the model itself: weights, images, graph, embeddings."""

import json
from collections import defaultdict

import keras
import numpy as np
import pytest
from support.records import decoded_files

from stepscope.errors import StepscopeError
from stepscope.events.kinds import graph as graphs
from stepscope.events.tensors import array
from stepscope.events.wire import decode
from stepscope.integrations.keras import StepscopeCallback
from stepscope.integrations.keras.model import as_images, nodes, read_labels

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's own
KERAS3 = not keras.__version__.startswith("2.")


def events(directory):
    """Every event of a run directory."""
    return decoded_files(directory)


def values(directory):
    """Values of records by tag: (step, value)."""
    found = defaultdict(list)
    for event in events(directory):
        for value in event.values:
            found[value.tag].append((event.step, value))
    return found


def test_histograms_and_images_of_weights(make_model, data, tmp_path):
    model = make_model()
    ours = StepscopeCallback(tmp_path, histogram_freq=2, write_images=True)
    model.fit(*data, batch_size=8, epochs=3, verbose=0, callbacks=[ours])
    found = values(tmp_path)
    histograms = {tag: rows for tag, rows in found.items() if tag.endswith("/histogram")}
    assert len(histograms) == len(model.weights) == 4
    kernel = next(weight for weight in model.weights if tuple(weight.shape) == (3, 4))
    [tag] = [tag for tag in histograms if "hidden" in tag and "kernel" in tag]
    assert tag == f"weights/{getattr(kernel, 'path', kernel.name)}/histogram".replace(":", "_")
    assert [step for step, _ in histograms[tag]] == [4, 14]
    buckets = array(histograms[tag][-1][1].tensor)
    weight = model.get_weights()[0]
    assert buckets[:, 2].sum() == weight.size
    assert (buckets[0, 0], buckets[-1, 1]) == pytest.approx((weight.min(), weight.max()))
    picture = found[tag.replace("/histogram", "/image")][-1][1]
    assert picture.metadata.plugin_name == "images"


def test_images_of_weights():
    random = np.random.default_rng(0)
    assert as_images(random.normal(size=(6,))).shape == (1, 6, 1, 1)
    assert as_images(random.normal(size=(6, 4))).shape == (1, 4, 6, 1)
    assert as_images(random.normal(size=(5, 1, 2, 7))).shape == (7, 5, 2, 1)
    assert as_images(random.normal(size=(5, 3, 2, 7))) is None
    assert as_images(np.ones((2, 2))).max() == 0
    assert as_images(np.float32([[-1, 3], [1, 2]]))[0, :, :, 0].tolist() == [[0, 1], [0.5, 0.75]]


@pytest.fixture
def branches():
    start = keras.Input((3,), name="start")
    left, right = (keras.layers.Dense(4, name=name)(start) for name in ("left", "right"))
    inner = keras.Sequential(
        [keras.layers.Dense(3, name="deep"), keras.layers.ReLU(name="cut")], name="inner"
    )
    joined = keras.layers.Concatenate(name="joined")([left, right])
    total = keras.layers.Add(name="total")([inner(joined), keras.layers.Dense(3, name="side")(joined)])
    return keras.Model(start, total, name="branches")


def test_the_graph_of_the_layers(branches):
    found = {node.name.removeprefix("branches/"): node for node in nodes(branches)}
    edges = {name: [source[9:] for source in node.inputs] for name, node in found.items()}
    starts = [name for name, node in found.items() if node.op == "InputLayer" and name != "start"]
    inside = {name: edges.pop(name) for name in starts}
    first = next(iter(inside), "joined")
    assert all(sources == ["joined"] for sources in inside.values())
    assert edges == {
        "start": [],
        "left": ["start"],
        "right": ["start"],
        "joined": ["left", "right"],
        "inner/deep": [first],
        "inner/cut": ["inner/deep"],
        "side": ["joined"],
        "total": ["inner/cut", "side"],
    }


def test_the_same_layers_as_tensorboard_draws(branches):
    if not KERAS3:
        pytest.skip("TensorBoard reads no inputs of Keras 2")
    util = pytest.importorskip("tensorboard.plugins.graph.keras_util")
    theirs = util.keras_model_to_graph_def(json.loads(branches.to_json()))
    assert {node.name for node in theirs.node} == {node.name for node in nodes(branches)}
    edges = {(source, node.name) for node in theirs.node for source in node.input}
    ours = {(source, node.name) for node in nodes(branches) for source in node.inputs}
    assert ours >= {edge for edge in edges if not edge[1].startswith("branches/inner/input")}


def test_a_layer_that_is_used_twice():
    start = keras.Input((3,), name="start")
    shared = keras.layers.Dense(3, name="shared")
    model = keras.Model(start, shared(shared(start)), name="twice")
    assert [(node.name, list(node.inputs)) for node in nodes(model)] == [
        ("twice/start", []),
        ("twice/shared", ["twice/start"]),
        ("twice/shared_1", ["twice/shared"]),
    ]


class Own(keras.Model):
    def __init__(self):
        super().__init__(name="own")
        self.inner = keras.layers.Dense(1, name="dense")

    def call(self, x):
        return self.inner(x)


def test_a_model_that_is_no_graph_of_layers(data, tmp_path):
    model = Own()
    model.compile("sgd", "mse")
    model.predict(data[0], verbose=0)
    assert [(node.name, node.inputs) for node in nodes(model)] == [("own/dense", ())]
    model.fit(*data, epochs=1, verbose=0, callbacks=[StepscopeCallback(tmp_path)])


def test_the_graph_is_recorded_for_tensorboard(make_model, data, tmp_path):
    model = make_model()
    model.fit(*data, epochs=1, verbose=0, callbacks=[StepscopeCallback(tmp_path / "a")])
    [recorded] = [event.graph_def for event in events(tmp_path / "a") if event.graph_def is not None]
    names = [node.name for node in decode(graphs.GraphDef, recorded).node]
    assert names[-2:] == ["net/hidden", "net/out"]
    [(step, value)] = values(tmp_path / "a")["keras"]
    assert (step, value.metadata.plugin_name, value.metadata.plugin_data.content) == (
        0, "graph_keras_model", b"1",
    )  # fmt: skip
    said = json.loads(array(value.tensor).item())
    assert said["config"]["name"] == "net"
    model.fit(*data, epochs=1, verbose=0, callbacks=[StepscopeCallback(tmp_path / "b", write_graph=False)])
    assert not [event for event in events(tmp_path / "b") if event.graph_def is not None]


@pytest.fixture
def words():
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Embedding(5, 3, name="words"),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    return model, (np.arange(10).reshape(5, 2) % 5, np.ones((5, 1)))


@pytest.mark.parametrize("by_name", [True, False])
def test_embeddings_for_the_projector(words, tmp_path, by_name):
    labels = tmp_path / "labels.tsv"
    labels.write_text("word\tkind\n" + "".join(f"w{row}\tk\n" for row in range(5)))
    model, batch = words
    metadata = {"words": labels} if by_name else str(labels)
    ours = StepscopeCallback(tmp_path / "run", embeddings_freq=1, embeddings_metadata=metadata)
    model.fit(*batch, epochs=1, verbose=0, callbacks=[ours])
    config = (tmp_path / "run" / "projector_config.pbtxt").read_text()
    assert "embeddings/words" in config
    [vectors] = (tmp_path / "run" / "projector").glob("**/tensors.tsv")
    [expected] = model.get_layer("words").get_weights()
    np.testing.assert_allclose(np.loadtxt(vectors, delimiter="\t"), expected, rtol=1e-6)
    assert vectors.with_name("metadata.tsv").read_text().splitlines()[:2] == ["word\tkind", "w0\tk"]


def test_labels_of_a_layer_that_is_not_there(words, tmp_path):
    model, batch = words
    ours = StepscopeCallback(tmp_path, embeddings_freq=1, embeddings_metadata={"wrods": "x"})
    with pytest.raises(StepscopeError, match="embeddings_metadata names no Embedding layer: wrods"):
        model.fit(*batch, epochs=1, verbose=0, callbacks=[ours])
    ours._holder.end()


def test_files_of_labels(tmp_path):
    (tmp_path / "one").write_text("a\nb\n")
    assert read_labels(tmp_path / "one") == (["a", "b"], None)
    (tmp_path / "two").write_text("x\ty\na\t1\n")
    assert read_labels(tmp_path / "two") == ([["a", "1"]], ["x", "y"])
