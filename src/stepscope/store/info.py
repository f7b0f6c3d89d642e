"""Facts of a run, and the state that follows from them and from the time of its last write."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from stepscope.events.processes import pid_namespace, process_stat
from stepscope.files import fitting

GONE_SECONDS = 3.0
"""Seconds to wait after a process has gone, until readers see its record of its end."""
QUIET_SECONDS = 60.0
"""A run that has written nothing for this long is no longer taken to be running."""
BUFFERED_SECONDS = 180.0
"""Seconds by which a file's date may be later than its newest record: TensorBoard's writers hold records back
for 120 s (``flush_secs``). A file with a later date than that was copied, checked out or touched."""

GONE_MARGIN_S = 1.0
"""Seconds by which the clocks of a file system and of this machine may differ."""

MOST_BYTES = 16 << 20
"""Largest size of a run's own facts."""

State = Literal["running", "finished", "failed", "stopped", "stalled", "ended"]


class Unmeasured(NamedTuple):
    """Something that a run was to measure and did not.

    Attributes:
        what: In the plural.
        since: The first step without it.
        why: The cause.
        until: The step from which on it was measured again; None if it was not.
    """

    what: str
    since: int
    why: str
    until: int | None


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Facts about one attempt of a run. Unrecorded facts are None.

    Attributes:
        recorded: Whether the run was recorded by Stepscope; otherwise everything here is inferred.
        labels: The user's words about the run.
        pid_namespace: The machine on which ``pid`` is the number of its process (``events/processes.py``).
        start_ticks: When that process started, in clock ticks since its machine booted.
        started: Wall time in seconds since the epoch.
        problems: Number of points that were not recorded, by reason.
        log_bytes: Sizes of its event files when it ended, by name.
        unmeasured: Measurements that it intended and lacks.
        unmeasured_more: Number of further such statements.
        ended_series: The last step of each series that ended while the training went on.
        hooks: Names of the classes of its hooks, None if it did not record them.
        stack: Of the exception that ended it, as the interpreter prints it.
        console: The last lines that it wrote to its standard streams before it failed or was stopped.
        parent: The run that it belongs to, as it recorded it: a path from its directory, or a name.
        code: ``commit`` of the repository, and the digest of each of the user's own ``files`` that ran.
    """

    recorded: bool = False
    status: str | None = None
    reason: str | None = None
    attempt: int | None = None
    rank: int | None = None
    world_size: int | None = None
    role: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    total_steps: int | None = None
    host: str | None = None
    pid: int | None = None
    pid_namespace: str | None = None
    start_ticks: int | None = None
    python: str | None = None
    command: str | None = None
    started: float | None = None
    ended: float | None = None
    frameworks: dict[str, str] = field(default_factory=dict)
    version: str | None = None
    problems: dict[str, int] = field(default_factory=dict)
    log_bytes: dict[str, int] = field(default_factory=dict)
    unmeasured: tuple[Unmeasured, ...] = ()
    unmeasured_more: int = 0
    ended_series: dict[str, int] = field(default_factory=dict)
    hooks: tuple[str, ...] | None = None
    code: dict[str, Any] = field(default_factory=dict)
    stack: str | None = None
    console: str | None = None
    parent: str | None = None


def parse_info(text: bytes) -> RunInfo | None:
    """Return the facts in the JSON of ``stepscope/run``, None if it is no such JSON.

    A field of another type than expected counts as not recorded: a later schema must not hide a run.
    """
    try:
        decoded = json.loads(text) if len(text) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(decoded, dict):
        return None

    values = fitting(RunInfo, decoded)
    tags, unmeasured = (decoded.get(name) for name in ("tags", "unmeasured"))
    values["labels"] = tuple(map(str, tags)) if isinstance(tags, list) else ()
    rows = filter(_is_unmeasured, unmeasured if isinstance(unmeasured, list) else ())
    return RunInfo(**{**values, "recorded": True, "unmeasured": tuple(map(_unmeasured, rows))})


def _is_unmeasured(fact: object) -> bool:
    return isinstance(fact, dict) and isinstance(fact.get("what"), str) and isinstance(fact.get("since"), int)


def _unmeasured(fact: dict[str, Any]) -> Unmeasured:
    until = fact.get("until")
    why = str(fact.get("why") or "")
    return Unmeasured(fact["what"], fact["since"], why, until if isinstance(until, int) else None)


def state_of(
    info: RunInfo, *, written: float, now: float, alive: bool | None = None
) -> tuple[State, str | None]:
    """Return the state of a run and the reason for it.

    Args:
        info: The facts that it recorded last.
        written: When it last recorded something, seconds since the epoch: :func:`last_sign`.
        now: The present, likewise.
        alive: Whether its process is alive; None if that is unknown, as on another host.
    """
    quiet = now - written
    if info.status == "running":
        if alive is False and quiet >= GONE_SECONDS:
            return "stalled", f"its process is gone, last write {age(quiet)} ago"
        if quiet < QUIET_SECONDS or alive:
            return "running", None
        return "stalled", f"last write {age(quiet)} ago"
    if info.status in get_args(State):
        return info.status, info.reason  # type: ignore[return-value]
    return ("running", None) if quiet < QUIET_SECONDS else ("ended", None)


def last_sign(recorded: float | None, dated: float) -> float:
    """Return when a file last grew, as its newest record says; its date counts only as far as that agrees.

    Args:
        recorded: Wall time of the newest record; None, NaN or 0 if none says a time.
        dated: When the file system says that the file was last written. Both in seconds since the epoch.
    """
    if recorded is None or not recorded > 0:
        return dated
    return dated if dated - recorded <= BUFFERED_SECONDS else recorded


def age(seconds: float) -> str:
    """Return a time span in its largest fitting unit: ``75 s``, ``12 min``, ``5 h``, ``3 days``."""
    for unit, size, until in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < size * until:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds // 86400)} days"


def process_alive(info: RunInfo) -> bool | None:
    """Return whether the process of a run is alive; None if it is on another host or in another container.

    A process that started after the run is a different one with the same number.
    """
    if info.pid is None or info.pid <= 0 or not _is_here(info):
        return None
    with suppress(PermissionError):  # it exists and belongs to somebody else
        try:
            os.kill(info.pid, 0)
        except ProcessLookupError:
            return False
    stat = process_stat(info.pid)
    if stat is not None and stat.is_dead:
        return False
    if stat is not None and info.start_ticks is not None:
        return stat.start_ticks == info.start_ticks
    began = process_began(info.pid)
    return began is None or info.started is None or began < info.started + 1


def _is_here(info: RunInfo) -> bool:
    """Return whether the number of a run's process means the same process to this one."""
    here = pid_namespace()
    if info.pid_namespace is not None and here is not None:
        return info.pid_namespace == here
    return info.host is not None and info.host == socket.gethostname()


class ProcessWatch:
    """Watches the process of one run."""

    def __init__(self) -> None:
        self._gone_at: float | None = None

    def alive(self, info: RunInfo, now: float, written: float) -> bool | None:
        """Return whether it is alive; None also if it continues to write although no such process is seen.

        Containers may share the name of the host and not its processes.

        Args:
            info: The facts that the run recorded.
            now: Seconds since the epoch.
            written: When any of its files was last written, likewise.
        """
        alive = process_alive(info)
        if alive is not False:
            self._gone_at = None
            return alive
        if self._gone_at is None or self._gone_at > now:
            self._gone_at = now
        return None if written > self._gone_at + GONE_MARGIN_S else False


def process_began(pid: int) -> float | None:
    """Return when a process started, seconds since the epoch; None if the system does not say."""
    stat = process_stat(pid)
    if stat is None:
        return None
    try:
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return boot + stat.start_ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
