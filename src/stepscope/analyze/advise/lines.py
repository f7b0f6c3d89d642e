"""The user's lines that the training thread ran in the steps, most time first."""

from __future__ import annotations

from typing import Any

from stepscope.analyze.advise.finding import Abstain, Facts
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.spans import Spans
from stepscope.text import share, time

LISTED = 20


def lines_of(facts: Facts) -> list[dict[str, Any]]:
    """Return rank, file, line, function, time a step and share of it; empty if no stack was recorded.

    Times are of the line itself and of its calls into libraries, without other lines of the user's own.
    ``worker`` says whether it is a line of worker processes that load data: their times are summed.
    """
    try:
        every = facts.waited
    except Abstain:
        return []
    return [
        {
            "rank": waited.rank, "worker": worker, "file": one.line.file, "line": one.line.line,
            "function": one.line.function, "ns": round(one.time_ns / waited.count),
            "ratio": one.time_ns / _from_first_to_last(waited).measure_ns,
        }
        for waited in every
        if waited.lane >= 0 and waited.has_stacks
        for worker, lines in ((False, waited.lines), (True, waited.worker_lines))
        for one in lines(_from_first_to_last(waited), most=LISTED)
    ]  # fmt: skip


def _from_first_to_last(waited: Waited) -> Spans:
    return Spans.window(int(waited.steps.start_ns.min()), int(waited.steps.end_ns.max()))


def lines_text(lines: list[dict[str, Any]]) -> str:
    """Return the lines for people."""
    if not lines:
        return "no line of the program's own code was seen: no stacks were recorded or sampled, or too few\n"
    ranks = len({one["rank"] for one in lines}) > 1
    beside, lines = False, sorted(lines, key=lambda one: one["worker"])
    rows = ["where the training thread was, per step and what follows it:"]
    for one in lines:
        if one["worker"] and not beside:
            beside = True
            rows.append("where loader workers were meanwhile, all of them together:")
        rank = f"rank {one['rank']}  " if ranks else ""
        rows.append(
            f"{rank}{time(one['ns']):>10} {share(one['ratio']):>6}  {one['file']}:{one['line']} "
            f"{one['function']}"
        )
    return "\n".join(rows) + "\n"
