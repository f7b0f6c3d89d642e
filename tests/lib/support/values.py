"""What a writer left in a directory, as messages that two writers' can be compared by."""

import io
import re
from pathlib import Path
from typing import Any

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
    """Every value by run and tag as (step, message, pixels): how pixels are compressed is left out.

    Graphs and what a step took, which are not values, stand under tags of their fields.
    """
    found: dict[tuple[str, str], list[tuple[int, Any]]] = {}
    for run, events in events_of(directory).items():
        for event in events:
            for value in event.summary.value:
                found.setdefault((run, value.tag), []).append((event.step, plain(value)))
            if event.graph_def:
                found.setdefault((run, "graph_def"), []).append((event.step, event.graph_def))
            if event.HasField("tagged_run_metadata"):
                taken = event.tagged_run_metadata.SerializeToString(deterministic=True)
                found.setdefault((run, "tagged_run_metadata"), []).append((event.step, taken))
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


def files_of(directory: Path) -> dict[str, Any]:
    """The projector's files: configuration, columns, pixels."""
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    found: dict[str, Any] = {}
    for path in directory.rglob("*"):
        name = path.relative_to(directory).as_posix()
        if path.suffix == ".pbtxt":
            found[name] = str(text_format.Parse(path.read_text(), ProjectorConfig()))
        elif path.suffix in (".tsv", ".png"):
            found[name] = path.read_bytes() if path.suffix == ".tsv" else pixels_of(path.read_bytes())
    return found
