"""What TensorBoard reads of a log directory, and what its messages say that a writer left there."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest


def read_tensorboard(directory: Path) -> dict[tuple[str, str], list[tuple[int, np.ndarray]]]:
    """Every value by run and tag, as (step, array), after TensorBoard's own conversion of old styles."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    found: dict[tuple[str, str], list[tuple[int, np.ndarray]]] = {}
    for path in sorted(Path(directory).rglob("*tfevents*")):
        run = path.parent.relative_to(directory).as_posix()
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                array = tensor_util.make_ndarray(value.tensor) if value.HasField("tensor") else None
                found.setdefault((run, value.tag), []).append((event.step, array))
    return found


def pixels(encoded: bytes) -> np.ndarray:
    """The picture in some bytes, RGB."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


_TIME = re.compile(r"\d{10}\.\d+$")


def events_of(directory: Path) -> dict[str, list[Any]]:
    """Every event by its directory, where ``<time>`` stands for a time, in the order of the files."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    found: dict[str, list[Any]] = {}
    for path in sorted(Path(directory).rglob("*tfevents*")):
        run = _TIME.sub("<time>", path.parent.relative_to(directory).as_posix())
        found.setdefault(run, []).extend(map(Event.FromString, RawEventFileLoader(str(path)).Load()))
    return found


def values_of(directory: Path) -> dict[tuple[str, str], list[tuple[int, Any]]]:
    """Every value by run and tag as (step, message, pixels): how pixels are compressed is left out."""
    found: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    for run, events in events_of(directory).items():
        for event in events:
            for value in event.summary.value:
                found.setdefault((run, value.tag), []).append((event.step, plain(value)))
    return found


def plain(value: Any) -> Any:
    """A value, with pixels instead of what is encoded, and maps in one order."""
    pixels = None
    about = value.metadata.plugin_data
    if about.plugin_name == "hparams":
        from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

        content = HParamsPluginData.FromString(about.content)
        about.content = content.SerializeToString(deterministic=True)
    if value.HasField("image"):
        pixels = pixels_of(value.image.encoded_image_string)
        value.image.encoded_image_string = b""
    return value.SerializeToString(deterministic=True), pixels, str(value)[:2000]


def pixels_of(encoded: bytes) -> Any:
    """Mode, size and pixels of every frame."""
    from PIL import Image

    picture = Image.open(io.BytesIO(encoded))
    frames = []
    for number in range(getattr(picture, "n_frames", 1)):
        picture.seek(number)
        frames.append(picture.convert("RGB").tobytes() if picture.format == "GIF" else picture.tobytes())
    return ("GIF" if picture.format == "GIF" else picture.mode), picture.size, frames


@pytest.fixture
def tensorboard():
    return read_tensorboard


@pytest.fixture
def picture():
    return pixels


@pytest.fixture
def records():
    """Functions that decode a directory: ``events``, ``values``, ``pixels``."""
    return SimpleNamespace(events=events_of, values=values_of, pixels=pixels_of)
