"""Curves, meshes and embeddings as TensorBoard's plugins and torch's writer write them, number for number."""

import numpy as np
import pytest
from PIL import Image
from support.addresses import Addresses
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh import plugin_data_pb2
from tensorboard.plugins.pr_curve import metadata as pr_metadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

import stepscope as ss
from stepscope.serve.frame import array_of, unpack_as
from stepscope.serve.records.embeddings import EmbeddingHeader

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")

RNG = np.random.default_rng(0)
LABELS, GUESSES = RNG.integers(0, 2, 400), RNG.random(400)
WEIGHTS = RNG.random(400)
POINTS = RNG.normal(size=(2, 7, 3)).astype("f4")
FACES = RNG.integers(0, 7, (2, 4, 3)).astype("i4")
COLORS = RNG.integers(0, 256, (2, 7, 3)).astype("u1")
VECTORS = RNG.normal(size=(9, 5)).astype("f4")
PICTURES = RNG.random((9, 3, 8, 8)).astype("f4")
PARTS = {"vertices": POINTS, "faces": FACES, "colors": COLORS}
TAGS = {"mesh_VERTEX": "vertices", "mesh_FACE": "faces", "mesh_COLOR": "colors"}


def with_torch(directory):
    """Write all three with torch's SummaryWriter."""
    torch = pytest.importorskip("torch")
    with pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(directory)) as writer:
        for step in (3, 5):
            writer.add_pr_curve("pr", LABELS, GUESSES, step, num_thresholds=50)
            writer.add_pr_curve("weighed", LABELS, GUESSES, step, num_thresholds=50, weights=WEIGHTS)
        tensors = [torch.from_numpy(each) for each in (POINTS, COLORS, FACES)]
        writer.add_mesh("mesh", *tensors, config_dict={"material": {"cls": "PointsMaterial"}}, global_step=3)
        writer.add_embedding(
            VECTORS,
            [[f"l{n}", str(n % 2)] for n in range(9)],
            torch.from_numpy(PICTURES),
            3,
            "e",
            ["name", "odd"],
        )


def with_plugins(directory):
    """Write curves and meshes as the plugins' own summaries, without TensorFlow."""
    writer = EventFileWriter(str(directory))
    found = counts(50)
    weighed = counts(50, WEIGHTS)
    for step in (3, 5):
        for tag, rows in (("pr", found), ("weighed", weighed)):
            put(
                writer,
                step,
                tag,
                np.stack(rows).astype("f4"),
                pr_metadata.create_summary_metadata(tag, "", 50),
            )
    kinds = plugin_data_pb2.MeshPluginData.ContentType
    numbers = {"vertices": kinds.VERTEX, "faces": kinds.FACE, "colors": kinds.COLOR}
    components = mesh_metadata.get_components_bitmask(list(numbers.values()))
    for name, data in PARTS.items():
        about = mesh_metadata.create_summary_metadata(
            "mesh", "Shown", numbers[name], components, list(data.shape), json_config="{}"
        )
        tag = mesh_metadata.get_instance_name("mesh", numbers[name])
        put(writer, 3, tag, data, about)
    writer.close()


def put(writer, step, tag, data, about):
    """Write one tensor with what a plugin says of it."""
    value = summary_pb2.Summary.Value(tag=tag, metadata=about, tensor=tensor_util.make_tensor_proto(data))
    summary = summary_pb2.Summary(value=[value])
    writer.add_event(event_pb2.Event(wall_time=1.7e9 + step, step=step, summary=summary))


def counts(thresholds, weights=1.0):
    """Count at each threshold by comparing, as the definition says."""
    weights = np.broadcast_to(weights, LABELS.shape)
    at = np.linspace(0, 1, thresholds)[:, None]
    said, is_ = np.floor(GUESSES * (thresholds - 1)) / (thresholds - 1) >= at - 1e-9, LABELS > 0
    rows = [((said == a) & (is_ == b)) @ weights for a, b in ((1, 1), (1, 0), (0, 0), (0, 1))]
    tp, fp, _, fn = rows
    return [*rows, tp / np.maximum(1e-7, tp + fp), tp / np.maximum(1e-7, tp + fn)]


@pytest.fixture(scope="module", params=["torch", "plugins"])
def log(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    {"torch": with_torch, "plugins": with_plugins}[request.param](directory / "run")
    with ss.open(directory, cache=False) as log:
        yield log


@pytest.mark.parametrize("tag", ["pr", "weighed"])
def test_curves_are_those_that_were_counted(log, tag):
    found = Addresses(log=log).ask("curve", run="run", tag=tag)
    assert (found.step, found.error, [each.step for each in found.steps]) == (5, None, [3, 5])
    shown = len(found.thresholds)
    assert found.thresholds == pytest.approx(np.linspace(0, 1, 50)[:shown])
    expected = counts(50, WEIGHTS if tag == "weighed" else 1.0)
    rows = (
        found.true_positives, found.false_positives, found.true_negatives, found.false_negatives,
        found.precision, found.recall,
    )  # fmt: skip
    for row, one in zip(rows, expected, strict=True):
        assert row == pytest.approx(one[:shown], rel=1e-5, abs=1e-4)
    assert all(found.true_positives[at] + found.false_positives[at] > 0 for at in range(shown))
    assert 0.4 < found.area < 0.6, "guesses at random"


def test_meshes_have_their_points_faces_and_colours(log):
    run = log.run("run")
    assert {each.tag for each in run.records() if each.kind == "mesh"} == set(TAGS)
    parts = {(each.mesh.mesh, each.tag, each.mesh.part) for each in run.records() if each.mesh}
    assert parts == {("mesh", *known) for known in TAGS.items()}
    for tag, part in TAGS.items():
        expected = PARTS[part]
        [series] = run.record(tag)
        np.testing.assert_array_equal(series[0], expected)
        sent = Addresses(log=log).ask("blob", run="run", tag=tag, at="0")
        np.testing.assert_array_equal(
            np.frombuffer(sent.data, "<f4").reshape(expected.shape), expected.astype("f4")
        )


def test_an_embedding_of_torch_has_its_points_labels_and_pictures(tmp_path):
    with_torch(tmp_path / "run")
    with ss.open(tmp_path, cache=False) as log:
        addresses = Addresses(log=log)
        [facts] = addresses.ask("embeddings", run="run").embeddings
        assert (facts.name, facts.sprite, facts.error) == ("e:00003", [8, 8], None)
        header, body = unpack_as(addresses.ask("embedding", run="run"), EmbeddingHeader)
        assert (header.points, header.dimensions, header.columns) == (9, 5, ["name", "odd"])
        assert header.labels == [[f"l{n}", str(n % 2)] for n in range(9)]
        places = array_of(body, header.places).reshape(-1, 3)
        variance = np.linalg.eigvalsh(np.cov(VECTORS.T, bias=True))[::-1][:3]
        np.testing.assert_allclose(places.var(0), variance, rtol=1e-3)
        near = addresses.ask("neighbours", run="run", point="4", metric="euclidean")
        far = np.linalg.norm(VECTORS - VECTORS[4], axis=1)
        assert [each.point for each in near.neighbours] == np.argsort(far)[1:].tolist()
        np.testing.assert_allclose(
            [each.distance for each in near.neighbours], np.sort(far)[1:], rtol=1e-3, atol=1e-5
        )
        (tmp_path / "sprite.png").write_bytes(addresses.ask("sprite", run="run").data)
        shown = np.asarray(Image.open(tmp_path / "sprite.png"))[:8, :8, :3]
        np.testing.assert_allclose(shown, PICTURES[0].transpose(1, 2, 0) * 255, atol=1.01)
