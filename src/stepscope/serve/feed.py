"""The state of the log directory under version numbers, so that a client gets only the changes.

The follower publishes, the clients ask. Each run is encoded once for all of them, and so is each answer for
clients in the same state.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from stepscope.names.telling import Chart
from stepscope.reading import Progress
from stepscope.serve.encode import encoded
from stepscope.serve.types import LogSummary, RunSummary

KEPT_BODIES = 16
"""Most answers that are kept until something is new; clients that ask once a second know one of a few
versions.
"""


@dataclass
class FeedEntry:
    """One run as last published."""

    summary: RunSummary
    encoded: msgspec.Raw
    version: int
    tags: dict[str, int] = field(default_factory=dict)
    """Version at which each tag last got points."""
    newest: int = 0
    """The highest of them."""


class Feed:
    """Versions of everything a client may know.

    A cursor is the feed's own name and a version. The name is drawn at random, so that the cursor of a server
    that was restarted is told apart and answered with everything.

    Attributes:
        measured: The charts of metrics with a unit, by their tags.
    """

    def __init__(self, log: LogSummary) -> None:
        self.name = secrets.token_hex(4)
        self.lock, self._making = threading.Lock(), threading.Lock()
        self.version = 0
        self.runs: dict[str, FeedEntry] = {}
        self.removed: dict[str, int] = {}
        self.charts = msgspec.Raw(b"[]")
        self.charts_version = 0
        self.measured: dict[str, Chart] = {}
        self.naming: frozenset[str] = frozenset()
        """Settings that only number or name the runs."""
        self.regroups = False
        """Whether settings have come since that was told."""
        self.log = log
        self.loading: Progress | None = Progress(0, 0, 0, 0)
        self._bodies: dict[int, bytes] = {}
        self._bodies_of: tuple[int, LogSummary, Progress | None] | None = None

    def publish(
        self,
        *,
        summaries: Iterable[RunSummary] = (),
        dirty: Mapping[str, Iterable[str]] | None = None,
        removed: Iterable[str] = (),
        charts: Sequence[Chart] | None = None,
    ) -> None:
        """Take in changes; all of them become visible at once.

        Args:
            summaries: Of the runs that are new or changed.
            dirty: Per run the tags with new points; the runs must be known or among the summaries.
            removed: Runs that are gone.
            charts: The changed ones.
        """
        entries = [(summary, msgspec.Raw(encoded(summary))) for summary in summaries]
        encoded_charts = None if charts is None else msgspec.Raw(encoded(charts))
        with self.lock:
            version = self.version + 1
            for name in removed:
                if self.runs.pop(name, None) is not None:
                    self.removed[name] = version
            for summary, text in entries:
                before = self.runs.get(summary.name)
                tags, newest = (before.tags, before.newest) if before else ({}, 0)
                self.runs[summary.name] = FeedEntry(summary, text, version, tags, newest)
                self.removed.pop(summary.name, None)
            for name, tags_now in (dirty or {}).items():
                if name in self.runs:
                    entry = self.runs[name]
                    entry.tags.update(dict.fromkeys(tags_now, version))
                    entry.newest = version
            if encoded_charts is not None and encoded_charts != self.charts:
                self.charts, self.charts_version = encoded_charts, version
                self.measured = {
                    line.tag: chart for chart in charts or () if chart.unit for line in chart.lines
                }
            self.version = version

    def since(self, cursor: str | None, *, now: float) -> bytes:
        """Return the JSON of ``Changes``: the changes since a cursor; everything if it is none of ours."""
        with self._making:  # one at a time: the others then find what the first has made
            return self.kept(cursor, now=now) or timed(self._body(self._start(cursor)), now)

    def kept(self, cursor: str | None, *, now: float) -> bytes | None:
        """Return that answer if it was made before, otherwise None."""
        start = self._start(cursor)
        with self.lock:
            state = (self.version, self.log, self.loading)
            if state != self._bodies_of:
                self._bodies.clear()
                self._bodies_of = state
            body = self._bodies.get(start)
        return None if body is None else timed(body, now)

    def _start(self, cursor: str | None) -> int:
        known = self.version_of(cursor)
        return -1 if known is None else known

    def _body(self, start: int) -> bytes:
        """Return the JSON of the changes since a version, without the time; kept for the next client."""
        with self.lock:
            runs = [entry.encoded for entry in self.runs.values() if entry.version > start]
            # Who knows nothing yet has nothing to ask for again; the tags are in the summaries.
            grown = {} if start < 0 else self.runs
            dirty = {
                name: tags
                for name, entry in grown.items()
                if entry.newest > start
                and (tags := [tag for tag, changed in entry.tags.items() if changed > start])
            }
            state = (self.version, self.log, self.loading)
            message = {
                "cursor": f"{self.name}-{self.version}",
                "reset": start < 0,
                "runs": runs,
                "removed": [name for name, version in self.removed.items() if version > start > -1],
                "dirty": dirty,
                "charts": self.charts if self.charts_version > start else None,
                "log": self.log,
                "loading": self.loading,
            }
        body = encoded(message)
        with self.lock:
            if state == self._bodies_of and len(self._bodies) < KEPT_BODIES:
                self._bodies[start] = body
        return body

    def version_of(self, cursor: str | None) -> int | None:
        """Return the version of a cursor; None if this feed has not given it out."""
        name, _, number = (cursor or "").partition("-")
        if name != self.name or not number.isdecimal() or len(number) > 15 or int(number) > self.version:
            return None
        return int(number)


def timed(body: bytes, now: float) -> bytes:
    """Return an answer with the server's clock."""
    return b'{"time":%s,' % encoded(now) + body[1:]
