"""The base of drop-in writers: the run, its beginning and end, and the path of everything that is logged."""

from __future__ import annotations

import os
import posixpath
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from stepscope.compat.branches import Branches, Float32Writer, LeavingFiles
from stepscope.compat.dialect import TORCH, Dialect, whole
from stepscope.compat.file_writer import OwnFile
from stepscope.compat.torch_values import default_bins
from stepscope.errors import RecordError
from stepscope.events.messages import Event, SessionLog, SessionStatus
from stepscope.events.writer import FILE_VERSION
from stepscope.kernels.steps import HotCalls, HotWriter
from stepscope.record.run import Run
from stepscope.record.sink import LogFiles
from stepscope.record.summaries.encoder import Prepared
from stepscope.urls import is_url


class Nowhere:
    """Accepts everything and keeps nothing."""

    log_dir = ""

    def __getattr__(self, name: str) -> Any:
        return _ignore


def _ignore(*arguments: object, **options: object) -> bool:
    return True


NOWHERE = Nowhere()


SUMMARY_BYTES = 1 << 30
"""Waiting summaries: scripts for the originals log whole models at once and expect nothing to be dropped."""
FLUSH_SECS = 1.0

W = TypeVar("W", bound="Base")


class Base(HotWriter):
    """A writer's run."""

    _dialect: Dialect = TORCH

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
        *,
        own_file: bool = False,
        **kwargs: Any,
    ) -> None:
        named = log_dir or logdir
        if not named:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            named = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")  # noqa: PTH118  as text
        self.log_dir = self.logdir = named
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix, self.kwargs = filename_suffix, kwargs
        self.file_writer: OwnFile | None = None
        self.all_writers: dict[str, Any] | None = None
        self.default_bins = default_bins()
        self.scalar_dict: dict[str, list[list[float]]] = {}
        self._disk, self._own = write_to_disk, own_file
        self._branches = Branches(filename_suffix)
        self._defaults: dict[str, Any] = {}
        self._opened: Run | None = None
        super().__init__()
        self._open()
        for name, given in (("comet_config", comet_config), *kwargs.items()):
            if given and not (name == "comet_config" and given.get("disabled")):
                self._ignored(name)

    # --- the run ------------------------------------------------------------------------------------

    @property
    def _run(self) -> Any:
        """The run; opened again if something is logged after ``close``."""
        return self._opened if self._opened is not None else self._open()

    def _open(self) -> Any:
        tag = self._dialect.profile_tag
        self.file_writer = OwnFile(
            self.get_logdir(), tag, put=self._put_event, flush=self.flush, close=self.close
        )
        self.all_writers = {self.get_logdir(): self.file_writer}
        if not self._disk:
            return NOWHERE
        self._opened = run = Run(
            self.log_dir,
            rank=0,  # whoever makes a writer wants one; the originals know no ranks
            world_size=1,
            flush_secs=max(min(float(self.flush_secs), FLUSH_SECS), 0.01),
            max_summary_bytes=SUMMARY_BYTES,
            _open_writer=partial(
                LogFiles if self._own else LeavingFiles,
                open_log=partial(Float32Writer, suffix=self.filename_suffix),
            ),
        )
        if self.purge_step is not None:
            self._purge(run, self.purge_step)
            self.purge_step = None
        self._direct = self._find_direct()
        return run

    def _find_direct(self) -> Run | None:
        """Return the run that takes ordinary numbers directly; None once closed and within ``use_metadata``.

        It takes only tags that were recorded before, which are already as the dialect writes them. Where
        ``Run.scalar`` was patched, the patch is what takes numbers.
        """
        run = self._opened
        own = getattr(type(run), "scalar", None) is HotCalls.scalar and "scalar" not in vars(run)
        return run if own and not self._defaults else None

    def _purge(self, run: Run, step: int) -> None:
        run.event(lambda: Event(file_version=FILE_VERSION), step, tag="purge_step")
        start = SessionLog(int(SessionStatus.START))
        run.event(lambda: Event(session_log=start), step, tag="purge_step")
        run.flush()  # what is logged next stands behind it

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return os.fspath(self.log_dir)

    def _put_event(self, event: Event, step: Any, wall: float | None) -> None:
        at, when = self._place(step or None, wall)
        nbytes = max(len(event.graph_def or b""), 1024)
        self._run.event(lambda: event, at, nbytes=nbytes, tag="file_writer", wall=when)

    def _get_file_writer(self) -> OwnFile:
        """Return the file writer, which Lightning's logger requests; opened again after ``close``."""
        if self.file_writer is None:
            self._open()
        assert self.file_writer is not None
        return self.file_writer

    def _line(self, place: str) -> Any:
        """Return the file of a run beside this one."""
        found = self._branches.get(place, self._local(place))
        if self.all_writers is not None:
            self.all_writers.setdefault(place, found)
        return found

    def _local(self, place: str) -> str:
        """Return where a run beside this one is recorded; for a run in a store, below its local directory."""
        if not is_url(place):
            return place
        run, base = self._run, self.get_logdir().rstrip("/")
        below = place.removeprefix(base) if place.startswith(base) else place.partition("://")[2]
        inside = posixpath.normpath("/" + below.lstrip("/"))  # never above the run
        return str(run.log_dir) + inside

    def flush(self) -> None:
        """Wait until everything logged so far has been handed to the operating system."""
        if self._opened is not None:
            self._opened.flush()

    def close(self) -> None:
        """Write everything and end the run; logging afterwards begins another attempt."""
        run, self._opened, self._direct = self._opened, None, None
        if run is not None:
            run.close()
        self._branches.close(finished=True)
        self.file_writer = self.all_writers = None

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run, self._opened, self._direct = self._opened, None, None
        if run is not None:
            run.__exit__(kind, error, traceback)
        self._branches.close(finished=kind is None)
        self.file_writer = self.all_writers = None

    @contextmanager
    def use_metadata(self: W, *, global_step: Any = None, walltime: float | None = None) -> Iterator[W]:
        """Set step and time of what is logged in this block without them."""
        before, self._defaults = self._defaults, {"global_step": global_step, "walltime": walltime}
        self._direct = None
        try:
            yield self
        finally:
            self._defaults = before
            self._direct = self._find_direct()

    # --- the way of all -----------------------------------------------------------------------------

    def _place(self, step: Any, wall: float | None) -> tuple[Any, float | None]:
        """Return step and time of a value; by default those of ``use_metadata``."""
        step = self._defaults.get("global_step", 0) if step is None else step
        wall = self._defaults.get("walltime") if wall is None else wall
        if type(step) is not int:
            if step is None:
                step = 0
            elif isinstance(step, float | str | bytes | bool) or type(step).__module__ == "numpy":
                step = whole(step)
        return step, wall

    def _add(self, tag: str, step: Any, wall: float | None, prepare: Callable[[], Prepared]) -> None:
        self._prepared(tag, *self._place(step, wall), prepare)

    def _prepared(self, tag: str, step: Any, wall: float | None, prepare: Callable[[], Prepared]) -> None:
        self._run.summary(tag, step, prepare, wall)

    def _ignored(self, name: str) -> None:
        what = f"SummaryWriter({name}=…) is not supported and is ignored"
        error = RecordError(what, hint="leave it out", path=os.fspath(self.log_dir))
        if self._opened is not None:
            self._opened.report("argument", error, points=0)
