"""Open profiles: read once, kept while memory allows, the least recently used forgotten first."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from stepscope.analyze.advise import Advice, Facts, advise
from stepscope.analyze.chosen import keep_steps
from stepscope.analyze.ranks.together import together
from stepscope.attribute.sampled import Sampled
from stepscope.errors import LogDirectoryError, TraceError
from stepscope.files import run_directory
from stepscope.lru import Lru
from stepscope.serve import routes
from stepscope.serve.memory import trim
from stepscope.serve.profiles.category import categories
from stepscope.serve.profiles.reader import ProfileReader
from stepscope.serve.profiles.tracks import Track, tracks
from stepscope.serve.profiles.types import ReadingProgress
from stepscope.serve.reply import Refusal, refusing
from stepscope.serve.routes import LARGEST, Backend, provide
from stepscope.store import Log
from stepscope.trace import Trace, load_trace
from stepscope.trace.cache import load_cached
from stepscope.trace.ranks import with_rank_of
from stepscope.trace.rectangles import Timeline
from stepscope.trace.sampled import load_samples
from stepscope.trace.set import parts_of, stamp
from stepscope.trace.tfprof import Profile as TfprofProfile
from stepscope.trace.tfprof import find_profile

Answer = TypeVar("Answer")
MAX_PIXELS = 8192
KEPT_ANSWERS = 12
"""Most answers of one profile that are kept."""
PATH = "a profile, relative to the log directory"
KEPT_BYTES = 1 << 30
"""Bytes of open traces, with their indexes, besides the one in use."""
KEPT_S = 600.0
"""Seconds without a question after which a profile is forgotten; reopening it takes its cache file."""

Number = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Steps = Annotated[str, Meta(description="the steps to count, such as 3-5,9; default: all")]
Start = Annotated[
    Number | None, Meta(description="first nanosecond of the window; default: that of the profile")
]
End = Annotated[
    Number | None, Meta(description="last nanosecond of the window; default: that of the profile")
]
Lanes = Annotated[list[int] | None, Meta(description="numbers of lanes, separated by commas; default: all")]
Pixels = Annotated[int, Meta(ge=1, le=MAX_PIXELS, description="width of the picture")]


def command(*words: str, **options: str) -> str:
    """Return the command that shows the same in a terminal, without options that are empty."""
    given = {f"--{name.replace('_', '-')}": value for name, value in options.items() if value}
    return shlex.join(["stepscope", *words, *(word for option in given.items() for word in option)])


class locked(cached_property[Answer]):  # noqa: N801  a decorator
    """A value of a profile that is computed once, by one thread."""

    def __get__(self, profile: Any, owner: type | None = None) -> Answer:  # type: ignore[override]
        with profile._lock:
            return cast(Answer, super().__get__(profile, owner))


class OpenProfile:
    """One open profile; repeated questions are computed once.

    Args:
        path: Relative to the log directory.
        trace: Its events.
        place: Its path, if it is a file or directory.
        reader: Reads files in a separate process; None for this one.

    Attributes:
        recorded: The events at the times that each rank's own clock showed.
        trace: Those of several ranks on one clock, as far as that can be told; else as recorded.
        used: When it was asked for last.
    """

    def __init__(
        self, path: str, trace: Trace, place: Path | None = None, *, reader: ProfileReader | None = None
    ) -> None:
        self.path, self.recorded, self.place, self._reader = path, trace, place, reader
        self.trace = together(trace)
        self._lock = threading.RLock()
        self._answers: Lru[tuple[str, ...], tuple[object]] = Lru(KEPT_ANSWERS)
        self.used = time.monotonic()

    def chosen(self, steps: str) -> Trace:
        """Return the trace with some of its steps marked, as :func:`keep_steps` reads them.

        Raises:
            UsageError: No such steps.
        """
        if not steps:
            return self.trace
        return self.once(("steps", steps), lambda: keep_steps(self.trace, steps))

    def window(self, start: int | None, end: int | None) -> tuple[int, int]:
        """Return a window, which by default is all of the profile."""
        return self.start_ns if start is None else start, self.end_ns if end is None else end

    def once(self, key: tuple[str, ...], make: Callable[[], Answer]) -> Answer:
        """Return the cached result of ``make`` for this key, made now if there is none."""
        with self._lock:
            known = self._answers.get(key)
            if known is None:
                known = (make(),)
                self._answers.put(key, known)
            return known[0]  # type: ignore[return-value]

    @locked
    def tfprof(self) -> TfprofProfile | None:
        """The profile as tfprof sees it, if it is one of tfprof's own."""
        read = find_profile(self.place) if self.place is not None else None
        if read is not None and self._reader is not None and self.place is not None:
            self._reader.check_tfprof(self.place)
        return read() if read is not None else None

    @property
    def nbytes(self) -> int:
        """Memory it takes: the trace, 30 bytes an event for the index, 1 for the categories."""
        return self.trace.nbytes + 31 * len(self.trace)

    @locked
    def timeline(self) -> Timeline:
        """The index for drawing."""
        return Timeline(self.trace)

    @locked
    def category(self) -> npt.NDArray[np.uint8]:
        """Category of every event."""
        return categories(self.trace)

    @locked
    def tracks(self) -> tuple[Track, ...]:
        """Memory, counters and tensors over time."""
        return tracks(self.trace)

    @locked
    def facts(self) -> Facts:
        """The facts that rules judge, the steps' breakdown among them."""
        return Facts(self.trace)

    @locked
    def advice(self) -> Advice:
        return advise(self.facts)

    @property
    def sampled(self) -> dict[int, Sampled]:
        """Stacks of training threads that were sampled beside the profile, by rank."""
        return self.once(
            ("sampled",),
            lambda: {rank: Sampled(samples) for rank, samples in load_samples(self.trace).items()},
        )

    @cached_property
    def end_ns(self) -> int:
        """End of the last event."""
        return int(self.trace.end_ns.max()) if len(self.trace) else 0

    @cached_property
    def start_ns(self) -> int:
        """Start of the first event."""
        return int(self.trace.start_ns.min()) if len(self.trace) else 0


class Profiles:
    """The open profiles of a log directory.

    Args:
        directory: The log directory.
        cache: Whether columns may be kept in cache files.
        kept_bytes: Bound of the memory that profiles not in use take.
        kept_s: Seconds after its last use when a profile is forgotten.
        reader: Reads files in a separate process; None for this one.
        log: Gives the log, of which some files may be in a store alone; None while it is not open.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cache: bool = True,
        kept_bytes: int = KEPT_BYTES,
        kept_s: float = KEPT_S,
        reader: ProfileReader | None = None,
        log: Callable[[], Log | None] = lambda: None,
    ) -> None:
        self.directory, self.cache, self.kept_s = directory, cache, kept_s
        self._log = log
        self._reader = reader
        self._rest: threading.Timer | None = None
        self._open: Lru[tuple[str, int], OpenProfile] = Lru(kept_bytes, lambda profile: profile.nbytes)
        self._lock = threading.Lock()
        self._reading: dict[str, threading.Lock] = {}
        self._places: dict[str, Path] = {}  # of profiles that are being read

    @classmethod
    def of_backend(cls, backend: Backend) -> Profiles:
        """Return those of a server, which reads them in a process of its own."""
        reader = ProfileReader() if backend.in_server else None
        return cls(backend.directory, cache=backend.cache, reader=reader, log=backend.read)

    def close(self) -> None:
        """End the process that reads profiles."""
        if self._reader is not None:
            self._reader.close()

    def get(self, path: str) -> OpenProfile:
        """Return a profile, read now if it is not open.

        Raises:
            Refusal: No such profile below the log directory, or one that cannot be read.
        """
        place = self._place(path)
        self._fetch(path)
        try:
            changed = stamp(place)
        except OSError:
            raise Refusal(404, f"no such profile: {path}", "ask api/v1/profiles for what is there") from None
        with self._lock:
            turn = self._reading.setdefault(path, threading.Lock())
        with turn:  # two tabs that open one profile read it once
            opened = self._open.get((path, changed))
            if opened is not None:
                opened.used = time.monotonic()
                return opened
            self._places[path] = place
            try:
                profile = OpenProfile(path, self._read(place), place, reader=self._reader)
            finally:
                del self._places[path]
            self._keep((path, changed), profile)
            return profile

    def _fetch(self, path: str) -> None:
        """Copy the files of a profile from the store, if they are not here yet."""
        log = self._log()
        if log is None or log.mirror is None or not (names := parts_of(path, log.mirror.elsewhere)):
            return
        with refusing({LogDirectoryError: 422}):
            log.mirror.fetch(names)

    @routes.get("profile/reading")
    async def progress(self, path: Annotated[str, Meta(description=PATH)]) -> ReadingProgress:
        """Return how far the reading of a profile is.

        On the event loop: all threads may wait for the reading.
        """
        place = self._places.get(path)
        progress = self._reader.progress(place) if self._reader is not None and place is not None else None
        return progress or ReadingProgress("idle", 0, 0)

    def _read(self, place: Path) -> Trace:
        with refusing({TraceError: 422}):
            if self._reader is None:
                return load_trace(place, cache=self.cache)
            cached = load_cached(place) if self.cache and place.is_file() else None
            return with_rank_of(cached, place) if cached else self._reader.read(place, cache=self.cache)

    def _place(self, path: str) -> Path:
        """Return the file, refused if it leaves the log directory or its run's, links followed.

        A run may be a link to a directory elsewhere, which the log follows; another link may not lead out.
        """
        root = self.directory.resolve()
        try:
            place = (root / path).resolve()
            inside = place.is_relative_to(root) or any(
                map(place.is_relative_to, self._linked_runs(path, root))
            )
        except (OSError, ValueError, RuntimeError):
            raise Refusal(400, "not a path", "ask api/v1/profiles for what is there") from None
        if not path or not inside:
            raise Refusal(
                403, "a profile must lie under the log directory", "ask api/v1/profiles for what is there"
            )
        return place

    def _linked_runs(self, path: str, root: Path) -> Iterator[Path]:
        """Yield the directories elsewhere of the runs that a path names."""
        log = self._log()
        if ".." in path.split("/"):
            return
        for run in log.runs() if log is not None else ():
            if path.startswith(f"{run.name}/"):
                yield run_directory(root, run.name).resolve()

    def _keep(self, key: tuple[str, int], profile: OpenProfile) -> None:
        with self._lock:
            self._open.remove(*(known for known, _ in self._open.items() if known[0] == key[0]))
            self._open.put(key, profile)
            if self._rest is None:
                self._look_in(self.kept_s)

    def _look_in(self, seconds: float) -> None:
        self._rest = threading.Timer(seconds, self._forget_unused)
        self._rest.daemon = True
        self._rest.start()

    def _forget_unused(self) -> None:
        """Release expired profiles, with their memory; look again when the next expires."""
        with self._lock:
            began, self._rest = time.monotonic() - self.kept_s, None
            self._open.remove(*(key for key, profile in self._open.items() if profile.used <= began))
            if self._open:
                self._look_in(max(min(profile.used for _, profile in self._open.items()) - began, 0.01))
        trim()


provide(OpenProfile, lambda backend, path: backend.part(Profiles).get(path), PATH, names={"profile": "path"})
