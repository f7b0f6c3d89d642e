"""``stepscope ls --ranks``: one line per rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepscope.cli.output import aligned
from stepscope.health.finding import plain
from stepscope.store.info import age
from stepscope.text import duration, number, size

if TYPE_CHECKING:
    from stepscope.store import Log
    from stepscope.store.ranks import Rank

HEAD = [
    *("RUN", "RANK", "ROLE", "ATTEMPT", "STATE", "STEP", "STEP TIME", "DATA WAIT"),
    *("LOSS", "NON-FINITE", "MEMORY", "DEVICE", "UPDATED", "HOST"),
]
RIGHT = {3, 5, 6, 7, 8, 9, 10, 11}


def table_of_ranks(log: Log, *, now: float) -> str:
    """Return one line per rank of every run that has several."""
    rows = [HEAD]
    for run in filter(lambda run: run.ranks.several, log.runs()):
        rows += [[run.name, *line_of(rank, now)] for rank in run.ranks.members(now=now)]
    return aligned(rows, right=RIGHT)


def line_of(rank: Rank, now: float) -> list[str]:
    """Return one rank as text; unrecorded values are a dash."""
    digest = rank.digest
    return [
        rank.label,
        rank.role or "-",
        str(rank.attempts[-1]),
        rank.state,
        "-" if digest.last_step is None else f"{digest.last_step:,}",
        duration(digest.median_step_s),
        "-" if digest.wait_ratio is None else f"{100 * digest.wait_ratio:.1f} %",
        "-" if digest.loss is None else number(digest.loss),
        f"{digest.nonfinite:,}" if digest.nonfinite else "-",
        size(digest.resident_bytes),
        size(digest.device_bytes),
        f"{age(max(0.0, now - rank.written))} ago" if rank.written else "-",
        rank.host or "-",
    ]


def facts_of_rank(rank: Rank) -> dict[str, Any]:
    """Return one rank as JSON types; unrecorded values are null."""
    digest = rank.digest
    found = {
        "label": rank.label,
        "kind": rank.kind,
        "rank": rank.rank,
        "role": rank.role,
        "attempts": list(rank.attempts),
        "state": rank.state,
        "reason": rank.reason,
        "host": rank.host,
        "pid": rank.pid,
        "written": rank.written,
        "steps": digest.steps,
        "step": digest.last_step,
        "wall_time": digest.last_wall,
        "median_step_s": digest.median_step_s,
        "wait_ratio": digest.wait_ratio,
        "loss": digest.loss,
        "nonfinite": digest.nonfinite,
        "resident_bytes": digest.resident_bytes,
        "device_bytes": digest.device_bytes,
        "unreadable_records": rank.skipped,
    }
    return {name: plain(value) for name, value in found.items()}
