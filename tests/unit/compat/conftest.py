"""What TensorBoard reads of a log directory, and what its messages say that a writer left there."""

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.values import events_of, pixels_of, values_of


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
