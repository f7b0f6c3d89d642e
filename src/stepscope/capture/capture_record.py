"""The record of one profile: the JSON beside it, and the run's reference to it.

The run's event file holds one tensor of this JSON per profile (plugin ``stepscope``, tag
``stepscope/profile``); every rank also leaves it beside the profile, as ``NAME.profile.json``, because only
the chief has an event file.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stepscope.events.messages import DataClass, Metadata, Tensor, Value
from stepscope.scrub import utf8

TAG = "stepscope/profile"
ENDING = ".profile.json"
SUMMARY = ".summary.json"
SCHEMA = 1


@dataclass
class CaptureRecord:
    """Facts of one capture; ``path`` is None if it failed, and ``failure`` then says why.

    Attributes:
        name: Of the profile, without ending.
        path: From the run's directory, with forward slashes; absolute where it lies elsewhere.
        summary: Likewise, of the summary that the side process writes.
        steps: Numbers of the steps in it.
        cause: "schedule", "predicate", "request", "signal", "slow step" or "alert".
        reason: The cause in words, "" where there is nothing to add.
        request: Id of the request that asked for it.
        cost: What it cost: see ``docs/guides/capture.md``.
        dropped: Events that were not kept, by reason.
        memory: What memory held at the end of each step.
        before: Steps before the capture: number, seconds, seconds waited for data.
        facts: What the alert knew.
        failure: Why there is no profile.
        not_analysed: Why there is no summary of it.
    """

    name: str
    rank: int
    world_size: int
    role: str
    backend: str
    format: str
    steps: list[int]
    cause: str
    reason: str = ""
    request: str | None = None
    path: str | None = None
    summary: str | None = None
    bytes: int | None = None
    wall: float = 0.0
    cost: dict[str, Any] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    memory: list[dict[str, int]] = field(default_factory=list)
    before: list[tuple[int, float, float | None]] = field(default_factory=list)
    facts: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    failure: str | None = None
    not_analysed: str | None = None

    def as_json(self) -> str:
        """Return the facts as JSON; what JSON cannot hold becomes text."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, ensure_ascii=False, default=str)


def value_of(text: str) -> Value:
    """Return the summary value that points to a profile, given the pointer's JSON."""
    tensor = Tensor.of_texts(utf8(text))
    return Value(tag=TAG, tensor=tensor, metadata=Metadata.of("stepscope", data_class=int(DataClass.TENSOR)))


def relative(path: Path, log_dir: str) -> str:
    """Return a path in the form that the run's pointers use."""
    try:
        return path.resolve().relative_to(Path(log_dir).resolve()).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a directory."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


_ODD = re.compile(r"[^A-Za-z0-9-]+")
FOLDER = "profiles"
"""Directory of a run's profiles, unless another is given."""


def stem(role: str, rank: int, first_step: int, world_size: int = 1) -> str:
    """Return the beginning of a profile's name, as ``chief_rank0_step500``.

    Numbers are padded so that names sort as the steps do.
    """
    word = _ODD.sub("-", role).strip("-") or "process"
    width = len(str(max(world_size - 1, 0)))
    return f"{word}_rank{rank:0{width}d}_step{first_step:08d}"


def claim(folder: Path, name: str, ending: str, *, exists: Callable[[Path], bool] = os.path.lexists) -> Path:
    """Return a path in ``folder`` that was free and is now taken by an empty file.

    Another attempt at the same step, in this process or another, gets a number after the name.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 10_000):
        path = folder / f"{name}{f'_{number}' if number > 1 else ''}{ending}"
        if exists(path):
            continue
        try:
            with path.open("xb"):
                return path
        except FileExistsError:
            continue
    raise FileExistsError(f"{name}: ten thousand profiles of one step")


def signal_name(number: int) -> str:
    """Return the name of a signal; only the first and last real-time one have one."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
