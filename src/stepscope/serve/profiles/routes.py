"""The endpoints of profiles: what they are asked, and which part answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.datastructures import QueryParams

from stepscope.serve.encode import encoded
from stepscope.serve.integers import whole
from stepscope.serve.profiles import draw
from stepscope.serve.profiles.compare import compare
from stepscope.serve.profiles.event import event
from stepscope.serve.profiles.find import Finder
from stepscope.serve.profiles.history import over_time
from stepscope.serve.profiles.job import job
from stepscope.serve.profiles.kernels import kernels
from stepscope.serve.profiles.levels import levels
from stepscope.serve.profiles.memory import memory
from stepscope.serve.profiles.open_profiles import OpenProfile, Profiles
from stepscope.serve.profiles.outline import outline
from stepscope.serve.profiles.range import within
from stepscope.serve.profiles.reader import ProfileReader
from stepscope.serve.profiles.spans import events_csv
from stepscope.serve.profiles.summary import summary
from stepscope.serve.profiles.tree import tree
from stepscope.serve.profiles.types import DiffAnswer, ProfileList, SearchAnswer
from stepscope.serve.profiles.waits import gaps, waits
from stepscope.serve.profiles.work import critical, overlaps, shapes
from stepscope.serve.reply import Refusal

if TYPE_CHECKING:
    from stepscope.store import Log

JSON, BINARY = "application/json", "application/octet-stream"
DEFAULT_HITS = 2_000


class ProfileAnswers:
    """Answers the requests about profiles.

    Args:
        directory: The log directory.
        cache: Whether traces may be cached beside their files.
        reader: Reads files in a separate process; None for this one.
        log: Gives the log, of which some files may be in a store alone; None while it is not open.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cache: bool = True,
        reader: ProfileReader | None = None,
        log: Callable[[], Log | None] = lambda: None,
    ) -> None:
        self.finder = Finder(directory, log)
        self.open = Profiles(directory, cache=cache, reader=reader, log=log)
        self._answers: dict[str, Callable[[OpenProfile, QueryParams], Any]] = {
            "profile": lambda profile, query: summary(profile),
            "timeline": _timeline,
            "event": lambda profile, query: event(profile, whole(query, "row")),
            "search": _search,
            "outline": lambda profile, query: outline(profile),
            "tracks": _tracks,
            "range": lambda profile, query: within(
                profile, whole(query, "start"), whole(query, "end"), numbers(query)
            ),
            "view": _view,
            "kernels": lambda profile, query: kernels(profile, query.get("steps", "")),
            "shapes": lambda profile, query: shapes(profile, query.get("steps", "")),
            "ranks": lambda profile, query: job(profile),
            "waits": lambda profile, query: waits(
                profile,
                whole(query, "start", profile.start_ns),
                whole(query, "end", profile.end_ns),
                whole(query, "most", 300),
            ),
            "gaps": lambda profile, query: gaps(
                profile,
                whole(query, "start", profile.start_ns),
                whole(query, "end", profile.end_ns),
                whole(query, "most", 100),
            ),
            "overlap": lambda profile, query: overlaps(profile, query.get("steps", "")),
            "path": lambda profile, query: critical(
                profile, query.get("steps", ""), whole(query, "pieces", 2000)
            ),
            "memory": lambda profile, query: memory(
                profile, query.get("steps", ""), whole(query, "points", 800)
            ),
        }
        self._wholes: dict[str, Callable[[QueryParams], Any]] = {
            "diff": self._diff,
            "history": lambda query: over_time(
                self.open, query.getlist("path"), query.get("by", "operators")
            ),
        }

    def answer(self, name: str, query: QueryParams, runs: list[str]) -> tuple[bytes, str]:
        """Return the body and media type of an answer.

        Args:
            name: The endpoint.
            query: What is asked.
            runs: Names of the runs.

        Raises:
            Refusal: It cannot be answered.
        """
        if name == "profiles":
            entries, looked_at = self.finder.find(runs)
            return encoded(ProfileList(entries, looked_at)), JSON
        if name in self._wholes:
            return encoded(self._wholes[name](query)), JSON
        found = self._answers[name](self.open.get(query.get("path", "")), query)
        return (found, BINARY) if isinstance(found, bytes) else (encoded(found), JSON)

    def events(self, query: QueryParams) -> Iterator[bytes]:
        """Return the pieces of a CSV of every event of a window.

        Raises:
            Refusal: It cannot be answered.
        """
        profile = self.open.get(query.get("path", ""))
        start, end = whole(query, "start", profile.start_ns), whole(query, "end", profile.end_ns)
        return events_csv(profile, start, end, numbers(query))

    def _diff(self, query: QueryParams) -> DiffAnswer:
        a, b = (self.open.get(query.get(side, "")) for side in "ab")
        return compare(a, b, query.get("steps_a", ""), query.get("steps_b", ""))


def _timeline(profile: OpenProfile, query: QueryParams) -> bytes:
    start, end = whole(query, "start", profile.start_ns), whole(query, "end", profile.end_ns)
    return draw.timeline(profile, start, end, whole(query, "pixels", 1000), numbers(query))


def _search(profile: OpenProfile, query: QueryParams) -> SearchAnswer:
    start = whole(query, "start") if "start" in query else None
    limit, skip = whole(query, "limit", DEFAULT_HITS), whole(query, "skip", 0)
    return draw.search(profile, query.get("q", ""), limit, skip=skip, start_ns=start)


def _tracks(profile: OpenProfile, query: QueryParams) -> bytes:
    start, end = whole(query, "start", profile.start_ns), whole(query, "end", profile.end_ns)
    return levels(profile, start, end, whole(query, "pixels", 1000), numbers(query, "tracks"))


def _view(profile: OpenProfile, query: QueryParams) -> Any:
    given = {name: value for name, value in query.items() if name not in ("path", "view", "steps")}
    return tree(profile, query.get("view", "scope"), given, query.get("steps", ""))


def numbers(query: QueryParams, name: str = "lanes") -> list[int] | None:
    """Return the lanes, or whatever else has numbers, that are asked for; None for all."""
    text = query.get(name)
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        raise Refusal(400, f"{name} is {text!r:.40}: expected numbers", f"{name}=0,1,2") from None
