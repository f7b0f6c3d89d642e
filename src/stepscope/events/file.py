"""Reads and follows event files."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np

from stepscope.errors import EventFileError
from stepscope.events.batch import Batch, FileStatus, RecordColumns, ScalarColumns, Session
from stepscope.events.framing import masked_crc32c, payload_length
from stepscope.events.messages import Event, Metadata, decode_event


class EventFile:
    """One event file, read from where the last read stopped.

    Raises:
        EventFileError: There is no such file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise EventFileError("no such event file", hint="check the path", path=path)
        self.status = FileStatus()
        self._position = 0

    def read(self, max_bytes: int | None = None) -> Batch:
        """Return every complete record since the last call."""
        data = self.path.read_bytes()
        at, sessions, walls = self._position, [], []
        metadata: dict[str, Metadata] = {}
        scalars: dict[str, list[tuple[float, int, float, int]]] = {}
        others = []
        while (length := payload_length(data[at : at + 12])) is not None and at + 16 + length <= len(data):
            payload = data[at + 12 : at + 12 + length]
            self.status.records += 1
            if struct.unpack_from("<I", data, at + 12 + length)[0] != masked_crc32c(payload):
                self.status.skipped_records += 1
                at += length + 16
                continue
            event = decode_event(payload)
            walls.append(event.wall_time)
            if event.session_log:
                sessions.append(Session(at, event.session_log.status, event.step, event.wall_time))
            for index, value in enumerate(event.values):
                if value.metadata:
                    metadata.setdefault(value.tag, value.metadata)
                if value.simple_value is not None:
                    scalars.setdefault(value.tag, []).append(
                        (event.wall_time, event.step, value.simple_value, at)
                    )
                else:
                    others.append((value.tag, event.wall_time, event.step, at, index))
            at += length + 16
        self._position = at
        self.status.bytes, self.status.torn_bytes = len(data), len(data) - at
        self.status.scalars += sum(map(len, scalars.values()))
        columns = [
            ScalarColumns(
                tag,
                np.array([row[0] for row in rows]),
                np.array([row[1] for row in rows], np.int64),
                np.array([row[2] for row in rows], np.float32),
                np.array([row[3] for row in rows], np.int64),
            )
            for tag, rows in scalars.items()
        ]
        records = RecordColumns(
            [row[0] for row in others],
            [metadata.get(row[0], Metadata()).plugin_name for row in others],
            np.array([row[1] for row in others], np.float64),
            np.array([row[2] for row in others], np.int64),
            np.array([row[3] for row in others], np.int64),
            np.array([row[4] for row in others], np.int32),
        )
        return Batch(columns, records, metadata, sessions, min(walls, default=None), max(walls, default=None))

    def event_at(self, position: int) -> Event:
        """Return the event of the record at a position."""
        with self.path.open("rb") as file:
            file.seek(position)
            length = payload_length(file.read(12))
            if length is None:
                raise EventFileError(f"no record at byte {position}", path=self.path)
            return decode_event(file.read(length))
