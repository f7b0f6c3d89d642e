"""Event files made to measure: names, wall times, session starts and damage as a test wants them."""

import json
import os
from pathlib import Path

import pytest
from support.records import encoded

from stepscope import store
from stepscope.events import (
    Event,
    Metadata,
    SessionLog,
    SessionStatus,
    SourceMetadata,
    Summary,
    Tensor,
    Value,
)

START = 1.7e9
DT_STRING = 7


class Maker:
    """Writes event files below a log directory, record by record, and flushes each."""

    START = START

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, *, wall: float = START) -> Path:
        """Begin a file as every writer does."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        source = SourceMetadata("test")
        self.append(file, Event(wall, 0, file_version="brain.Event:2", source_metadata=source))
        return file

    def append(self, file: Path, *events: Event) -> None:
        with file.open("ab") as out:
            out.write(encoded(events))

    def points(self, file: Path, tag: str, rows: list[tuple[int, float, float]]) -> None:
        """Append points: step, wall time since START, value."""
        events = (
            Event(START + wall, step, summary=Summary([Value(tag, value)])) for step, wall, value in rows
        )
        self.append(file, *events)

    def line(self, path: str, tag: str, steps: range, *, wall: float = 0.0, name: str = "") -> Path:
        """Write a file with one tag: a point per step and second, value = step / 10."""
        name = name or f"events.out.tfevents.{int(START + wall)}.host.1.0"
        file = self.file(f"{path}/{name}", wall=START + wall)
        self.points(file, tag, [(step, wall + at + 1, step / 10) for at, step in enumerate(steps)])
        return file

    def session_start(self, file: Path, step: int, wall: float) -> None:
        self.append(file, Event(START + wall, step, session_log=SessionLog(SessionStatus.START)))

    def info(self, file: Path, *, wall: float = 0.0, **facts: object) -> None:
        """Append what a Stepscope run says about itself."""
        text = json.dumps({"schema": 1, **facts}).encode()
        value = Value(
            "stepscope/run",
            tensor=Tensor(DT_STRING, string_val=[text]),
            metadata=Metadata.of("stepscope", data_class=2),
        )
        self.append(file, Event(START + wall, 0, summary=Summary([value])))

    def dated(self, file: Path, wall: float) -> float:
        """Let the file system say that a file was last written so long after START; return when."""
        os.utime(file, (START + wall, START + wall))
        return START + wall

    def age(self, file: Path, seconds: float) -> None:
        """Let a file have been written so long ago."""
        now = file.stat().st_mtime
        os.utime(file, (now - seconds, now - seconds))

    def open(self, **options: object) -> store.Log:
        return store.open(self.root, **{"cache": False, **options})


@pytest.fixture
def make(tmp_path):
    root = tmp_path / "logs"
    root.mkdir()
    return Maker(root)


@pytest.fixture(autouse=True)
def cache_home(tmp_path, monkeypatch):
    """No test touches the user's cache."""
    home = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    return home
