"""CommonLoopUtils' writers: the same interface, and what TensorBoard then reads."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stepscope as ss
from stepscope.compat import clu_writer
from stepscope.errors import UsageError


def arguments_of(function):
    given = function.args
    named = given.args + ([given.vararg] if given.vararg else []) + given.kwonlyargs
    return [argument.arg for argument in named]


def originals(module):
    """Functions of a module of clu by name, from its source: importing it needs TensorFlow."""
    found = importlib.util.find_spec("clu")
    if found is None:
        pytest.skip("CommonLoopUtils is not installed")
    path = Path(found.submodule_search_locations[0]) / "metric_writers" / f"{module}.py"
    return {
        (node.name, inner.name): arguments_of(inner)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
        for inner in node.body
        if isinstance(inner, ast.FunctionDef)
    } | {
        (None, node.name): arguments_of(node)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


@pytest.mark.parametrize("module", ["interface", "async_writer", "multi_writer", "logging_writer", "utils"])
def test_the_same_classes_functions_and_arguments(module):
    for (owner, name), arguments in originals(module).items():
        home = clu_writer if owner is None else getattr(clu_writer, owner)
        assert list(inspect.signature(getattr(home, name)).parameters) == arguments, (owner, name)


def test_tensorboard_reads_what_is_written(tmp_path, tensorboard, picture):
    from tensorboard.plugins.histogram import summary_v2
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.util import tensor_util

    rng = np.random.default_rng(0)
    values, image = rng.normal(size=500), rng.random((2, 6, 7, 3))
    writer = clu_writer.create_default_writer(tmp_path, collection="train")
    with clu_writer.ensure_flushes(writer):
        writer.write_scalars(1, {"loss": 0.5, "accuracy": np.float32(0.25)})
        writer.write_images(1, {"batch": image, "one": image[0]})
        writer.write_videos(1, {"film": rng.random((4, 6, 7, 1))})
        writer.write_audios(1, {"sound": rng.random((2, 100, 1)) * 2 - 1}, sample_rate=8000)
        writer.write_texts(1, {"text": "*x*"})
        writer.write_histograms(1, {"h": values, "h5": values}, num_buckets={"h5": 5})
        writer.write_pointcloud(1, {"cloud": rng.random((1, 9, 3))})
        metadata = create_summary_metadata(None, "said").SerializeToString()
        writer.write_summaries(1, {"raw": np.array([b"a", b"b"], object), "t": rng.random(3)}, metadata)
        writer.write_hparams({"lr": 0.1})
    found = tensorboard(tmp_path / "train")
    assert found[".", "loss"] == [(1, 0.5)]
    assert found[".", "accuracy"] == [(1, 0.25)]
    np.testing.assert_array_equal(
        picture(found[".", "batch"][0][1][3]), (image[1] * 255 + 0.5).astype(np.uint8)
    )
    assert len(found[".", "one"][0][1]) == 3
    assert found[".", "film"][0][1][2][:3] == b"GIF"
    assert found[".", "sound"][0][1].shape == (2,)  # without labels, as TensorBoard takes them
    assert found[".", "text"][0][1] == b"*x*"
    assert found[".", "raw"][0][1].tolist() == [b"a", b"b"]
    assert found[".", "t"][0][1].shape == (3,)
    for tag, buckets in (("h", None), ("h5", 5)):
        theirs = summary_v2.histogram_pb("h", values, buckets).value[0].tensor
        np.testing.assert_allclose(found[".", tag][0][1], tensor_util.make_ndarray(theirs), 1e-12, 1e-12)
    writer.close()
    with ss.open(tmp_path) as log:
        assert log.run("train").info.config == {"lr": 0.1}


def test_values_are_written_by_what_they_are(tmp_path):
    def value(kind, **fields):
        return type(kind, (), fields)()

    writer = clu_writer.SummaryWriter(tmp_path)
    clu_writer.write_values(
        writer,
        3,
        {
            "int": 1,
            "array": np.array([2.0]),
            "scalar": value("Scalar", value=3.0),
            "text": value("Text", value="x"),
            "image": value("Image", value=np.zeros((4, 4, 3))),
            "histogram": value("Histogram", value=np.arange(5), num_buckets=4),
            "audio": value("Audio", value=np.zeros((1, 9, 1)), sample_rate=100),
            "lr": value("HyperParam", value=0.5),
        },
    )
    writer.close()
    with ss.open(tmp_path) as log:
        run = log.run(".")
        assert {"int", "array", "scalar"} <= set(run.tags())
        assert {r.tag: r.kind for r in run.records()}.items() >= {
            "text": "text", "image": "image", "histogram": "histogram", "audio": "audio"
        }.items()  # fmt: skip
        assert run.record("histogram")[0][0].shape == (4, 3)
    with pytest.raises(UsageError, match="SimpleNamespace is no value"):
        clu_writer.write_values(writer, 0, {"x": SimpleNamespace()})


def test_other_processes_only_log_lines(tmp_path, caplog):
    writer = clu_writer.create_default_writer(tmp_path / "none", just_logging=True, asynchronous=False)
    with caplog.at_level(logging.INFO, "absl"):
        writer.write_scalars(7, {"loss": 0.123456789, "n": 3})
        writer.write_images(7, {"i": np.zeros((2, 3, 3, 1))})
        writer.write_hparams({"a": 1})
    writer.flush()
    writer.close()
    assert not (tmp_path / "none").exists()
    assert [record.getMessage() for record in caplog.records] == [
        "[7] loss=0.123457, n=3", "[7] Got images: {'i': (2, 3, 3, 1)}.", "[Hyperparameters] {'a': 1}"
    ]  # fmt: skip


def test_metadata_is_that_of_each_tag(tmp_path):
    from tensorboard.plugins.text.metadata import create_summary_metadata

    metadata = {
        "a": create_summary_metadata(None, "said"),
        "b": create_summary_metadata("B", "").SerializeToString(),
    }
    writer = clu_writer.SummaryWriter(tmp_path)
    texts = {tag: np.array([b"x"], object) for tag in "abc"}
    writer.write_summaries(1, texts, metadata)
    writer.close()
    with ss.open(tmp_path) as log:
        records = {record.tag: record for record in log.run(".").records()}
    assert (records["a"].kind, records["a"].description) == ("text", "said")
    assert (records["b"].kind, records["b"].display_name) == ("text", "B")
    assert records["c"].kind == "other"


def test_nested_hyper_parameters_are_flattened(tmp_path):
    writer = clu_writer.SummaryWriter(tmp_path)
    writer.write_hparams({"model": {"layers": [1, {"width": 2}], "empty": []}, "lr": 0.5})
    writer.close()
    with ss.open(tmp_path) as log:
        assert log.run(".").info.config == {
            "model.layers.0": 1,
            "model.layers.1.width": 2,
            "model.empty": "[]",
            "lr": 0.5,
        }


@pytest.mark.parametrize("several", [False, True])
def test_closing_an_asynchronous_writer_flushes_what_it_wraps(several):
    calls = []

    class Wrapped(clu_writer.MultiWriter):
        def flush(self):
            calls.append("flush")
            if not several:
                raise OSError

        def close(self):
            calls.append("close")

    wrapped = Wrapped([])
    if several:
        clu_writer.AsyncMultiWriter([wrapped]).close()
    else:
        with pytest.raises(OSError):
            clu_writer.AsyncWriter(wrapped).close()
    assert calls == ["flush", "close"]


def test_histograms_are_logged_with_their_buckets(caplog):
    writer = clu_writer.LoggingWriter(collection="eval")
    with caplog.at_level(logging.INFO, "absl"):
        writer.write_histograms(3, {"h": np.array([0.0, 1.0, 2.0, 4.0]), "none": np.array([])}, {"h": 2})
        writer.write_histograms(4, {"same": np.full(3, 2.0)})
    assert [record.getMessage() for record in caplog.records] == [
        "[3] collection=eval Histogram for 'h' = {[0, 2): 2, [2, 4]: 2}",
        "[4] collection=eval Histogram for 'same' = {[1.5, 2.5]: 3}",
    ]


def test_values_are_written_together():
    calls = []

    class Noting(clu_writer.MultiWriter):
        def write_scalars(self, step, scalars):
            calls.append((step, dict(scalars)))

    clu_writer.write_values(Noting([]), 5, {"a": 1.0, "b": np.float32(2), "c": np.array([3.0])})
    assert calls == [(5, {"a": 1.0, "b": 2.0, "c": 3.0})]


@pytest.mark.parametrize("colors", [np.array([[[0.0, 0.5, 1.0]]]), np.array([[[0, 128, 255]]], np.uint8)])
def test_colours_of_points_may_be_floats(colors, tmp_path, tensorboard):
    writer = clu_writer.SummaryWriter(tmp_path)
    writer.write_pointcloud(1, {"cloud": np.zeros((1, 1, 3))}, point_colors={"cloud": colors})
    writer.close()
    assert tensorboard(tmp_path)[".", "cloud_COLOR"][0][1].tolist() == [[[0, 128, 255]]]
