"""Requests for a capture, as files in the run's directory, without a daemon or a port.

Whoever wants a profile leaves ``capture/ID.request.json``. Every rank looks for new files every few hundred
milliseconds. For several ranks the chief answers with ``ID.plan.json``, which names a step far enough ahead
that all of them read it in time; for one rank, that rank takes the next step. Each rank leaves the outcome as
``ID.rankN.json``. Requests are written by ``stepscope.store.captures``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from stepscope.capture.keep import read_json
from stepscope.files import write_whole

FOLDER = "capture"
REQUEST, PLAN = ".request.json", ".plan.json"
MOST_STEPS, MOST_SECS = 100, 1e12
PATIENCE_SECS = 10.0
"""How far ahead a plan may lie at most if it is not known how long its steps will be."""
LIFE_SECS = 600.0
"""Age beyond which a request is ignored: whoever asked has gone."""
_ID = re.compile(r"^[0-9a-f]{8,32}$")


@dataclass(frozen=True)
class PendingCapture:
    """A request for a capture.

    Attributes:
        id: Its name, hexadecimal.
        ranks: "chief", "all" or numbers.
        num_steps: Steps to record, 0 for the hook's own number.
        at_step: Step to begin with, None for the next one that all can reach.
        memory: Also take a memory snapshot of the device.
        stacks: Also record Python stacks, whatever the hook does otherwise.
        by: Who asks: "page", "command line".
        wall: When.
    """

    id: str
    ranks: str | tuple[int, ...] = "chief"
    num_steps: int = 0
    at_step: int | None = None
    memory: bool = False
    by: str = ""
    wall: float = 0.0
    stacks: bool = False

    def names(self, rank: int, *, chief: bool) -> bool:
        """Return whether a rank is to capture."""
        if isinstance(self.ranks, str):
            return chief or self.ranks == "all"
        return rank in self.ranks

    @property
    def several(self) -> bool:
        """True if more than one rank may take part, so that they must agree on a step."""
        return self.ranks == "all" or (not isinstance(self.ranks, str) and len(self.ranks) > 1)


def read_request(path: Path) -> PendingCapture | None:
    """Return the request in a file, None if it holds none that can be followed."""
    found = read_json(path)
    ranks = found.get("ranks", "chief")
    if isinstance(ranks, list) and all(isinstance(rank, int) and rank >= 0 for rank in ranks):
        ranks = tuple(ranks)
    elif ranks not in ("chief", "all"):
        return None
    number, at_step = found.get("num_steps", 0), found.get("at_step")
    name = path.name.removesuffix(REQUEST).removesuffix(PLAN)
    if not _ID.match(name) or not isinstance(number, int) or not 0 <= number <= MOST_STEPS:
        return None
    if at_step is not None and not isinstance(at_step, int):
        return None
    wall = found.get("wall", 0.0)
    return PendingCapture(
        name, ranks, number, at_step, found.get("memory") is True, str(found.get("by", ""))[:100],
        float(wall) if isinstance(wall, int | float) and abs(wall) < MOST_SECS else 0.0,
        found.get("stacks") is True,
    )  # fmt: skip


def steps_ahead(steps: Sequence[float], poll_secs: float) -> int:
    """Return how many steps ahead a plan must name, so that every rank reads it before.

    Three polls and a second for the file to show on a network file system; at least two steps, because the
    ranks of a job are at most one step apart where they communicate in each. The time is converted to steps
    by their median, because a single long step says nothing about those to come; but if many are long, as the
    mean shows, nobody waits longer than ``PATIENCE_SECS`` for that.

    Args:
        steps: Durations of the last steps, in seconds.
        poll_secs: Time between two looks of a rank, in seconds.
    """
    known = [seconds for seconds in steps if math.isfinite(seconds) and seconds > 0]
    if not known:
        return 100
    lead, usual, mean = 3 * poll_secs + 1.0, median(known), fmean(known)
    ahead = min(math.ceil(lead / usual), math.ceil(PATIENCE_SECS / mean))
    return max(math.ceil(lead / mean), ahead, 2)


def answer(log_dir: Path, request_id: str, rank: int, facts: Mapping[str, Any]) -> None:
    """Leave the outcome of a request on this rank.

    Raises:
        OSError: The directory cannot be written.
    """
    folder = log_dir / FOLDER
    folder.mkdir(exist_ok=True)
    write_whole(folder / f"{request_id}.rank{rank}.json", json.dumps(dict(facts), default=str).encode())
