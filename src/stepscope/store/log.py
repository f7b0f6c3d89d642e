"""A log directory: its runs, found and followed."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import LogDirectoryError, UnknownRunError
from stepscope.names.meanings import Meanings, StoredMeanings
from stepscope.patterns import compile_pattern
from stepscope.reading import Problem, Progress
from stepscope.store.cache import Cache, cache_home
from stepscope.store.discover import EventFileTree, Files, carries_data, is_index
from stepscope.store.frame import Frame
from stepscope.store.nearest import hint_nearest
from stepscope.store.pieces import Assembler
from stepscope.store.run import StoredRun, adopt, relate, settings_of
from stepscope.store.series import Series
from stepscope.store.source import FollowedFile
from stepscope.text import counted
from stepscope.urls import is_url

if TYPE_CHECKING:
    from stepscope.mirror import Mirror

THREADS = max(2, min(32, os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes found in a log directory.

    Attributes:
        added: Runs that appeared.
        removed: Runs that are gone.
        changed: Per run the tags with new points, or with points that are gone.
        meanings: Whether the meanings of tags have changed.
        complete: Whether everything has been read; if not, look again at once.
    """

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: dict[str, set[str]] = field(default_factory=dict)
    meanings: bool = False
    complete: bool = True

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.meanings)


class Log:
    """A log directory.

    ``refresh`` is called by one thread at a time; everything else may be called from any thread meanwhile.

    Args:
        path: The directory.
        cache: Whether to use the user's cache directory, and to save read points there.

    Attributes:
        mirror: The copy of a directory in a store, which may lack profiles of the original; otherwise None.
    """

    def __init__(self, path: str | os.PathLike[str], *, cache: bool = True) -> None:
        self.mirror: Mirror | None = None
        if is_url(path):
            from stepscope.mirror import Mirror  # most logs lie here

            self.mirror = Mirror(str(path))
            path = self.mirror.folder
        self.path = Path(path)
        self.generation = 0
        self.progress = Progress(0, 0, 0, 0)
        home = cache_home() if cache else None
        self._cache = Cache(str(path), home) if home else None
        self._saving: threading.Thread | None = None
        self._tree, self._assembler = EventFileTree(str(path)), Assembler(str(path))
        self._runs: dict[str, StoredRun] = {}
        self._sources: dict[str, FollowedFile] = {}
        self._reading: dict[str, Future[set[str] | None]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._refreshing = threading.Lock()
        self._meanings = StoredMeanings(self.path)
        self._settings: dict[str, str] = {}
        """Runs that only hold the settings of another, each with that other."""

    def __repr__(self) -> str:
        return f"<log {str(self.path)!r}: {counted(len(self._runs), 'run')}>"

    @property
    def is_remote(self) -> bool:
        """True if this is a copy of a directory elsewhere, which changes here would not affect."""
        return self.mirror is not None

    @property
    def meanings(self) -> Meanings:
        """The meanings of tags, with the corrections that are stored here or in a directory above."""
        return self._meanings.meanings

    def runs(self) -> list[StoredRun]:
        """Return all runs, sorted by name."""
        return list(self._runs.values())

    @property
    def experiment(self) -> dict[str, Any]:
        """The declarations of TensorBoard's hp plugin, from the first run that holds any; {} for none."""
        return next((facts for run in self.runs() if (facts := run.experiment)), {})

    def run(self, name: str) -> StoredRun:
        """Return a run by its name; of one that has only parts, such as ``X/train``, that of the training.

        Raises:
            UnknownRunError: There is none.
        """
        match = self._runs.get(name)
        if match is None:
            match = next((run for run in self._runs.values() if run.base == name and run.whole is run), None)
        if match is None:
            hint = hint_nearest(name, list(self._runs), "the runs")
            raise UnknownRunError(f"no run {name!r}", hint=hint, path=self.path)
        return match

    def frame(self, *, tags: str = "", runs: str = "") -> Frame:
        """Return the points of many series as columns: run, tag, step, wall_time, value, writer, attempt.

        Args:
            tags: Regular expression; tags in which it is found.
            runs: Likewise for the names of runs.

        Raises:
            UsageError: An invalid regular expression.
        """
        return Frame(self.select(tags=tags, runs=runs))

    def select(self, *, tags: str = "", runs: str = "") -> list[Series]:
        """Return the series whose tag and run match, as in ``frame``, run by run and tag by tag."""
        wanted, of = compile_pattern(tags, "tags"), compile_pattern(runs, "runs")
        return [
            series
            for run in self.runs()
            if of.search(run.name)
            for tag in run.tags()
            if wanted.search(tag)
            for series in run.columns(tag)
        ]

    @property
    def problems(self) -> list[Problem]:
        """Problems of listing and caching, other than those of runs."""
        result = [
            Problem("unlisted", 1, f"{self.path}/{name}", f"cannot be listed: {error.strerror or error}")
            for name, error in self._tree.errors.items()
        ]
        result += [
            Problem(
                "debugger",
                count,
                f"{self.path}/{name}",
                f"{counted(count, 'file')} of TensorFlow's debugger (tfdbg_events.*) "
                f"{'is' if count == 1 else 'are'} not read: "
                "TensorBoard's Debugger V2 shows them",
            )
            for name, count in self._tree.debugger.items()
        ]
        if self._cache and self._cache.error:
            text = f"no cache can be kept, opening again will take longer: {self._cache.error}"
            result.append(Problem("cache", 1, str(self._cache.folder), text))
        if self.mirror:
            result += self._store_problems(self.mirror)
        if self.mirror and self.mirror.refused:
            refused = sorted(self.mirror.refused)
            count = f"{len(refused)} file is" if len(refused) == 1 else f"{len(refused)} files are"
            text = f"{count} not copied: a name leads out of the directory ({refused[0]})"
            result.append(Problem("refused", len(refused), None, text))
        return result

    @property
    def unread(self) -> list[Problem]:
        """Problems because of which runs or points are missing."""
        return [problem for problem in self.problems if problem.kind in ("unread", "unlisted", "store")]

    @staticmethod
    def _store_problems(mirror: Mirror) -> list[Problem]:
        """Return the files that the store did not deliver at the last look; earlier data is shown."""
        names: dict[str, list[str]] = {}
        for name, error in mirror.unread.items():
            names.setdefault(error, []).append(name)
        problems = [
            Problem("unread", len(some), some[0], f"{_not_read(len(some))}: {error}")
            for error, some in names.items()
        ]
        if mirror.error:
            problems.append(Problem("store", 1, mirror.url, f"the store does not answer now: {mirror.error}"))
        return problems

    def refresh(self, max_seconds: float | None = None) -> Changes:
        """Look for new runs and new points and read them.

        Args:
            max_seconds: Return after about this time with the points read so far; reading goes on in the
                background, and the next call includes it.

        Raises:
            LogDirectoryError: The log directory itself can no longer be listed.
        """
        with self._refreshing:
            try:
                if self.mirror and self.generation:
                    self.mirror.update()
                by_run = self._assembler.whole(self._tree.scan())
            except OSError as error:
                raise directory_error(self.path, error) from error
            present = {
                path: stat for files in by_run.values() for path, stat in files.items() if carries_data(path)
            }
            self._schedule(present)
            wait(self._reading.values(), timeout=max_seconds)
            changed = self._collect(present)
            done = [stat.st_size for path, stat in present.items() if path not in self._reading]
            sizes = [stat.st_size for stat in present.values()]
            self.progress = Progress(len(done), len(present), sum(done), sum(sizes))
            changes = self._publish(by_run, changed)
            if changes.complete and changed:
                self._save()
            return changes

    def _schedule(self, present: Files) -> None:
        """Start reading every file that is new or has changed."""
        for path in self._sources.keys() - present.keys() - self._reading.keys():
            del self._sources[path]
        for path in present:
            if path not in self._sources:
                self._sources[path] = self._source(path)
        idle = [path for path in present if path not in self._reading]
        due = [path for path in idle if self._sources[path].is_due(present[path])]
        due.sort(key=lambda path: -present[path].st_size)  # the longest first, or it would end alone
        for path in due:
            self._reading[path] = self._threads().submit(self._sources[path].follow, present[path])

    def _source(self, path: str) -> FollowedFile:
        if is_index(path.rpartition("/")[2]):
            from stepscope.store.compacted import CompactedFile  # most logs hold none

            return CompactedFile(path, self.mirror)
        return self._cache.source(path) if self._cache else FollowedFile(path)

    def _collect(self, present: Files) -> dict[str, set[str]]:
        """Return the files that have been read since the last look, with the tags that changed."""
        done = [path for path, future in self._reading.items() if future.done()]
        return {
            path: tags
            for path in done
            if (tags := self._reading.pop(path).result()) is not None and path in present
        }

    def _publish(self, by_run: dict[str, Files], changed: dict[str, set[str]]) -> Changes:
        """Make new points visible in the runs, and return the changes."""
        result = Changes(complete=not self._reading, meanings=self._meanings.refresh())
        runs: dict[str, StoredRun] = {}
        for name, files in by_run.items():
            sources = {
                path: source
                for path in files
                if (source := self._sources.get(path)) is not None and source.seen is not None
            }
            run = self._runs.get(name)
            if run is None:
                if not sources and any(carries_data(path) for path in files):
                    continue  # its first file is still being read
                run = StoredRun(name)
                result.added.append(name)
            runs[name] = run
            news = [path for path in files if path in changed]
            if news or run.files.holds(sources) is False or name in result.added:
                tags = run.files.adopt(sources)
                result.changed[name] = tags.union(*(changed[path] for path in news))
        result.removed.extend(name for name in self._runs if name not in runs)
        if result:
            self.generation += 1
            for run in runs.values():
                if result.meanings or run.name in result.changed:
                    run.files.generation = self.generation
                run.meanings = self.meanings
            settings = settings_of(runs)
            if result.added or result.removed or settings != self._settings:
                relate(runs, settings)
                self._settings = settings
            adopt(runs)
            self._runs = runs
        return result

    def _save(self) -> None:
        """Write the cache, if worthwhile, on a thread that the process waits for before it ends."""
        cache, sources = self._cache, [source for source in self._sources.values() if source.seen]
        if cache and not (self._saving and self._saving.is_alive()) and cache.is_due(sources):
            self._saving = threading.Thread(target=cache.save, args=(sources,), name="stepscope-cache")
            self._saving.start()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="stepscope-read")
        return self._pool

    def close(self) -> None:
        """Stop reading, and finish writing the cache. Read points stay usable."""
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        if self._saving:
            self._saving.join()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open(log_dir: str | os.PathLike[str], *, cache: bool = True, load: bool = True) -> Log:  # noqa: A001
    """Open a log directory and read every event file in it.

    An empty directory is fine: runs may appear.

    Args:
        log_dir: The directory that TensorBoard would be given, or a URL that fsspec knows (``s3://…``).
        cache: Whether to use the user's cache directory and save read points there.
        load: Whether to read now; if not, the first ``refresh`` does.

    Raises:
        LogDirectoryError: Not a directory, or one that cannot be listed.
    """
    path = log_dir if is_url(log_dir) else Path(log_dir).expanduser()
    if isinstance(path, Path):
        try:
            with os.scandir(path):
                pass
        except OSError as error:
            raise directory_error(path, error) from error
    log = Log(path, cache=cache)
    if load:
        log.refresh()
    return log


def _not_read(files: int) -> str:
    return "not read from the store now" if files == 1 else f"{files:,} files are not read from the store now"


def directory_error(path: Path, error: OSError) -> LogDirectoryError:
    """Return the error for the user when a log directory cannot be listed."""
    if isinstance(error, FileNotFoundError):
        text, hint = "no such log directory", "check the path, or start the run that will create it"
    elif isinstance(error, NotADirectoryError):
        text, hint = "not a directory", f"pass the directory that holds it: {path.parent}"
    elif isinstance(error, PermissionError):
        text, hint = (
            "no permission to list the log directory",
            f"ask its owner for read access, or: chmod u+rx {path}",
        )
    else:
        text, hint = (
            f"cannot list the log directory: {error.strerror or error}",
            "check the file system it lies on",
        )
    return LogDirectoryError(text, hint=hint, path=path)
