"""Events as bytes of event files, and back: every record with its checksums held."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.events import Event, EventFile, EventWriter, decode_event, encode_event, frame, unframe
from stepscope.events.framing import payload_length
from stepscope.events.kinds import histogram

NAME = "events.out.tfevents.1.host.1.0"
"""As TensorFlow names files."""


def encoded(events: Iterable[Event]) -> bytes:
    """Return events as records, one after the other."""
    return b"".join(frame(encode_event(event)) for event in events)


def write_events(directory: Path, events: Iterable[Event], name: str = NAME) -> None:
    """Write events as a file, into a directory that is made."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(encoded(events))


def write_series(directory: Path, series: Mapping[str, Iterable[float]], *, start: float = 1.7e9) -> None:
    """Write a file of several series: a value a step and second."""
    writer = EventWriter(directory, clock=lambda: start)
    for tag, values in series.items():
        for step, value in enumerate(values):
            writer.scalar(tag, value, step, start + step)
    writer.close()


def write_scalars(directory: Path, values: Iterable[float], tag: str = "train/loss") -> None:
    """Write a file of one series."""
    write_series(directory, {tag: values})


def decoded(data: bytes, *, torn: bool = False) -> Iterator[Event]:
    """Yield every event in the bytes of an event file.

    Args:
        data: Records, one after the other.
        torn: Whether what follows the last whole record is left out; else it is an error.
    """
    at = 0
    while at < len(data):
        length = payload_length(data[at : at + 12])
        if torn and (length is None or at + 16 + length > len(data)):
            return
        assert length is not None, f"no record at byte {at} of {len(data)}"
        yield decode_event(unframe(data[at : at + 16 + length]))
        at += 16 + length


def decoded_files(directory: Path, *, torn: bool = False) -> Iterator[Event]:
    """Yield every event of every event file in a directory, oldest file first; of those beside them, too."""
    for path in sorted(Path(directory).glob("events.out.*")):
        yield from decoded(path.read_bytes(), torn=torn)


def infos_of(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Return what a run said about itself, oldest first."""
    return [
        json.loads(value.tensor.string_val[0])
        for event in events
        for value in event.values
        if value.tag == "stepscope/run" and value.tensor is not None
    ]


def numbers(directory: Path) -> dict[str, dict[int, float]]:
    """Return the values of the one event file in a directory, by tag and step."""
    [path] = directory.glob("*tfevents*")
    columns = EventFile(path).read().scalars
    return {each.tag: dict(zip(each.step.tolist(), each.value.tolist(), strict=True)) for each in columns}


def histograms(directory: Path) -> dict[tuple[str, int], np.ndarray]:
    """Return the histograms of the one event file in a directory, by tag and step."""
    [path] = directory.glob("*tfevents*")
    return {
        (value.tag, event.step): histogram.read(value)
        for event in decoded(path.read_bytes())
        for value in event.values
        if value.tag.endswith("/histogram")
    }
