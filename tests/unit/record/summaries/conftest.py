"""Runs that are written here and read by TensorBoard's own plugins."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stepscope as ss


@pytest.fixture
def stored(run):
    """End the run and return what we read of it."""
    logs = []

    def read():
        run.close()
        log = ss.open(run.log_dir, cache=False)
        logs.append(log)
        return log.run(".")

    yield read
    for log in logs:
        log.close()


class TensorBoard:
    """What the plugins of TensorBoard answer about a log directory."""

    def __init__(self, directory) -> None:
        from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
        from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
        from tensorboard.context import RequestContext
        from tensorboard.plugins.base_plugin import TBContext

        multiplexer = EventMultiplexer(tensor_size_guidance={"images": 100, "audio": 100})
        multiplexer.AddRunsFromDirectory(str(directory))
        multiplexer.Reload()
        self.multiplexer = multiplexer
        self.provider = MultiplexerDataProvider(multiplexer, str(directory))
        self.request = RequestContext()
        self.context = TBContext(
            logdir=str(directory), multiplexer=multiplexer, data_provider=self.provider,
            flags=SimpleNamespace(generic_data="true"), window_title="", assets_zip_provider=None,
        )  # fmt: skip

    def blobs(self, plugin, tag, run="."):
        """Encoded bytes of each step, as the images and audio plugins hand them out."""
        from tensorboard.data.provider import RunTagFilter

        found = self.provider.read_blob_sequences(
            self.request, experiment_id="", plugin_name=plugin, downsample=1000,
            run_tag_filter=RunTagFilter([run], [tag]),
        )  # fmt: skip
        return [
            [self.provider.read_blob(self.request, blob_key=value.blob_key) for value in datum.values]
            for datum in found[run][tag]
        ]

    def tensors(self, plugin, tag, run="."):
        from tensorboard.data.provider import RunTagFilter

        found = self.provider.read_tensors(
            self.request, experiment_id="", plugin_name=plugin, downsample=1000,
            run_tag_filter=RunTagFilter([run], [tag]),
        )  # fmt: skip
        return [(datum.step, datum.numpy) for datum in found[run][tag]]


@pytest.fixture
def tensorboard(run):
    """End the run and open it in TensorBoard."""

    def read(parent=False):
        run.close()
        return TensorBoard(Path(run.log_dir).parent if parent else run.log_dir)

    return read


def pixels(encoded, mode="RGB"):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(encoded)).convert(mode))


@pytest.fixture
def picture():
    return pixels
