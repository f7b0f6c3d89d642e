"""The data that questions are asked of: one log directory, its runs and profiles, followed while it grows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import (
    LogDirectoryError,
    NoEventFilesError,
    StepscopeError,
    TraceError,
    UnknownRunError,
    UnknownTagError,
    UsageError,
)
from stepscope.files import run_directory
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import Backend
from stepscope.serve.run_series import tags_of
from stepscope.store.nearest import hint_nearest
from stepscope.urls import is_url

if TYPE_CHECKING:
    from stepscope.names.telling import Chart
    from stepscope.serve.profiles.open_profiles import OpenProfile
    from stepscope.serve.threads import ThreadPool
    from stepscope.serve.types import RunSummary
    from stepscope.store import Log, StoredRun
    from stepscope.store.annotations import Notes
    from stepscope.store.series import Series


class Desk:
    """A log directory as questions see it. Safe for threads.

    Args:
        place: A log directory, the URL of one in a store, or one profile.
        cache: Whether caches may be kept.
        backend: Of a server that follows the directory already; None to follow it here.
        threads: The threads of a program that goes on; profiles are then read in a process of their own.

    Raises:
        LogDirectoryError: There is nothing, or it cannot be listed.
    """

    def __init__(
        self,
        place: str | Path,
        *,
        cache: bool = True,
        backend: Backend | None = None,
        threads: ThreadPool | None = None,
    ) -> None:
        self.place = str(place)
        self.profile_file = ""
        self._lock = threading.Lock()
        self._log: Log | None = None
        self._notes: Notes | None = None
        self._cache = cache
        self._summaries: dict[str, tuple[object, RunSummary]] = {}
        if backend is None:
            if not is_url(place) and Path(place).expanduser().is_file():
                self.profile_file = Path(place).name
                place = Path(place).expanduser().parent
            self._path: str | Path = place
            directory = Path("." if is_url(place) else place).expanduser()
            self._own: Backend | None = Backend(directory, lambda: self._log, cache=cache, threads=threads)
        else:
            self._own = None
        self._server = backend

    @classmethod
    def of_backend(cls, backend: Backend) -> Desk:
        """Return the desk of one server."""
        return cls(backend.directory, backend=backend)

    @property
    def backend(self) -> Backend:
        """The state that is kept from one answer to the next."""
        return self._server or self._own  # type: ignore[return-value]

    def refresh(self) -> None:
        """Read the directory, or what was written to it since.

        Raises:
            LogDirectoryError: The directory cannot be listed.
        """
        if not self.follow():
            self.log  # noqa: B018  reads it

    def follow(self) -> bool:
        """Read what was written since, and return True, if the directory was read before.

        Raises:
            LogDirectoryError: The directory cannot be listed.
        """
        if self._server is not None:
            self._server.follower.poll()
            return True
        with self._lock:
            if self._log is not None:
                self._log.refresh()
            return self._log is not None

    @property
    def log(self) -> Log:
        """The directory, as of the last :meth:`refresh`; read now if it was not before.

        Raises:
            LogDirectoryError: It is not there yet, or cannot be listed.
        """
        if self._server is not None:
            if self._server.log is None:
                raise LogDirectoryError(
                    "the log directory is not there yet", hint="start a run", path=self.place
                )
            return self._server.log
        from stepscope import store

        with self._lock:
            if self._log is None:
                self._log = store.open(self._path, cache=self._cache)
                assert self._own is not None
                self._own.directory = self._log.path
            return self._log

    @property
    def notes(self) -> Notes:
        """The annotations of runs."""
        from stepscope.store.annotations import Notes

        if self._notes is None:
            self._notes = Notes(self.log.path)
        self._notes.refresh()
        return self._notes

    def runs(self) -> list[StoredRun]:
        """Return the runs, each with its parts as one."""
        return [run for run in self.log.runs() if run.whole is run]

    def some_runs(self) -> list[StoredRun]:
        """Return the runs, at least one.

        Raises:
            NoEventFilesError: There is none.
        """
        if runs := self.runs():
            return runs
        raise NoEventFilesError(
            "no run is recorded here",
            hint="pass the directory that runs write to, or one above it",
            path=self.place,
        )

    def summaries(self) -> dict[str, RunSummary]:
        """Return the facts of every run by its name."""
        notes = self.notes
        return {run.name: self._summary(run, notes) for run in self.runs()}

    def summary(self, run: StoredRun) -> RunSummary:
        """Return the facts of a run, or of a part of one."""
        return self._summary(run, self.notes)

    def _summary(self, run: StoredRun, notes: Notes) -> RunSummary:
        """Return the facts of a run; made anew only if something in them can have changed."""
        import time

        from stepscope.serve.summary import may_differ, summary_of

        state = run.generation, notes[run.name]
        cached = self._summaries.get(run.name)
        if cached is None or cached[0] != state or may_differ(cached[1], run):
            cached = state, summary_of(run, self.log, notes[run.name], now=time.time())
            self._summaries[run.name] = cached
        return cached[1]

    def charts(self) -> list[Chart]:
        """Return the charts, the most telling first."""
        from stepscope import store

        return sorted(store.charts(self.log), key=lambda chart: chart.place)

    def run(self, name: str = "") -> StoredRun:
        """Return a run by its name, or by a part of the name that no other has; "": the one written last.

        Raises:
            UnknownRunError: There is none.
        """
        log, runs = self.log, self.some_runs()
        if not name:
            return max(runs, key=lambda run: run.written)
        try:
            return log.run(name)
        except UnknownRunError as error:
            matches = [run for run in runs if run.name.endswith(name)] or [
                run for run in runs if name in run.name
            ]
            if len(matches) == 1:
                return matches[0]
            if matches:
                names = [run.name for run in matches]
                raise UnknownRunError(
                    f"{name!r} is part of {len(names)} runs' names", hint=hint_nearest(name, names, "they")
                ) from None
            raise UnknownRunError(error.message, hint=error.hint) from None

    def directory(self, run: StoredRun) -> Path:
        """Return the directory of a run."""
        return run_directory(self.log.path, run.name)

    def tag(self, run: StoredRun, tag: str) -> list[Series]:
        """Return the series of a tag of a run, or of one that has this ending and no other.

        Raises:
            UnknownTagError: It has none.
        """
        if series := run.search(tag):
            return series
        tags = list(tags_of(run))
        ends = [name for name in tags if name.endswith(f"/{tag}")]
        if len(ends) == 1:
            return run.find(ends[0])
        raise UnknownTagError(
            f"run {run.name!r} has no tag {tag!r}", hint=hint_nearest(tag, tags, "its tags")
        )

    def profiles(self, run: str = "") -> list[str]:
        """Return the paths of the profiles, the newest first; only those of a run if one is named."""
        from stepscope.serve.profiles.find import Finder

        log = self.log
        entries, _ = self.backend.part(Finder).find([run.name for run in log.runs()])
        return [
            entry.path for entry in entries if not run or entry.run == run or entry.path.startswith(f"{run}/")
        ]

    def profile(self, path: str = "", run: str = "") -> OpenProfile:
        """Return a profile.

        Args:
            path: From the directory, or its ending, or a part that no other has; "": the newest one.
            run: Of which run; "" for any.

        Raises:
            TraceError: There is none, or it cannot be read.
        """
        from stepscope.serve.profiles.open_profiles import Profiles

        wanted = path or self.profile_file
        name = self.run(run).name if run else ""
        if not wanted or not self._holds(wanted):
            known = self.profiles(name)
            matches = [path for path in known if path.endswith(wanted)] if wanted else known
            parts = [] if matches else [path for path in known if wanted in path]
            if len(parts) > 1:
                raise TraceError(
                    f"{wanted!r} is part of {len(parts)} profiles' names",
                    hint=hint_nearest(wanted, parts, "they"),
                )
            matches = matches or parts
            if not matches:
                of = f" of run {name!r}" if name else ""
                hint = (
                    hint_nearest(wanted, known, "the profiles")
                    if known
                    else "record one with ss.ProfilerHook(), or stepscope capture RUN"
                )
                raise TraceError(
                    f"no profile {wanted!r}{of}" if wanted else f"no profile{of} is recorded", hint=hint
                )
            wanted = matches[0]
        with translated():
            return self.backend.part(Profiles).get(wanted)

    def _holds(self, name: str) -> bool:
        """Return whether a file is there; of one in this directory the runs need not be read."""
        if is_url(self.place):
            return _exists(self.log.path, name)
        root = self.backend.directory
        if not _exists(root, name):
            return False
        if not (root / name).resolve().is_relative_to(root.resolve()):
            self.log  # noqa: B018  a run may be a link to a directory elsewhere, and only the runs tell
        return True

    def close(self) -> None:
        """Stop reading."""
        if self._own is not None:
            self._own.close()
        if self._log is not None:
            self._log.close()


def _exists(root: Path, name: str) -> bool:
    try:
        return (root / name).exists()
    except (OSError, ValueError):
        return False


@contextmanager
def translated() -> Iterator[None]:
    """Turn a refusal of the server's functions into an error for the user."""
    try:
        yield
    except Refusal as refusal:
        kinds: dict[int, type[StepscopeError]] = {404: UnknownRunError, 422: TraceError}
        raise kinds.get(refusal.status, UsageError)(refusal.error, hint=refusal.hint) from None
