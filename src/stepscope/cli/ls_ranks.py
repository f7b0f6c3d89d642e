"""``stepscope ls --ranks``: one line per rank."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stepscope.cli.output import aligned
from stepscope.events.rank_file import unrecorded_text
from stepscope.health.finding import plain
from stepscope.store.info import age
from stepscope.text import duration, number, size

if TYPE_CHECKING:
    from stepscope.store import Log
    from stepscope.store.ranks import Rank, RankValue

HEAD = [
    *("RUN", "RANK", "ROLE", "ATTEMPT", "STATE", "STEP", "STEP TIME", "DATA WAIT"),
    *("LOSS", "NON-FINITE", "MEMORY", "DEVICE", "UPDATED", "HOST"),
]
VALUES_HEAD = ["RUN", "VALUE", "STEP", "RANKS", "MEAN", "MIN", "RANK", "MAX", "RANK"]
OF_RANK = ("label", "kind", "rank", "role", "attempts", "state", "reason", "host", "pid", "written")
RIGHT = {3, 5, 6, 7, 8, 9, 10, 11}


def table_of_ranks(log: Log, *, now: float) -> str:
    """Return one line per rank of every run that has several."""
    rows, values, notes = [HEAD], [VALUES_HEAD], []
    for run in filter(lambda run: run.ranks.several, log.runs()):
        members = run.ranks.members(now=now)
        rows += [[run.name, *line_of(rank, now)] for rank in members]
        values += [[run.name, *cells_of(value)] for value in run.ranks.values()]
        notes += [f"{run.name}: {lost}" for lost in [unrecorded_text(rank.facts for rank in members)] if lost]
    tables = [aligned(rows, right=RIGHT)]
    if len(values) > 1:
        tables.append(aligned(values, right={2, 3, 4, 5, 7}))
    return "\n\n".join([*tables, *notes])


def cells_of(value: RankValue) -> list[str]:
    """Return the newest values of a series of the ranks' own as text: mean, and who has least and most."""

    def text(one: float | None) -> str:
        return "-" if one is None else number(one)

    few = f", {value.nonfinite} not finite" if value.nonfinite else ""
    return [
        value.tag,
        f"{value.step:,}",
        f"{value.ranks}{few}",
        text(value.mean),
        text(value.minimum),
        value.minimum_rank or "-",
        text(value.maximum),
        value.maximum_rank or "-",
    ]


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
    facts = {name: getattr(rank, name) for name in OF_RANK} | asdict(rank.digest)
    facts |= {"step": facts.pop("last_step"), "wall_time": facts.pop("last_wall")}
    facts |= {"unreadable_records": rank.skipped, "unrecorded_values": rank.facts.get("unrecorded", 0)}
    return {name: plain(value) for name, value in facts.items()}
