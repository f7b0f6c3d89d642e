"""Following the log directory: one thread reads and publishes changes, as often as somebody looks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import LogDirectoryError, StepscopeError
from stepscope.reading import Problem
from stepscope.serve.feed import Feed
from stepscope.serve.memory import Trimmer
from stepscope.serve.types import LogSummary
from stepscope.urls import shown
from stepscope.version import __version__

if TYPE_CHECKING:
    from stepscope.store import Log
    from stepscope.store.annotations import Notes

SHOW_EVERY_S = 0.2
"""How often partial results of a long reading are published."""
FRESH_S = 0.2
"""Age of a reading that a poll accepts."""
MAX_SHARE = 0.2
"""Share of one core that reading may take; a slow file system is read less often instead of all the time."""
WATCHED_S, UNWATCHED_S, ASLEEP_S = 2.0, 5.0, 60.0
"""Seconds between readings: while somebody polls, while nobody has for a moment, and for a long time."""
LATELY_S, LONG_AGO_S = 15.0, 600.0


def pause(*, client_age_s: float, cost_s: float) -> float:
    """Return how long to wait before the next reading, unless a poll asks for one.

    Args:
        client_age_s: Since the last poll; infinite if nobody ever came.
        cost_s: Duration of the last reading.
    """
    wanted = WATCHED_S if client_age_s < LATELY_S else UNWATCHED_S if client_age_s < LONG_AGO_S else ASLEEP_S
    return max(wanted, least_pause(cost_s))


def least_pause(cost_s: float) -> float:
    """Return the shortest time between two readings."""
    return max(FRESH_S, cost_s * (1 / MAX_SHARE - 1))


class LogFollower:
    """Keeps a log open, up to date and published in ``feed``.

    Args:
        log_dir: May not exist yet: it is waited for. Of a URL the place of the copy.
        url: The directory's URL, in a store.
        cache: Whether the store may keep a cache.
        clock: Seconds that only go forward.
        wall: Seconds since the epoch.
        report: Takes one line for the user when reading begins to fail or works again.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        url: str | None = None,
        cache: bool = True,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.log_dir, self.cache, self.clock, self.wall, self.report = log_dir, cache, clock, wall, report
        name = log_dir.name or log_dir.resolve().name or str(log_dir)
        self._url = url
        self.feed = Feed(
            LogSummary(name, shown(url) if url else str(log_dir), __version__, log_dir.exists(), [])
        )
        self.log: Log | None = None
        self.notes: Notes | None = None
        self.started = clock()
        self.complete = False
        self.asked = float("-inf")
        self.read_at = float("-inf")
        self.cost_s = 0.0
        self.begun = self.rounds = 0
        self.failure: str | None = None
        self._tags: dict[str, frozenset[str]] = {}
        self._turn = threading.Condition()
        self._wanted = False
        self._stopping = False
        self.stuck = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow in a thread."""
        self._thread = threading.Thread(target=self._follow, name="stepscope-follow", daemon=True)
        self._thread.start()

    def stop(self, *, timeout_s: float = 1.0) -> None:
        """End reading. ``stuck`` says whether a thread was left behind that waits for a file system."""
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
        threads = [] if self._thread is None else [self._thread]
        if self.log is not None:
            closing = threading.Thread(target=self.log.close, name="stepscope-close", daemon=True)
            closing.start()
            threads.append(closing)
        for thread in threads:
            thread.join(timeout_s)
        self.stuck = any(thread.is_alive() for thread in threads)

    def poll(self, *, timeout_s: float = 0.15, first_s: float = 1.0) -> None:
        """Note that somebody looks and wait a moment for a fresh reading.

        During the first reading it waits for its beginning alone, and never for longer than ``first_s``: the
        answer then holds what was read. A server that has just started imports the reader of the log, and
        each empty answer would take time from that, and be asked for again only after a pause.
        """
        with self._turn:
            now = self.clock()
            self.asked = now
            if self.rounds == 0 and self._thread is not None:
                self._turn.wait_for(lambda: self.rounds > 0 or self._stopping, first_s)
                return
            if not self.complete or now - self.read_at < least_pause(self.cost_s) or self._thread is None:
                return
            wanted = self.begun + 1  # a turn under way may have looked before the last point was written
            self._wanted = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: self.rounds >= wanted or self._stopping, timeout_s)

    def _follow(self) -> None:
        trimmer = Trimmer()
        while not self._stopping:
            wait_s = self.turn()
            if self.rounds == 1:
                prepare()
            trimmer.look(self.clock())
            with self._turn:
                self._turn.wait_for(lambda: self._wanted or self._stopping, wait_s)

    def turn(self) -> float:
        """Read changes, publish them and return the seconds until the next turn. Never raises."""
        with self._turn:
            began = self.clock()
            self.begun += 1
            self._wanted = False
        try:
            self.read()
            self.report_failure(None)
        except (StepscopeError, OSError) as error:
            self.report_failure(str(error))
        except Exception as error:  # noqa: BLE001  the thread must live on, and the page say what is wrong
            import traceback

            traceback.print_exc()
            self.report_failure(f"defect in stepscope while reading: {type(error).__name__}: {error}")
        with self._turn:
            self.read_at = self.clock()
            self.cost_s = self.read_at - began
            self.rounds += 1
            self._turn.notify_all()
            if self.log is not None and not self.complete and self.failure is None:
                return 0.0
            return pause(client_age_s=self.read_at - self.asked, cost_s=self.cost_s)

    def read(self) -> None:
        """Open the log if that has not been done, and read changes."""
        load_store()
        from stepscope import store
        from stepscope.serve.summary import publish
        from stepscope.store.annotations import Notes

        if self.log is None:
            if not self.log_dir.exists():
                self.complete, self.feed.loading = True, None
                return
            self.log = store.open(self._url or self.log_dir, cache=self.cache, load=False)
            self.complete = False
        changes = self.log.refresh(max_seconds=SHOW_EVERY_S)
        if self.notes is None:
            self.notes = Notes(self.log.path)
        publish(self.feed, self.log, changes, self.notes, self.notes.refresh(), now=self.wall())
        self.feed.loading = None if changes.complete else self.log.progress
        self.complete = changes.complete

    def report_failure(self, failure: str | None) -> None:
        """Report once to page and user when reading begins to fail, and when it works again."""
        import msgspec

        from stepscope.serve.summary import problems_of

        problems = [] if failure is None else [Problem("unreadable", 1, None, failure)]
        if self.log is not None:
            problems += problems_of(self.log.problems, self.log)
        exists = self.log_dir.exists()
        self.feed.log = msgspec.structs.replace(self.feed.log, exists=exists, problems=problems)
        if failure != self.failure:
            self.report(failure if failure is not None else "reading works again")
            self.failure = failure


_loading = threading.Lock()


def load_store() -> None:
    """Import the store, one thread at a time: two that begin differently see half-imported modules."""
    with _loading:
        import stepscope.store  # noqa: F401  for those who import from it next


def prepare() -> None:
    """Import the modules that draw charts: a page that now knows the runs makes room for them, then asks."""
    import stepscope.serve.series  # noqa: F401


def copy_of(url: str) -> Path:
    """Return the place of the copy of a log directory in a store, made if it is missing.

    Raises:
        LogDirectoryError: There is nowhere to copy to.
    """
    from stepscope.mirror import copies_home, folder_of  # imports numpy, which no local directory waits for

    place = folder_of(url, copies_home(url))
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LogDirectoryError(
            f"cannot copy a remote directory: {error.strerror or error}",
            hint="name a directory that can be written in XDG_CACHE_HOME",
            path=place,
        ) from error
    return place


def check_log_dir(path: Path) -> None:
    """Refuse a path that can never be served; a missing directory is waited for if its parent exists.

    Raises:
        LogDirectoryError: It is a file, may not be read, or has no parent directory.
    """
    import os

    if path.is_dir():
        if not os.access(path, os.R_OK | os.X_OK):
            raise LogDirectoryError(
                "no permission to read the log directory",
                hint="chmod u+rx it, or run as its owner",
                path=path,
            )
        return
    if path.exists():
        raise LogDirectoryError(
            "not a directory: expected a directory that holds runs, found a file",
            hint=f"serve the directory it lies in: stepscope serve {path.parent}",
            path=path,
        )
    if not path.absolute().parent.is_dir():
        raise LogDirectoryError(
            "no such directory, and none that it could be created in",
            hint="check the spelling; train with stepscope.Run(…) or a TensorBoard writer to create it",
            path=path,
        )
