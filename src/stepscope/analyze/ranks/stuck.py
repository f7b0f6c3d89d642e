"""The place of each rank when a job's steps stalled, and which ranks are elsewhere than the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StuckRank:
    """A rank whose step did not end.

    Attributes:
        stage: The stage that ran; None between steps or if it is not known.
        place: Innermost frame of the thread that trains, as ``function (file:line)``.
        line: Innermost line outside of installed packages, as ``file:line``; None if there is none.
        elsewhere: Whether most of the ranks are in another place.
    """

    rank: int
    host: str
    step: int | None
    stage: str | None
    stalled_s: float
    place: str
    line: str | None
    elsewhere: bool
    threads: list[dict[str, Any]]


def stuck_ranks(documents: Iterable[Mapping[str, Any]]) -> tuple[StuckRank, ...]:
    """Return the stalled ranks in order, ignoring other files.

    A rank is elsewhere if more than half of the ranks are in one place and it is not.
    """
    known = [facts for facts in documents if _whole(facts)]
    places = [_place(facts["threads"]) for facts in known]
    common = Counter(place for place, _ in places).most_common(1)
    most = common[0][0] if common and 2 * common[0][1] > len(known) and len(known) > 2 else None
    stuck = [
        StuckRank(
            facts["rank"], str(facts.get("host", "")), facts.get("step"), facts.get("stage"),
            float(facts.get("stalled_s", 0.0)), place, line, most is not None and place != most,
            facts["threads"],
        )
        for facts, (place, line) in zip(known, places, strict=True)
    ]  # fmt: skip
    return tuple(sorted(stuck, key=lambda rank: rank.rank))


def _whole(facts: Mapping[str, Any]) -> bool:
    threads = facts.get("threads")
    return (
        isinstance(facts.get("rank"), int)
        and isinstance(threads, list)
        and bool(threads)
        and all(isinstance(thread, dict) and isinstance(thread.get("frames"), list) for thread in threads)
        and all(isinstance(frame, dict) for thread in threads for frame in thread["frames"])
    )


def _place(threads: list[dict[str, Any]]) -> tuple[str, str | None]:
    frames = threads[0]["frames"]
    if not frames:
        return "no Python code", None
    last = frames[-1]
    own = [frame for frame in frames if "site-packages" not in str(frame.get("file"))]
    line = f"{own[-1].get('file')}:{own[-1].get('line')}" if own else None
    return f"{last.get('function')} ({last.get('file')}:{last.get('line')})", line
