"""The summaries that are not scalars: the place of each in its file, decoded when somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepscope.events import Event, EventFile, Metadata, RecordColumns
from stepscope.events.kinds import histogram, mesh
from stepscope.names.tensors import Tensor
from stepscope.store.kinds import Kind, decode, kind_of


class RecordPlaces(NamedTuple):
    """Step, wall time in seconds, position of the record, and which value of its event, a row each."""

    step: NDArray[np.int64]
    wall: NDArray[np.float64]
    position: NDArray[np.int64]
    which: NDArray[np.int32]


class About(NamedTuple):
    """Facts of a tag."""

    plugin: str
    content: bytes = b""
    display_name: str = ""
    description: str = ""

    @classmethod
    def of(cls, plugin: str, metadata: Metadata | None) -> About:
        """Return the facts in metadata; old-style values have none, and their field tells the plugin."""
        if metadata is None or metadata.plugin_data is None:
            return cls(plugin)
        data = metadata.plugin_data
        return cls(data.plugin_name, data.content, metadata.display_name, metadata.summary_description)

    @property
    def kind(self) -> Kind:
        """Of the tag."""
        return kind_of(self.plugin, self.content)


class Records:
    """The values of one tag in one attempt of one file. Growth swaps references, as with ``Points``.

    Args:
        about: The tag's facts.
        count: Of the values.
        load: Gives their places.
    """

    __slots__ = ("_load", "_places", "about", "count")

    def __init__(self, about: About, count: int, load: Callable[[], RecordPlaces]) -> None:
        self.about, self.count, self._load = about, count, load
        self._places: RecordPlaces | None = None

    @property
    def places(self) -> RecordPlaces:
        """The places of all of them."""
        if self._places is None:
            self._places = self._load()
        return self._places

    def grown(self, more: RecordPlaces) -> Records:
        """Return these and others that follow."""
        now = self.places
        joined = RecordPlaces(
            np.concatenate([now.step, more.step]),
            np.concatenate([now.wall, more.wall]),
            np.concatenate([now.position, more.position]),
            np.concatenate([now.which, more.which]),
        )
        return Records(self.about, len(joined.step), lambda: joined)


def by_tag(columns: RecordColumns, metadata: dict[str, Metadata]) -> dict[str, tuple[About, RecordPlaces]]:
    """Return the rows and the facts of each tag."""
    rows: dict[str, list[int]] = {}
    for row, tag in enumerate(columns.tag):
        rows.setdefault(tag, []).append(row)
    rows_of_tag = {}
    for tag, numbers in rows.items():
        places = RecordPlaces(
            columns.step[numbers], columns.wall[numbers], columns.position[numbers], columns.index[numbers]
        )
        rows_of_tag[tag] = About.of(columns.plugin[numbers[0]], metadata.get(tag)), places
    return rows_of_tag


@dataclass(frozen=True, slots=True)
class RecordTag:
    """A tag whose values are not scalars.

    Attributes:
        plugin: The plugin of TensorBoard that shows it, as written.
        description: Markdown.
        count: Number of its values.
        last_step: Step of the newest value.
        last_wall: Its wall time in seconds since the epoch.
        tensor: The tensor of a histogram; None of other kinds.
        mesh: The mesh that it is a part of; None of other kinds.
        of_table: Whether a table of the run holds the same, of which this is the text for other viewers.
    """

    tag: str
    kind: Kind
    plugin: str
    display_name: str
    description: str
    count: int
    last_step: int
    last_wall: float
    tensor: Tensor | None = None
    mesh: mesh.MeshPart | None = None
    of_table: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RecordSeries:
    """The values of one tag by one writer in one attempt, in recorded order; each is read when asked for.

    Attributes:
        attempt: Number of the attempt, from 1.
        path: The event file.
        superseded_from: A later attempt of the same writer recorded the steps from here on again; None: it
            did not.
    """

    run: str
    tag: str
    writer: str
    attempt: int
    path: str
    records: Records
    superseded_from: int | None = None

    @property
    def kind(self) -> Kind:
        """The kind of its values."""
        return self.records.about.kind

    @property
    def about(self) -> About:
        """Facts of the tag."""
        return self.records.about

    @property
    def step(self) -> NDArray[np.int64]:
        """Steps."""
        return self.records.places.step

    @property
    def wall(self) -> NDArray[np.float64]:
        """Wall times in seconds since the epoch."""
        return self.records.places.wall

    def __len__(self) -> int:
        return self.records.count

    def __getitem__(self, at: int) -> Any:
        """Return a value, by its place in the series.

        Raises:
            EventFileError: It cannot be read, or does not fit its plugin.
            IndexError: There is none.
        """
        return decode(self.kind, self._event(at), int(self.records.places.which[at]))

    def histogram_sums(self, at: int) -> tuple[float, float] | None:
        """Return the sum of a histogram's values and that of their squares; None if it has none.

        Raises:
            EventFileError: It cannot be read.
        """
        values, which = self._event(at).values, int(self.records.places.which[at])
        return histogram.sums(values[which]) if which < len(values) else None

    def _event(self, at: int) -> Event:
        return EventFile(self.path).event_at(int(self.records.places.position[at]))

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))


def joined(tag: str, records: Records, before: RecordTag | None) -> RecordTag:
    """Return the facts of a tag over all its series, given those before."""
    about, places = records.about, records.places
    last = int(places.step[-1]), float(places.wall[-1])
    if before is not None and last[1] < before.last_wall:
        last = before.last_step, before.last_wall
    return RecordTag(
        tag,
        about.kind,
        about.plugin,
        about.display_name or (before.display_name if before else ""),
        about.description or (before.description if before else ""),
        records.count + (before.count if before else 0),
        *last,
        mesh=mesh.part_of(tag, about.content) if about.kind == "mesh" else None,
    )
