"""communication-bound and slow-rank: the device waits for other devices and computes nothing meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.analyze.advise.cause import Cause
from stepscope.analyze.advise.finding import (
    WORTH,
    Abstain,
    Case,
    Facts,
    Finding,
    events_of,
    longest,
    place_of,
)
from stepscope.analyze.advise.remedy import quoted, show
from stepscope.analyze.advise.waited import Waited, Worth
from stepscope.analyze.parameter_server import bottleneck, task_steps, traffic
from stepscope.attribute.device import COMMUNICATION, rows_spans
from stepscope.attribute.source_lines import Share
from stepscope.attribute.spans import Ints, Spans
from stepscope.errors import EmptyTraceError
from stepscope.health.worth import severity_of
from stepscope.text import time
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among

if TYPE_CHECKING:
    from stepscope.analyze.ranks.clocks import Clocks
    from stepscope.analyze.ranks.waits import Waits

LATE, BY_CHANCE = 0.5, 0.6
"""One of n ranks must cause LATE + BY_CHANCE / n of the waiting to be called the slow one: of two ranks one
always causes half of it or more."""
MIN_RANKS = 2
APART, CLOCKS_NS = 0.2, 100_000
"""How far apart a collective may end on its ranks, relative to its duration and in ns, for clocks to
agree.
"""


def _cases(facts: Facts) -> list[Case | None]:
    """Replay the steps with communication that takes no time."""
    trace, cases, known = facts.timeline, list[Case | None](), False
    for waited in facts.waited:
        rows = _rows(trace, waited)
        known = known or len(rows) > 0
        if not len(rows):
            continue
        worth = waited.worth(device=rows) if waited.has_device else _on_host(trace, waited, rows)
        evidence: dict[str, Any] = {
            "exposed_communication_ratio": worth.cost_ns / waited.wall_ns,
            "exposed_communication_ns": round(worth.cost_ns / waited.count),
            "operations": longest(trace, rows),
        }
        case = Case(waited, worth, evidence, None, rows)
        if case.cost_ratio >= WORTH:
            cases.append(case)
    if not known:
        parts = facts.breakdown
        raise Abstain(parts.missing.get("communication", "no communication was recorded"))
    return cases


def _remedy(facts: Facts, case: Case) -> str:
    return about_servers(facts.timeline) or (
        "find out who waits for whom before changing the network, because a late rank looks the same: record "
        "all ranks and open them together; then try larger buckets, overlap with the backward pass, fewer or "
        "smaller exchanges"
    )


COMMUNICATION_BOUND = Cause(
    rule="communication-bound",
    idles=True,
    cases=_cases,
    say=lambda case: f"communication that no computation hides takes {case.cost}",
    remedies=_remedy,
    command=lambda facts, case: show(
        facts, "kernel", order="accelerator_micros" if case.waited.has_device else "micros"
    ),
    limits={"cost_ratio": WORTH},
    withdrawn=f"steps whose communication took no time would not be {WORTH:.0%} shorter",
)


def about_servers(trace: Trace) -> str:
    """Return the remedy if parameter servers hold the variables; empty if there are none."""
    tasks = traffic(task_steps(trace))
    if not any(task.server for task in tasks):
        return ""
    slow = bottleneck(tasks)
    return (
        f"{f'{slow} makes the workers wait longest: ' if slow else ''}spread the variables evenly over more "
        "servers, partition the largest of them, keep the gradients of embeddings sparse, or update less "
        "often; stepscope ranks says how long the workers wait for each server"
    )


def _rows(trace: Trace, waited: Waited) -> Any:
    rows = np.flatnonzero(among(*COMMUNICATION)[trace.kind] & (trace.rank == waited.rank))
    if waited.has_device:
        rows = rows[trace.device[rows] >= 0]
    return rows[waited.spans.within(trace.start_ns[rows], trace.end_ns[rows]) > 0]


def _on_host(trace: Trace, waited: Waited, rows: Any) -> Worth:
    """Return the worth of exchanges of a host without devices; hidden time costs nothing."""
    lanes = distinct(trace.lane[rows]).tolist()
    host = {int(lane): rows_spans(trace, rows[trace.lane[rows] == lane]) for lane in lanes}
    others = (trace.kind == Kind.HOST_OP) & (trace.rank == waited.rank) & (trace.device < 0)
    alone = rows_spans(trace, rows).minus(rows_spans(trace, np.flatnonzero(others)))
    worth = waited.worth(host=host)
    return replace(worth, cost_ns=alone.intersect(waited.spans).measure_ns)


def slow_rank(facts: Facts) -> Iterator[Finding]:
    """Attribute the waiting in joint collectives to the rank that came last to each.

    Raises:
        Abstain: Fewer than two ranks, no collective that several took part in, or clocks that disagree.
    """
    trace = facts.timeline
    every = {waited.rank: waited for waited in facts.waited}
    if len(every) < MIN_RANKS:
        raise Abstain("only one rank: who is late can be seen only from several ranks' profiles together")
    known = _waits(trace)
    if known is None:
        raise Abstain("no collectives that several ranks took part in, or clocks that disagree")
    measured, clocks = known
    waits, late, rows = measured.wait_ns, measured.last, measured.joint.row
    ranks = list(measured.joint.ranks)
    total = int(waits.sum())
    blamed = np.bincount(late, weights=waits.sum(axis=1), minlength=len(ranks))
    culprit = int(np.argmax(blamed))
    if ranks[culprit] not in every:
        return
    waited = every[ranks[culprit]]
    others = [n for n in range(len(ranks)) if n != culprit and ranks[n] in every]
    mine = late == culprit
    # Exchanges of several buckets may be waited for at once, which is no longer for that.
    begin = np.where(rows >= 0, trace.start_ns[rows], 0)
    waited_ns = {
        n: Spans.of(begin[mine, n], begin[mine, n] + waits[mine, n])
        .intersect(every[ranks[n]].spans)
        .measure_ns
        / every[ranks[n]].count
        for n in others
    }
    lost = float(np.median(list(waited_ns.values()))) if waited_ns else 0.0
    wall = float(np.median([one.wall_ns / one.count for one in every.values()]))
    least = LATE + BY_CHANCE / len(ranks)
    if not total or blamed[culprit] < least * total or lost < WORTH * wall:
        return
    if not _beyond_chance(trace, measured, culprit):
        return
    ratio = lost / wall
    gain, gain_ratio, how = _without_lateness(
        trace, measured, clocks, ranks[culprit], (min(waited_ns.values()), wall)
    )
    if gain_ratio < WORTH:  # others come late as well: nothing is won by this one alone
        return
    line = _line_before(waited, begin[mine, culprit], waits[mine].max(axis=1))
    yield Finding(
        "slow-rank",
        severity_of(ratio),
        f"rank {ranks[culprit]} arrives last at {int(mine.sum())} of {len(late)} collectives and the others "
        f"wait for it {time(lost)} of {time(wall)} a "
        "step" + (f"; before them it is in {line.line}" if line else ""),
        {
            "rank": ranks[culprit],
            "late_ratio": float(blamed[culprit] / total),
            "collectives": len(late),
            "steps": waited.count,
            "step_ns": round(wall),
            "waiting": [{"rank": ranks[n], "wait_ns": round(ns)} for n, ns in waited_ns.items()],
        },
        {"gain_ratio": WORTH, "late_ratio": least},
        f"compare rank {ranks[culprit]} with another one: its data, its share of the work, its machine "
        "(clocks, other programs, network card); the wait is not for the network itself",
        cost_ns=round(lost),
        cost_ratio=ratio,
        gain_ns=round(gain),
        gain_ratio=gain_ratio,
        gain_from=how,
        place=place_of(waited, line),
        events=events_of(trace, rows[mine][:, others].ravel()),
        command=f"stepscope ranks {quoted(facts)}",
        withdrawn=f"another rank arrives last as often, or the others wait for it for less than {WORTH:.0%} "
        "of a step",
    )


def _without_lateness(
    trace: Trace, waits: Waits, clocks: Clocks, culprit: int, least: tuple[float, float]
) -> tuple[float, float, str]:
    """Return the gain of a step, as time and share, if the late rank worked like the others, and how.

    Others may be late, too, so the steps of all ranks are replayed. If the replay is refused, the gain is at
    most the wait for this rank of the rank that waits least (``least``, and the length of a step).
    """
    from stepscope.analyze.ranks.what_if import like_the_others

    one = like_the_others(trace, waits, clocks, culprit)
    if one is None:
        return least[0], least[0] / least[1], "bound"
    gain = max(one.gain_ns, 0.0)
    return gain, gain / one.recorded_ns, "ranks"


def _beyond_chance(trace: Trace, measured: Waits, culprit: int) -> bool:
    """Return whether a rank comes last more often than it may by chance, in steps and in long waits.

    Equal ranks have long waits, too: a few of them make up most of all waiting. The shortest ones, which
    together are no matter, are decided by chance and tell nothing.
    """
    from stepscope.analyze.ranks.stragglers import chance_of_wins

    of_each = measured.wait_ns.sum(axis=1)
    order = np.argsort(-of_each, kind="stable")
    longer_ns = np.cumsum(of_each[order]) - of_each[order]
    used = of_each > measured.transfer_ns.max(axis=1)
    used[order[longer_ns >= (1 - WORTH) * of_each.sum()]] = False
    chance = 1 / len(measured.joint.ranks)
    if chance_of_wins(int((used & (measured.last == culprit)).sum()), int(used.sum()), chance) > CHANCE:
        return False
    step = trace.step[measured.joint.row.max(axis=1)]
    _, step = np.unique(np.where(step < 0, -1 - np.arange(len(step)), step), return_inverse=True)
    blamed = np.zeros((step.max() + 1, len(measured.joint.ranks)))
    np.add.at(blamed, (step, measured.last), of_each)
    return chance_of_wins(int((blamed.argmax(axis=1) == culprit).sum()), len(blamed), chance) <= CHANCE


CHANCE = 0.15
"""Most likely that one of equal ranks comes last as often: three of three exchanges of two ranks tell."""
LINE = 0.25
"""Least share of the time before its arrival that a line of the late rank must have to be named."""


def _line_before(waited: Waited, arrival: Ints, wait_ns: Ints) -> Share | None:
    """Return the line in which a rank spent most of its own time while others waited for it."""
    spans = Spans.of(arrival - wait_ns, arrival).intersect(waited.spans)
    lines = waited.lines(spans) if waited.lane >= 0 and len(spans) else []
    return lines[0] if lines and lines[0].time_ns >= LINE * spans.measure_ns else None


def _waits(trace: Trace) -> tuple[Waits, Clocks] | None:
    """Return who waited how long for whom, None if that is unknown."""
    # Most profiles are of one rank, which needs none of these.
    from stepscope.analyze.ranks.clocks import align_clocks
    from stepscope.analyze.ranks.joint import joint_collectives
    from stepscope.analyze.ranks.waits import measure_waits

    try:
        joint = joint_collectives(trace)
    except EmptyTraceError:
        return None
    clocks = align_clocks(trace, joint)
    measured = measure_waits(trace, joint, clocks)
    if clocks.one_host:
        return measured, clocks
    # A collective ends when all have come; ends that lie far apart are of clocks that nothing aligned.
    present = joint.row >= 0
    end = measured.arrival_ns + np.where(present, trace.duration_ns[joint.row], 0)
    apart = np.where(present, end, -(1 << 62)).max(1) - np.where(present, end, 1 << 62).min(1)
    usual = float(np.median(trace.duration_ns[joint.row][present]))
    return (measured, clocks) if float(np.median(apart)) <= APART * usual + CLOCKS_NS else None
