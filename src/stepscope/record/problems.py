"""Problems of recording: always counted, reported once per reason, raised only in strict mode."""

from __future__ import annotations

import os
import reprlib
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Protocol

from stepscope.errors import StepscopeError
from stepscope.record import messages
from stepscope.text import counted


@dataclass(frozen=True)
class Site:
    """A line of the user's code."""

    file: str
    line: int
    module: str
    registry: dict[Any, Any] = field(repr=False, compare=False)


TRAINERS = frozenset(("accelerate", "keras", "lightning", "pytorch_lightning", "torch", "transformers"))
"""Packages whose loops call this one: one of their lines would tell the user nothing."""


def user_site() -> Site | None:
    """Return the innermost line outside this package and the trainers that call it.

    None if there is none, as at exit.
    """
    frame = outside = outside_package(sys._getframe(1))
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in TRAINERS:
        frame = frame.f_back
    frame = frame or outside
    if frame is None or frame.f_globals.get("__name__") == "threading":
        return None
    names = frame.f_globals
    module = str(names.get("__name__") or "<user>")
    return Site(frame.f_code.co_filename, frame.f_lineno, module, names.setdefault("__warningregistry__", {}))


def outside_package(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of other code."""
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


# The frames' own spelling of the path, which need not be absolute.
PACKAGE = os.path.dirname(os.path.dirname(user_site.__code__.co_filename)) + os.sep  # noqa: PTH120


def strict() -> bool:
    """Return whether a problem is raised in the user's code instead of warned about and counted."""
    return os.environ.get("STEPSCOPE_STRICT", "") not in ("", "0")


NO_POINTS = ("alert", "callback", "hook", "overlap", "role", "writer")
"""Reasons whose failures do not lose a point."""


def pass_on(error: BaseException) -> None:
    """Raise an exception that ends the program, as ``SystemExit``, unless this is a thread of the recorder.

    There it would end that thread alone, and with it all recording.
    """
    if not isinstance(error, Exception) and not threading.current_thread().name.startswith(OWN_THREADS):
        raise error


OWN_THREADS = "stepscope-"
"""Beginning of the names of the recorder's threads."""


class Reporter(Protocol):
    """A receiver of problems: a run, or ``Problems`` alone if there is no run yet."""

    def report(self, reason: str, error: StepscopeError, *, points: int = 1, later: bool = False) -> None:
        """Count a failure and warn once, at the user's line; see ``Run.report``."""


elsewhere: Callable[[str], None] | None = None
"""Takes the warnings of all runs of the process, in place of the standard error."""
MAX_UNSAID = 100
"""Warnings that wait until standard error takes them; of more, the newest. All are counted."""


class Problems:
    """The problems of one run.

    ``tell`` is for the thread that logs; ``post`` is for the writer's thread, whose problems are told by the
    next call that the user makes (``deliver``), so that the warning points at a line of theirs.
    """

    def __init__(self, home: Site | None = None) -> None:
        self.counts: dict[str, int] = {}
        self._home = home
        self._told: set[str] = set()
        self._waiting: deque[tuple[str, StepscopeError, Site | None]] = deque()
        self._unsaid: deque[tuple[str, Site | None]] = deque(maxlen=MAX_UNSAID)
        self._lock = threading.RLock()  # re-entrant: a signal handler may log in the middle of another call

    def forget(self) -> None:
        """Start over in a forked child: the counts are the parent's, and the lock may be held for ever."""
        self.__init__(self._home)  # type: ignore[misc]

    @property
    def lost(self) -> int:
        """Points that the user logged and that no file holds."""
        return sum(points for reason, points in self.counts.items() if reason not in NO_POINTS)

    @property
    def waiting(self) -> bool:
        """True if the writer's thread has something to tell."""
        return bool(self._waiting)

    def count(self, reason: str, points: int = 1) -> None:
        """Count lost points under a reason."""
        with self._lock:
            self.counts[reason] = self.counts.get(reason, 0) + points

    def report(self, reason: str, error: StepscopeError, *, points: int = 1, later: bool = False) -> None:
        """Count a failure and warn once; ``later`` from any thread but the user's."""
        (self.post if later else self.tell)(reason, error, points=points)

    def tell(self, reason: str, error: StepscopeError, *, points: int = 1) -> None:
        """Count, then raise in strict mode or warn the first time.

        Args:
            reason: A word under which the points are counted.
            error: The exception to raise, or the text.
            points: Points lost to it; 0 if none is.
        """
        if points:
            self.count(reason, points)
        self._say(reason, error)

    def post(self, reason: str, error: StepscopeError, *, points: int = 1, site: Site | None = None) -> None:
        """Count now; warn at the user's next call, naming the line that logged it if that is known."""
        if points:
            self.count(reason, points)
        if reason not in self._told and all(reason != other for other, _, _ in self._waiting):
            self._waiting.append((reason, error, site))

    def post_warning(self, text: str) -> None:
        """Warn at the user's next call of something that the run shows, not of a failure to record."""
        self._waiting.append(("", StepscopeError(text), None))

    def deliver(self) -> None:
        """Issue the warnings that the writer's thread has posted, and those that nobody was there to read."""
        while self._unsaid and messages.ready():
            self.warn(*self._unsaid.popleft())
        while self._waiting:
            reason, error, site = self._waiting.popleft()
            if reason:
                self._say(reason, error, site)
            else:
                self.warn(str(error))

    def forgive(self, reason: str) -> None:
        """Let a reason warn again after its cause has gone."""
        self._told.discard(reason)

    def _say(self, reason: str, error: StepscopeError, site: Site | None = None) -> None:
        if strict():
            raise error
        if reason in self._told:
            return
        self._told.add(reason)
        counted = f"\nfurther ones are only counted: see Run.problems, reason {reason!r}"
        self.warn(f"{error}{counted if reason in self.counts else ''}", site)

    def warn(self, text: str, site: Site | None = None) -> None:
        """Warn at a line of the user's, by default the present one.

        It never raises, not even as an error, and never waits: if nobody reads the warnings, they are given
        later.
        """
        if elsewhere is not None:
            elsewhere(text.replace("\nhint: ", "; ").partition("\n")[0])  # a card has one line for each
            return
        site = site or user_site() or self._home
        if not messages.ready():
            self._unsaid.append((text, site))
            return
        text = messages.shortened(f"stepscope: {text}")
        try:
            if site is None:
                warnings.warn(text, RuntimeWarning, stacklevel=1)
            else:
                warnings.warn_explicit(text, RuntimeWarning, site.file, site.line, site.module, site.registry)
        except Warning as warning:
            messages.write(f"{site.file if site else '?'}:{site.line if site else 0}: {warning}")


def shown(value: object) -> str:
    """Return type and value for a message; only the type if a repr may be long or wait for a device."""
    name = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"{name} of {value.bit_length()} bits"  # Python refuses to print really long ones
    if isinstance(value, str | bytes | int | float):
        return f"{name} {reprlib.repr(value)}"
    return (
        f"{name} of {counted(len(value), 'item')}" if isinstance(value, list | tuple | set | dict) else name
    )


class RefusalError(ValueError):
    """Why a point is refused, on its way to the place that knows the tag and tells the user.

    Args:
        reason: Under which it is counted.
        message: The given value, for the end of a sentence.
        hint: The next action.
    """

    def __init__(self, reason: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.reason, self.found, self.hint = reason, message, hint
