"""The profiles that a run captured, and how to request one.

The facts of a profile are JSON: the run's event file holds one for each capture of the chief (tag
``stepscope/profile``), and every rank leaves it beside the profile, as ``profiles/NAME.profile.json``. A
summary lies there too once the side process has made it. A request is a file in ``capture/`` of the run's
directory; each rank leaves the outcome beside it.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import LogDirectoryError, UnknownTagError, UsageError
from stepscope.files import inside, json_object

if TYPE_CHECKING:
    from stepscope.store.log import Log
    from stepscope.store.run import StoredRun

TAG = "stepscope/profile"
FOLDER, ENDING = "profiles", ".profile.json"
REQUESTS, REQUEST, PLAN = "capture", ".request.json", ".plan.json"
MOST_STEPS = 100
MAX_SUMMARY_BYTES = 4 << 20
MOST_NUMBER = 1e300
"""No run writes an integer beyond the range of a float."""


@dataclass(frozen=True)
class Capture:
    """One capture of a run.

    Attributes:
        facts: As the run wrote them; see ``docs/guides/capture.md``.
        summary: The summary by the side process; None until there is one.
    """

    facts: dict[str, Any]
    summary: dict[str, Any] | None = field(default=None, compare=False)

    @property
    def order(self) -> tuple[float, int]:
        """The sort key of captures: time, then rank."""
        return number(self.facts.get("wall")), int(number(self.facts.get("rank")))


def captures(run: StoredRun, directory: Path, log: Log) -> list[Capture]:
    """Return the captures of a run, the newest first, failed ones included.

    Args:
        run: The run.
        directory: Its directory.
        log: The log that it belongs to.
    """
    by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    for facts in [*recorded(run), *beside(directory)]:
        key = facts.get("rank"), facts.get("name"), facts.get("failure"), facts.get("path")
        known = by_key.get(key)
        if known is None or facts.get("cost"):  # the pointer is written again once its cost is known
            by_key[key] = facts
    made = [
        Capture(facts, summary_of(facts, directory))
        for facts in by_key.values()
        if still_there(facts, directory, log)
    ]
    return sorted(made, key=lambda capture: capture.order, reverse=True)


def recorded(run: StoredRun) -> list[dict[str, Any]]:
    """Return the captures that the event files mention."""
    try:
        series = run.record(TAG)
    except UnknownTagError:
        return []
    return [
        facts for records in series for at in range(len(records)) if isinstance(facts := records[at], dict)
    ]


def stolen_seconds(run: StoredRun) -> float | None:
    """Return how much longer a run's captures made its training, in seconds; None if none of them says."""
    parts = [part for writer in run.writers for source in writer.every_source for part in source.parts]
    if not any(TAG in part.records for part in parts):
        return None
    shares = []
    for records in run.record(TAG):  # the account of an attempt goes on from capture to capture
        costs = (
            facts.get("cost")
            for at in reversed(range(len(records)))
            if isinstance(facts := records[at], dict)
        )
        sums = (cost.get("run_stolen_seconds") for cost in costs if isinstance(cost, dict))
        shares += [next((number(value) for value in sums if value is not None), None)]
    known = [value for value in shares if value is not None]
    return sum(known) if known else None


def beside(directory: Path) -> list[dict[str, Any]]:
    """Return the captures that files beside the profiles describe."""
    return [
        facts for path in sorted((directory / FOLDER).glob(f"*{ENDING}")) if (facts := read(path)) is not None
    ]


def newest_of_run(directory: Path) -> tuple[Capture | None, str]:
    """Return the newest profile of a run, None if it has none, and a note that says which it is.

    If several ranks captured the same step, it is the lowest rank's.

    Args:
        directory: Of the run.
    """
    made = [
        Capture(facts)
        for facts in beside(directory)
        if isinstance(facts.get("path"), str) and still_there(facts, directory)
    ]
    if not made:
        return None, ""
    last = max(made, key=lambda capture: capture.order)
    same = [capture for capture in made if _together(capture, last)]
    chosen = min(same, key=lambda capture: capture.order[1])
    others = len(same) - 1
    which = f"showing {chosen.facts['path']}"
    which += f", the newest of {len(made)} profiles of the run" * (len(made) > 1)
    which += f"; {others} other rank{'s' * (others > 1)} captured the same steps" * (others > 0)
    return chosen, which


def _together(one: Capture, other: Capture) -> bool:
    """Return whether two ranks captured the same steps in the same attempt."""
    apart = abs(one.order[0] - other.order[0])
    return one.facts.get("steps") == other.facts.get("steps") and apart <= _SAME_CAPTURE_SECONDS


_SAME_CAPTURE_SECONDS = 600
"""Seconds between profiles of the same steps: ranks end a capture together, but write it at their own
pace.
"""


def still_there(facts: dict[str, Any], directory: Path, log: Log | None = None) -> bool:
    """Return whether a profile still exists, here or in the store that the directory is a copy of.

    The oldest are deleted; a failure has no file to lose.
    """
    path = facts.get("path")
    if not isinstance(path, str) or (directory / path).exists():
        return True
    if log is None or log.mirror is None:
        return False
    name, there = os.path.relpath(directory / path, log.path).replace(os.sep, "/"), log.mirror.elsewhere
    return name in there or any(path.startswith(f"{name}/") for path in there)


def summary_of(facts: dict[str, Any], directory: Path) -> dict[str, Any] | None:
    """Return the summary of a capture, None if there is none inside the run's directory."""
    path = facts.get("summary")
    if not isinstance(path, str):
        return None
    place = (directory / path).resolve()
    return read(place) if place.is_relative_to(directory.resolve()) else None


def read(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, None if there is none."""
    return json_object(path, MAX_SUMMARY_BYTES)


def number(value: Any) -> float:
    """Return a number, 0 if there is none."""
    return float(value) if isinstance(value, int | float) and abs(value) < MOST_NUMBER else 0.0


# --- asking --------------------------------------------------------------------------------------------


def listens(directory: Path) -> bool:
    """Return whether a hook of the run has ever looked for requests."""
    return (directory / REQUESTS).is_dir()


def ask(
    directory: Path,
    *,
    ranks: str | Sequence[int] = "chief",
    num_steps: int = 0,
    at_step: int | None = None,
    memory: bool = False,
    stacks: bool = False,
    by: str = "",
) -> str:
    """Ask a running program for a capture and return the request's id.

    Args:
        directory: The run's directory.
        ranks: "chief", "all" or numbers.
        num_steps: Steps to record; 0 for the number that its hook is set to.
        at_step: The step to begin with; None for the next that all ranks can reach.
        memory: Also take a snapshot of the device's memory.
        stacks: Also record Python stacks, which say in which line time goes; steps take longer meanwhile.
        by: Who requests it, shown on the page.

    Raises:
        UsageError: A number out of range.
        LogDirectoryError: The directory cannot be written, or a link leads out of it.
    """
    if not isinstance(ranks, str):
        ranks = sorted(set(ranks))
    if ranks not in ("chief", "all") and not (
        ranks and all(isinstance(rank, int) and rank >= 0 for rank in ranks)
    ):
        raise UsageError(
            f'ranks are "chief", "all" or numbers from 0, got {ranks!r:.60}',
            hint='pass "chief" for one profile, or [0, 1] for two ranks',
        )
    if not 0 <= num_steps <= MOST_STEPS:
        raise UsageError(
            f"steps must be from 1 to {MOST_STEPS}, got {num_steps}",
            hint="capture a few steps: 3 are enough for most questions",
        )
    name = secrets.token_hex(6)
    facts = {
        "id": name, "ranks": ranks, "num_steps": num_steps, "at_step": at_step, "memory": memory,
        "stacks": stacks, "by": by, "wall": time.time(),
    }  # fmt: skip
    folder = directory / REQUESTS
    inside(directory, folder / name)
    try:
        folder.mkdir(exist_ok=True)
        part = folder / f".{name}.{os.getpid()}"
        part.write_text(json.dumps(facts), encoding="utf-8")
        part.replace(folder / f"{name}{REQUEST}")
    except OSError as error:
        raise LogDirectoryError(
            f"cannot leave a request in the run: {error.strerror or error}",
            hint="ask as the user who trains, on a machine where the directory can be written",
            path=folder,
        ) from error
    return name


def planned_step(directory: Path, request: str) -> Any:
    """Return the step that the chief named for a request of several ranks, None if it named none."""
    return (read(directory / REQUESTS / f"{request}{PLAN}") or {}).get("at_step")


def answers(directory: Path, request: str) -> dict[int, dict[str, Any]]:
    """Return the outcome of a request, by rank."""
    replies = {}
    for path in (directory / REQUESTS).glob(f"{request}.rank*.json"):
        rank = path.name.removeprefix(f"{request}.rank").removesuffix(".json")
        if rank.isdecimal() and (facts := read(path)) is not None:
            replies[int(rank)] = facts
    return replies
