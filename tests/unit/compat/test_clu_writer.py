"""CommonLoopUtils' writers: the same interface, and what TensorBoard then reads."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import logging
import re
import sys
import threading
import warnings
from concurrent.futures import wait
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.values import values_of
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

import stepscope as ss
from stepscope.compat import clu_writer, tf_values
from stepscope.errors import StepscopeError, UsageError


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
    np.testing.assert_array_equal(picture(found[".", "batch"][0][1][3]), (image[1] * 255.5).astype(np.uint8))
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
    with pytest.raises(UsageError, match="type SimpleNamespace cannot be written"):
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
        assert log.run(".").info.config == {"model.layers.0": 1, "model.layers.1.width": 2, "lr": 0.5}


def slow_writer():
    """A writer that waits for ``go``, and what it was called with."""
    calls, begun, go = [], threading.Event(), threading.Event()

    class Slow(clu_writer.MultiWriter):
        def write_scalars(self, step, scalars):
            begun.set()
            assert go.wait(60)
            calls.append((step, scalars, threading.current_thread()))

        def write_hparams(self, hparams):
            raise KeyError(hparams["x"])

        def flush(self):
            calls.append("flush")

        def close(self):
            calls.append("close")

    return Slow([]), calls, begun, go


def test_a_writer_of_the_user_runs_on_a_thread_in_order():
    slow, calls, begun, go = slow_writer()
    writer = clu_writer.AsyncMultiWriter([slow])
    for step in range(5):
        writer.write_scalars(step, {"a": 1.0})  # would wait here for ever
    assert begun.wait(60)
    assert calls == []
    go.set()
    writer.flush()
    assert [call[0] for call in calls[:-1]] == [0, 1, 2, 3, 4]
    assert threading.current_thread() not in {call[2] for call in calls[:-1]}
    writer.close()
    assert calls[-3:] == ["flush", "flush", "close"]


@pytest.mark.parametrize("loaded", [False, True])
def test_what_a_thread_raised_is_raised_by_a_later_call(loaded, monkeypatch):
    class AsyncError(Exception):
        pass

    monkeypatch.setitem(
        sys.modules, "clu.asynclib", SimpleNamespace(AsyncError=AsyncError) if loaded else None
    )
    slow, calls, _, go = slow_writer()
    go.set()
    writer = clu_writer.AsyncWriter(slow)
    writer.write_hparams({"x": "bad"})
    with pytest.raises(StepscopeError, match="bad") as told:
        writer.flush()
    assert "Consider re-running" in told.value.hint
    assert isinstance(told.value, AsyncError) == loaded
    assert isinstance(told.value.__cause__, KeyError)
    writer.write_hparams({"x": "second"})
    wait(writer._running)
    with pytest.raises(StepscopeError, match="second"):
        writer.write_scalars(1, {"a": 1.0})
    writer.write_scalars(2, {"a": 1.0})  # told once
    writer.close()
    assert [call[0] for call in calls if call not in ("flush", "close")] == [1, 2]


def test_a_run_is_written_to_without_another_thread(tmp_path):
    writer = clu_writer.AsyncWriter(clu_writer.SummaryWriter(tmp_path))
    assert writer._pool is None
    writer.write_scalars(1, {"a": 0.5})
    writer.close()
    assert values_of(tmp_path)[".", "a"][0][0] == 1


def test_hyper_parameters_can_be_read_at_once_and_equal_ones_are_a_group(tmp_path):
    from tensorboard.plugins.hparams import summary_v2

    writer = clu_writer.SummaryWriter(tmp_path)
    given = {"lr": np.float32(0.5), "n": 3, "name": "x", "flag": True, "none": None, "odd": (np.mean,)}
    writer.write_hparams(given)
    [(_, (data, _, _))] = values_of(tmp_path)[".", "_hparams_/session_start_info"]
    plain = {"lr": 0.5, "n": 3, "name": "x", "flag": True, "none": "", "odd.0": str(np.mean)}
    expected = summary_v2.hparams_pb(plain, start_time_secs=0.0).value[0]
    found = type(expected).FromString(data)
    theirs, mine = (
        HParamsPluginData.FromString(each.metadata.plugin_data.content) for each in (expected, found)
    )
    assert mine.session_start_info.start_time_secs > 1e9
    mine.session_start_info.start_time_secs = 0.0
    assert mine == theirs
    assert found.tensor == expected.tensor
    writer.close()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([0.0, 0.001, 0.5, 1.0, 1.5, -1, np.nan, np.inf]), [0, 0, 127, 255, 255, 0, 0, 255]),
        (np.array([0, 1, 200, 255], np.uint8), [0, 1, 200, 255]),
        (np.array([0, 255, 256, 65535], np.uint16), [0, 0, 1, 255]),
        (np.array([-5, 0, 64, 127], np.int8), [0, 0, 128, 254]),
        (np.array([-5, 0, 1 << 30], np.int32), [0, 0, 128]),
    ],
)
def test_pixels_are_those_of_tensorflow(given, expected):
    assert tf_values.saturated(given).tolist() == expected


@pytest.mark.parametrize(
    ("write", "match"),
    [
        (lambda w: w.write_images(1, {"t": np.zeros((2, 2, 2, 2, 2))}), "images of shape"),
        (lambda w: w.write_images(1, {"t": np.zeros((2, 2, 1), bool)}), "pixels of bool"),
        (lambda w: w.write_audios(1, {"t": np.zeros(5)}, sample_rate=1), "sounds of shape"),
        (lambda w: w.write_audios(1, {"t": np.zeros((1, 5, 1))}, sample_rate=0), "sample_rate="),
        (lambda w: w.write_audios(1, {"t": np.full((1, 5, 1), np.nan)}, sample_rate=9), "NaN"),
        (lambda w: w.write_scalars(1, {"t": np.zeros(3)}), r"shape \(3,\)"),
    ],
)
def test_what_cannot_be_written_is_told(write, match, tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    writer = clu_writer.SummaryWriter(tmp_path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        write(writer)
        writer.close()
    assert any(re.search(match, str(each.message)) for each in told), told
    assert values_of(tmp_path) == {}


def test_too_few_buckets_are_told(caplog):
    with caplog.at_level(logging.INFO, "absl"):
        clu_writer.LoggingWriter().write_histograms(1, {"h": np.arange(4.0)}, {"h": 1})
    assert [record.getMessage() for record in caplog.records] == [
        "num_buckets was automatically changed from 1 to 2",
        "[1] Histogram for 'h' = {[0, 1.5): 2, [1.5, 3]: 2}",
    ]


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
