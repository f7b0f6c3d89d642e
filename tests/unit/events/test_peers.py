"""What other writers write is read value for value, and other readers read what is written here."""

from __future__ import annotations

import math
import subprocess
from collections import defaultdict
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorboardX
import torch
from support.waiting import until
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader, LegacyEventFileLoader
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.data.proto import data_provider_pb2, data_provider_pb2_grpc
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util
from torch.utils.tensorboard import SummaryWriter

from stepscope.events import Event, EventFile, EventWriter, Histogram, Metadata, Summary, Value, hparams
from stepscope.events.tensors import array, tensor

VALUES = [0.1, -2.5e-30, math.inf, -math.inf, math.nan, 0.0, 3e38]


def event_files(directory):
    return sorted(Path(directory).glob("**/*tfevents*"))


def theirs(path):
    """Scalars and other values as TensorBoard's Python reader gives them, by tag."""
    scalars, others = defaultdict(list), []
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                number = tensor_util.make_ndarray(value.tensor).item()
                scalars[value.tag].append((event.wall_time, event.step, number))
            else:
                others.append((value.tag, event.step))
    return scalars, others


def ours(path):
    file = EventFile(path)
    batch = file.read()
    assert file.status.problem is None
    scalars = {
        c.tag: list(zip(c.wall.tolist(), c.step.tolist(), c.value.tolist(), strict=True))
        for c in batch.scalars
    }
    return scalars, list(zip(batch.records.tag, batch.records.step.tolist(), strict=True))


def assert_read_alike(directory, *, others=True):
    paths = event_files(directory)
    assert paths
    for path in paths:
        expected, found = theirs(path), ours(path)
        assert {tag: repr(rows) for tag, rows in found[0].items()} == {
            tag: repr(rows) for tag, rows in expected[0].items()
        }
        if others:
            assert found[1] == expected[1]


def test_tensorboards_writer(tmp_path):
    writer = EventFileWriter(str(tmp_path))
    for step, number in enumerate(VALUES):
        value = summary_pb2.Summary.Value(tag="loss", simple_value=number)
        writer.add_event(
            event_pb2.Event(wall_time=1e9 + step, step=step, summary=summary_pb2.Summary(value=[value]))
        )
    writer.close()
    assert_read_alike(tmp_path)


@pytest.mark.parametrize("options", [{}, {"new_style": True}, {"new_style": True, "double_precision": True}])
def test_torch_scalars(tmp_path, options):
    with SummaryWriter(str(tmp_path)) as writer:
        for step, number in enumerate(VALUES):
            writer.add_scalar("loss", number, step, walltime=1e9 + step, **options)
            writer.add_scalar("train/accuracy", step / 3, step * 1000, **options)
    assert_read_alike(tmp_path)
    (path,) = event_files(tmp_path)
    (loss, _) = EventFile(path).read().scalars
    assert loss.value.dtype == ("f8" if options.get("double_precision") else "f4")
    assert repr(loss.value.tolist()) == repr(np.array(VALUES, loss.value.dtype).tolist())


def test_torch_everything(tmp_path):
    random = np.random.default_rng(0)
    with SummaryWriter(str(tmp_path)) as writer:
        for step in range(3):
            writer.add_scalars("pair", {"a": step, "b": -step}, step)
            writer.add_histogram("weights", random.normal(size=100), step)
            writer.add_text("note", "**text**", step)
            writer.add_image("image", random.random((3, 4, 4)), step)
            writer.add_pr_curve("curve", np.array([0, 1, 1]), np.array([0.1, 0.8, 0.4]), step)
            writer.add_tensor("tensor", torch.ones(2, 2), step)
        writer.add_mesh("mesh", random.random((1, 5, 3)))
        writer.add_custom_scalars_multilinechart(["pair/a"])
        writer.add_hparams({"lr": 0.1, "layers": 2}, {"loss": 1.5}, run_name="hparams")
    assert len(event_files(tmp_path)) == 4
    for path in event_files(tmp_path):
        expected = [
            (value.tag, event.step)
            for event in LegacyEventFileLoader(str(path)).Load()
            for value in event.summary.value
            if not value.HasField("simple_value")
        ]
        assert ours(path)[1] == expected
    assert_read_alike(tmp_path, others=False)
    (path,) = [path for path in event_files(tmp_path) if path.parent.name == "hparams"]
    start = EventFile(path).read().metadata[hparams.START_TAG]
    assert hparams.decode_content(start.plugin_data.content).session_start_info.hparams == {
        "lr": 0.1,
        "layers": 2,
    }


def test_tensorboardx(tmp_path):
    writer = tensorboardX.SummaryWriter(str(tmp_path))
    for step, number in enumerate(VALUES):
        writer.add_scalar("loss", number, step, walltime=1e9 + step)
        writer.add_scalar("described", step, step, display_name="shown", summary_description="text")
        writer.add_histogram("weights", np.arange(5), step)
    writer.close()
    assert_read_alike(tmp_path)


# --- other readers -----------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    writer = EventWriter(tmp_path / "run")
    for step in range(50):
        writer.scalar("loss", 1 / (step + 1), step, 1e9 + step)
        writer.scalars([("train/a", step), ("train/b", -step)], step, 1e9 + step)
    kept = Metadata.of("histograms", display_name="shown", data_class=2)
    rows = np.array([[0.0, 1.0, 5.0], [1.0, 2.0, 7.0]])
    writer.event(Event(2e9, 7, summary=Summary([Value("weights", tensor=tensor(rows), metadata=kept)])))
    old = Histogram(0.0, 2.0, 3.0, 3.0, 5.0, [0.5, 2.0], [1.0, 2.0])
    writer.event(Event(2e9, 7, summary=Summary([Value("old", histo=old)])))
    writer.event(Event(2e9, 0, summary=Summary([hparams.start_value({"lr": 0.1}, start_time_secs=1.0)])))
    writer.close()
    return writer.path


def test_tensorboards_python_reader_reads_ours(written):
    scalars, others = theirs(written)
    assert scalars["loss"] == [(1e9 + step, step, np.float32(1 / (step + 1)).item()) for step in range(50)]
    assert scalars["train/b"] == [(1e9 + step, step, -step) for step in range(50)]
    assert others == [("weights", 7), ("old", 7), (hparams.START_TAG, 0)]
    (weights,) = [
        e for e in LegacyEventFileLoader(str(written)).Load() for v in e.summary.value if v.tag == "weights"
    ]
    assert tensor_util.make_ndarray(weights.summary.value[0].tensor).tolist() == [[0, 1, 5], [1, 2, 7]]
    position = EventFile(written).read().records.position[0]
    assert array(EventFile(written).event_at(position).values[0].tensor).tolist() == [[0, 1, 5], [1, 2, 7]]


@pytest.fixture
def data_server(written, tmp_path):
    """TensorBoard's data server on the directory, as a stub to ask."""
    server = pytest.importorskip("tensorboard_data_server").server_binary()
    if server is None:
        pytest.skip("no data server for this machine")
    port_file = tmp_path / "port"
    command = [server, f"--logdir={tmp_path}", f"--port-file={port_file}", "--reload=once"]
    command.append("--samples-per-plugin=scalars=all")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        started = lambda: port_file.exists() and port_file.read_text().endswith("\n")  # noqa: E731
        until(lambda: started() or process.poll() is not None)
        if not started():
            pytest.skip(f"TensorBoard's data server does not start (exit code {process.poll()})")
        with grpc.insecure_channel(f"localhost:{port_file.read_text().strip()}") as channel:
            yield data_provider_pb2_grpc.TensorBoardDataProviderStub(channel)
    finally:
        process.kill()
        process.communicate()


def test_tensorboards_data_server_reads_ours(data_server):
    plugin = data_provider_pb2.PluginFilter(plugin_name="scalars")
    listing = data_provider_pb2.ListScalarsRequest(experiment_id="x", plugin_filter=plugin)

    def loaded():
        runs = data_server.ListScalars(listing).runs
        return runs and {tag.tag_name for tag in runs[0].tags if tag.metadata.max_step == 49}

    assert until(lambda: loaded() == {"loss", "train/a", "train/b"})
    request = data_provider_pb2.ReadScalarsRequest(experiment_id="x", plugin_filter=plugin)
    request.downsample.num_points = 1000
    (run,) = data_server.ReadScalars(request).runs
    assert run.run_name == "run"
    found = {
        tag.tag_name: list(zip(tag.data.step, tag.data.wall_time, tag.data.value, strict=True))
        for tag in run.tags
    }
    assert found["loss"] == [(step, 1e9 + step, np.float32(1 / (step + 1)).item()) for step in range(50)]
    assert found["train/b"] == [(step, 1e9 + step, -step) for step in range(50)]
