"""What a drop-in writer is built on: its run, how it begins and ends, and the way of all that is logged."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from stepscope.compat.branches import Branches
from stepscope.compat.charts import Charts
from stepscope.compat.file_writer import FileWriter
from stepscope.compat.nowhere import NOWHERE
from stepscope.errors import RecordError
from stepscope.events.messages import Event, SessionLog, SessionStatus
from stepscope.events.writer import FILE_VERSION, EventWriter
from stepscope.record.run import Run
from stepscope.record.summaries.prepared import Prepared

SUMMARY_BYTES = 1 << 30
"""Waiting summaries: scripts for the originals log whole models at once and expect nothing to be dropped."""
FLUSH_SECS = 1.0

W = TypeVar("W", bound="Base")


class Base:
    """A writer's run."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
        write_to_disk: bool = True,
        logdir: str | os.PathLike[str] | None = None,
        comet_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        named = log_dir or logdir
        if not named:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            named = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")  # noqa: PTH118  as text
        self.log_dir = self.logdir = named
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer = FileWriter(self)
        self.scalar_dict: dict[str, list[list[float]]] = {}
        self._disk = write_to_disk
        self._branches, self._charts = Branches(filename_suffix), Charts()
        self._defaults: dict[str, Any] = {}
        self._sets = 0
        self._opened: Run | None = None
        self._open()
        for name, given in (("comet_config", comet_config), *kwargs.items()):
            if given and not (name == "comet_config" and given.get("disabled")):
                self._ignored(name)

    # --- the run ------------------------------------------------------------------------------------

    @property
    def _run(self) -> Any:
        """The run; opened again where something is logged after ``close``."""
        return self._opened if self._opened is not None else self._open()

    def _open(self) -> Any:
        if not self._disk:
            return NOWHERE
        self._opened = run = Run(
            self.log_dir,
            rank=0,  # whoever makes a writer wants one; the originals know no ranks
            world_size=1,
            flush_secs=max(min(float(self.flush_secs), FLUSH_SECS), 0.01),
            max_summary_bytes=SUMMARY_BYTES,
            _open_writer=partial(EventWriter, suffix=self.filename_suffix),
        )
        if self.purge_step is not None:
            self._purge(run, self.purge_step)
            self.purge_step = None
        return run

    def _purge(self, run: Run, step: int) -> None:
        run.event(lambda: Event(file_version=FILE_VERSION), step, tag="purge_step")
        start = SessionLog(int(SessionStatus.START))
        run.event(lambda: Event(session_log=start), step, tag="purge_step")
        run.flush()  # what is logged next stands behind it

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return os.fspath(self.log_dir)

    @property
    def all_writers(self) -> dict[str, Any]:
        """The file writer by its directory, and the lines of ``add_scalars`` by theirs."""
        return {self.get_logdir(): self.file_writer, **{each.directory: each for each in self._branches}}

    @property
    def default_bins(self) -> list[float]:
        """Edges that ``add_histogram`` calls "tensorflow"."""
        from stepscope.compat.torch_values import default_bins

        return default_bins()

    def flush(self) -> None:
        """Wait until everything logged so far is with the operating system."""
        if self._opened is not None:
            self._opened.flush()

    def close(self) -> None:
        """Write everything and end the run; what is logged later begins another attempt."""
        run, self._opened = self._opened, None
        if run is not None:
            run.close()
        self._branches.close()

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run, self._opened = self._opened, None
        if run is not None:
            run.__exit__(kind, error, traceback)
        self._branches.close()

    @contextmanager
    def use_metadata(self, *, global_step: Any = None, walltime: float | None = None) -> Iterator[None]:
        """Give step and time to what is logged within and has none."""
        before, self._defaults = self._defaults, {"global_step": global_step, "walltime": walltime}
        try:
            yield
        finally:
            self._defaults = before

    # --- the way of all -----------------------------------------------------------------------------

    def _place(self, step: Any, wall: float | None) -> tuple[Any, float | None]:
        """Return step and time of a value, those of ``use_metadata`` where none is given."""
        step = self._defaults.get("global_step") if step is None else step
        wall = self._defaults.get("walltime") if wall is None else wall
        if type(step) is not int and (isinstance(step, float) or type(step).__module__ == "numpy"):
            step = _cut(step)  # as the originals do it
        return step, wall

    def _add(self, tag: str, step: Any, wall: float | None, prepare: Callable[[], Prepared]) -> None:
        self._prepared(tag, *self._place(step, wall), prepare)

    def _prepared(self, tag: str, step: Any, wall: float | None, prepare: Callable[[], Prepared]) -> None:
        self._run._summary(tag, step, prepare, wall)

    def _ignored(self, name: str) -> None:
        what = f"SummaryWriter({name}=…) is not supported and ignored"
        error = RecordError(what, hint="leave it out", path=os.fspath(self.log_dir))
        if self._opened is not None:
            self._opened._recorder.problems.tell("argument", error, points=0)


def _cut(step: Any) -> Any:
    try:
        return int(step)
    except (TypeError, ValueError, OverflowError):
        return step  # refused later, with the value
