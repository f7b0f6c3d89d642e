"""The files of a writer: its own, and those of runs beside it (``add_scalars`` and ``add_hparams``)."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.events.ending import note_finished
from stepscope.events.messages import Event, Summary, TaggedRunMetadata, Value, decode_event
from stepscope.events.wire import decode
from stepscope.events.writer import EventWriter, is_own_name
from stepscope.record.info import TAG
from stepscope.record.sink import PREFIX, LogFiles
from stepscope.record.values import Pending

PROFILE_TAG = "step1"
"""Tag of the measured times of a graph."""


class Added:
    """Accepts events, summaries and graphs as protocol buffers, or serialized."""

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Add an Event message."""
        decoded = decode_event(_bytes(event))
        self._put(decoded, decoded.step if step is None else whole(step), walltime)

    def add_summary(self, summary: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Add a Summary message, or a serialized one."""
        step = 0 if global_step is None else whole(global_step)
        self._put(Event(summary=decode(Summary, _bytes(summary))), step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Add a GraphDef and the RunMetadata that belongs to it."""
        graph, measured = graph_profile
        self._put(Event(graph_def=_bytes(graph)), 0, walltime)
        metadata = TaggedRunMetadata(PROFILE_TAG, _bytes(measured))
        self._put(Event(tagged_run_metadata=metadata), 0, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Add a GraphDef."""
        self._put(Event(graph_def=_bytes(graph)), 0, walltime)

    add_openvino_graph = add_onnx_graph

    def _put(self, event: Event, step: Any, wall: float | None) -> None:
        raise NotImplementedError


class OwnFile(Added):
    """The file writer of a SummaryWriter.

    Args:
        log_dir: Directory of the run.
        put: Receives an event with its step and wall time.
        flush: Writes everything that was added.
        close: Closes the writer.
    """

    def __init__(
        self,
        log_dir: str,
        *,
        put: Callable[[Event, Any, float | None], None],
        flush: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        self._log_dir = log_dir
        self._take, self._flush, self._close = put, flush, close

    @property
    def event_writer(self) -> OwnFile:
        """The object that accepts events: this one."""
        return self

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return self._log_dir

    def flush(self) -> None:
        """Write everything that was added."""
        self._flush()

    def close(self) -> None:
        """Close the writer."""
        self._close()

    def reopen(self) -> None:
        """Do nothing: adding something after ``close`` opens the run again by itself."""

    def _put(self, event: Event, step: Any, wall: float | None) -> None:
        self._take(event, step, wall)


def _bytes(message: Any) -> bytes:
    return bytes(message) if isinstance(message, bytes | bytearray) else bytes(message.SerializeToString())


class Float32Writer(EventWriter):
    """Writes numbers as the originals do: as float32, infinite beyond its range."""

    def scalar(self, tag: str, value: float, step: int, wall_time: float) -> None:
        """Add a scalar."""
        with np.errstate(over="ignore"):
            super().scalar(tag, float(np.float32(value)), step, wall_time)


class LeavingFiles(LogFiles):
    """Leaves only the event file behind, as the originals do, if there is nothing more to say about a run.

    The file beside it exists while the run lasts. That the run finished is noted at the event file, but
    outside its contents. The file beside it stays if the run did not finish, if something could not be
    recorded, if there are findings, and if an earlier attempt left files.
    """

    _said = b""
    _telling = False

    def event(self, event: Event) -> None:
        """Add any event; its first tag says which file it belongs to."""
        super().event(event)
        value = event.values[0] if event.values else None
        if value is not None and value.tag == TAG and value.tensor is not None:
            self._said = value.tensor.string_val[0]
        elif value is not None and value.tag.startswith(PREFIX):
            self._telling = True

    def close(self) -> None:
        """Write the buffers and close the files; delete the one beside the events if it is empty."""
        super().close()
        own = next((Path(path) for path in self.paths if is_own_name(Path(path).name)), None)
        if own is None or self._telling or not self._said:
            return
        facts = json.loads(self._said)
        others = (path.name for path in own.parent.iterdir() if path.name != own.name)
        if (
            facts.get("status") == "finished"
            and not facts.get("problems")
            and not any(map(is_own_name, others))
        ):
            note_finished(self.path, facts.get("ended") or time.time())
            with contextlib.suppress(OSError):
                own.unlink()


class Branch(Added):
    """An event file of its own; everything put into it is handed to the operating system at once.

    Args:
        directory: Of the run, or its URL.
        suffix: Of the file's name.
        local: Directory of the file; by default the run's own.

    Attributes:
        paths: Paths of the files that it began.
    """

    def __init__(self, directory: str, suffix: str, local: str | None = None) -> None:
        self.directory, self._suffix = directory, suffix
        self._local = directory if local is None else local
        self._writer: EventWriter | None = None
        self._lock = threading.Lock()
        self.paths: list[Path] = []

    def get_logdir(self) -> str:
        """Return the directory."""
        return self.directory

    def put(self, tag: str, value: float | Pending, step: int | Pending, wall: float | None) -> None:
        """Write a number. Runs on the background thread."""
        number, at = _read(value), int(_read(step))
        with self._lock:
            self._file().scalar(tag, number, at, time.time() if wall is None else wall)
            self._file().flush()

    def put_all(
        self, values: Sequence[Value], numbers: Sequence[tuple[str, float | Pending]], step: int | Pending
    ) -> None:
        """Write values, each as an event, then numbers, and close the file."""
        now, at = time.time(), int(_read(step))
        with self._lock:
            file = self._file()
            for value in values:
                file.event(Event(now, at, summary=Summary([value])))
            for tag, number in numbers:
                file.scalar(tag, _read(number), at, now)
        self.close()

    def flush(self) -> None:
        """Do nothing: every number is flushed."""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def _put(self, event: Event, step: Any, wall: float | None) -> None:
        event.step, event.wall_time = int(step), time.time() if wall is None else wall
        with self._lock:
            self._file().event(event)
            self._file().flush()

    def _file(self) -> EventWriter:
        if self._writer is None:
            self._writer = Float32Writer(self._local, suffix=self._suffix)
            self.paths.append(Path(self._writer.path))
        return self._writer


class Branches:
    """All branches, by directory."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._known: dict[str, Branch] = {}
        self._begun: list[Branch] = []

    def get(self, directory: str, local: str) -> Branch:
        """Return the branch of a directory; if that is in a store, it is recorded in a local one."""
        branch = self._known.get(directory)
        if branch is None:
            branch = self._known[directory] = Branch(directory, self._suffix, local)
        return branch

    def begin(self, directory: str, local: str) -> Branch:
        """Return a new branch, whatever else there is in its directory."""
        begun = Branch(directory, "", local)
        self._begun.append(begun)
        return begun

    def close(self, *, finished: bool) -> None:
        """Close all branches; their run has been closed before.

        Args:
            finished: Everything that belongs into them was logged.
        """
        now = time.time()
        for branch in (*self._known.values(), *self._begun):
            branch.close()
            for path in branch.paths if finished else ():
                note_finished(path, now)
        self._known, self._begun = {}, []


def _read(value: float | int | Pending) -> float:
    return value if isinstance(value, float | int) else value.read()


def whole(step: Any) -> Any:
    """Return a step as ``int()`` converts text and other numbers; other values are returned unchanged."""
    try:
        return int(step)
    except (TypeError, ValueError, OverflowError):
        return step  # refused later, with the value
